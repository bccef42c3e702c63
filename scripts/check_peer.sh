#!/usr/bin/env bash
# Runs `antiphon check` against our own server and against the peer, cut off from every network, and writes both results
# side by side into docs/conformance.md.
#
#   ANTIPHON_SHARED=../shared   where the peer's start-up script is (its folder `peer`)
#   PEER_DIR                    where the peer is installed (default: ~/.cache/antiphon-peer)
#   PYTHON                      the interpreter that has Antiphon (default: .venv/bin/python)
#
# Exit status 0 with a reason where the peer cannot be run.
set -euo pipefail
self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
root=$(dirname "$(dirname "$self")")
shared=${ANTIPHON_SHARED:-$root/../shared}
export PEER_DIR=${PEER_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-peer}
python=${PYTHON:-$root/.venv/bin/python}

skip() {
  echo "check-peer: skipped: $1"
  exit 0
}

# The inner half: runs inside the namespace.
inside() { # inside FOLDER: leaves peer.json there
  local folder=$1 port=9123 started pids
  started=$(bash "$shared/peer/up.sh" "$port" script q:qwen3_coder:qwen3)
  pids=$(sed -n 's/.*frontend \([0-9]*\) worker \([0-9]*\).*/\1 \2/p' <<<"$started")
  # shellcheck disable=SC2086,SC2064
  trap "kill $pids" EXIT
  "$python" -m antiphon check "http://127.0.0.1:$port" --steer b64 --json >"$folder/peer.json" || [ -s "$folder/peer.json" ]
}

if [ "${1:-}" = inside ]; then
  inside "$2"
  exit
fi

[ -f "$shared/peer/up.sh" ] || skip "$shared has no peer/up.sh; ANTIPHON_SHARED names the shared folder"
[ -d "$PEER_DIR/venv" ] || skip "the peer is not installed in $PEER_DIR; $shared/peer/setup.sh installs it"
[ "$(id -u)" = 0 ] || skip "a network namespace of its own needs root"

folder=$(mktemp -d "${TMPDIR:-/tmp}/antiphon-check.XXXXXX")
trap 'rm -rf "$folder"' EXIT
"$python" -m antiphon check --self --json >"$folder/ours.json" || [ -s "$folder/ours.json" ]
PYTHON=$python ANTIPHON_SHARED=$shared bash "$shared/clients/isolated.sh" bash "$self" inside "$folder"
"$python" "$root/scripts/conformance_doc.py" results "Antiphon=$folder/ours.json" "Dynamo 1.6.1=$folder/peer.json" \
  --note "Antiphon: \`antiphon check --self\`. Dynamo: its frontend with every agent flag, in front of a scripted worker (\`make check-peer\`)."
echo "check-peer: docs/conformance.md has the results"
