#!/usr/bin/env bash
# Runs a benchmark beside the peer, cut off from every network. usage: scripts/bench_peer.sh dispatch|prompt|frontend [ARG ...]
#
#   ANTIPHON_SHARED=../shared   where the peer's scripts are (its folder `peer`)
#   PEER_DIR                    where the peer is installed (default: ~/.cache/antiphon-peer)
#   PYTHON                      the interpreter that has Antiphon (default: .venv/bin/python)
#
# Where the peer cannot be run the reason is printed: `dispatch` then measures Antiphon alone, the others do nothing, with exit status 0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
part=$1
case $part in
  dispatch) module=bench.dispatch ;;
  prompt) module=bench.prompt_cost ;;
  frontend) module=bench.frontend_peer ;;
  *) echo "bench_peer.sh: no benchmark is called $part" >&2; exit 2 ;;
esac
shift
shared=$(realpath -m "${ANTIPHON_SHARED:-../shared}")
export PEER_DIR=${PEER_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-peer}
python=${PYTHON:-.venv/bin/python}

alone() {
  echo "bench-$part: the peer is skipped: $1"
  [ "$part" = dispatch ] || exit 0
  exec "$python" -m "$module" "${@:2}"
}

[ -f "$shared/peer/up.sh" ] || alone "$shared has no peer/up.sh; ANTIPHON_SHARED names the shared folder" "$@"
[ -d "$PEER_DIR/venv" ] && [ -d "$PEER_DIR/model_q" ] || alone "it is not installed in $PEER_DIR; $shared/peer/setup.sh installs it" "$@"
[ "$(id -u)" = 0 ] || alone "a network namespace of its own needs root" "$@"
exec bash "$shared/clients/isolated.sh" "$python" -m "$module" --peer "$shared/peer" "$@"
