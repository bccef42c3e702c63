#!/usr/bin/env bash
# Real agent clients, each in a two-turn tool session against the mock engine, cut off from every network.
#
#   CLIENTS="claude opencode pi sdks"   which clients
#   SCRIPTS="agent_session ..."         which scripts of the mock engine (names in the clients' folder)
#   ANTIPHON_SHARED=../shared           where the clients' session scripts are (its folder `clients`)
#   SERVE_ARGS="..."                    further flags for the server
#
# Server and clients run together in a network namespace of their own, one for each script. Exit status 1 if a session
# fails; 0 with a reason where the sessions cannot be run at all.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
root=$(dirname "$(dirname "$self")")
cd "$root"
sessions=$(realpath -m "${ANTIPHON_SHARED:-../shared}/clients")
server=${ANTIPHON:-.venv/bin/antiphon}
url=http://127.0.0.1:8000

skip() { echo "agents: skipped: $*"; exit 0; }

row() { # row SCRIPT CLIENT RESULT SECONDS
  printf '%-28s %-26s %-8s %5s s\n' "$@"
}

healthy() { # whether the server says that it takes requests
  "${PYTHON:-.venv/bin/python}" - "$url/health" <<'PY'
import sys, urllib.error, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    sys.exit(opener.open(sys.argv[1], timeout=2).status != 200)
except (urllib.error.URLError, OSError):
    sys.exit(1)
PY
}

session() { # session CLIENT LOG: one session of one client
  local client=$1 log=$2 variant=${1#*/}
  case $client in
    claude) "$sessions/run_claude.sh" "$url" ;;
    opencode/*) API=$variant "$sessions/run_opencode.sh" "$url" ;;
    pi/*) API=$variant "$sessions/run_pi.sh" "$url" ;;
    sdks/*) ONLY=$variant "$sessions/run_sdks.sh" "$url" ;;
  esac >"$log" 2>&1
}

# The inner half: runs inside the namespace, for one script.
inside() { # inside SCRIPT LOGS CLIENT...
  local script=$1 logs=$2 client log started=$SECONDS result failed=0
  shift 2
  unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY # there is no way to a proxy from here
  # shellcheck disable=SC2086
  "$server" serve --engine mock --mock-script "$sessions/$script.jsonl" --http-port 8000 ${SERVE_ARGS:-} \
    >"$logs/server.txt" 2>&1 </dev/null &
  pid=$! # global: the trap outlives this function
  trap 'kill "$pid" 2>/dev/null || true' EXIT
  until healthy; do
    if ! kill -0 "$pid" 2>/dev/null || [ $((SECONDS - started)) -gt 30 ]; then
      row "$script" "server" "FAIL" "$((SECONDS - started))"
      tail -n 20 "$logs/server.txt"
      return 1
    fi
    sleep 0.5
  done
  for client in "$@"; do
    log=$logs/${client//\//-}.txt
    started=$SECONDS
    result=PASS
    session "$client" "$log" || result=FAIL
    row "$script" "$client" "$result" "$((SECONDS - started))"
    if [ "$result" = FAIL ]; then
      failed=1
      tail -n 15 "$log" | sed 's/^/    /'
    fi
  done
  kill "$pid" 2>/dev/null || true
  wait "$pid" || true
  return "$failed"
}

if [ "${1:-}" = inside ]; then
  shift
  inside "$@"
  exit
fi

expand() { # the sessions of the named clients
  local name
  for name in "$@"; do
    case $name in
      claude) echo claude ;;
      opencode) echo opencode/chat opencode/anthropic ;;
      pi) echo pi/openai-completions pi/anthropic-messages ;;
      sdks)
        echo sdks/anthropic_stream sdks/anthropic_nonstream sdks/openai_chat_stream sdks/openai_chat_nonstream \
          sdks/claude_agent_sdk
        ;;
      *)
        echo "agents: unknown client '$name' (claude, opencode, pi, sdks)" >&2
        return 1
        ;;
    esac
  done
}

[ -x "$sessions/isolated.sh" ] || skip "the acceptance sessions are not at $sessions (set ANTIPHON_SHARED)"
[ "$(id -u)" = 0 ] || skip "the sessions need root, for a network namespace without a way out"
unshare -n true 2>/dev/null || skip "this machine does not allow network namespaces (unshare -n)"

installed=${CLIENTS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-clients}
declare -A folder=([claude]=cc24 [opencode]=opencode [pi]=pi [sdks]=venv)
clients=${CLIENTS:-claude opencode pi sdks}
chosen=$(expand $clients)
for client in $clients; do
  if [ ! -d "$installed/${folder[$client]}" ]; then
    echo "agents: client '$client' is not installed in $installed; \`make agents-setup\` does that" >&2
    exit 1
  fi
done

logs=$(mktemp -d "${TMPDIR:-/tmp}/antiphon-agents.XXXXXX")
failed=0
printf '%-28s %-26s %-8s %7s\n' SCRIPT CLIENT RESULT TIME
for script in ${SCRIPTS:-agent_session agent_session_parallel agent_session_interleaved}; do
  mkdir -p "$logs/$script"
  # shellcheck disable=SC2086
  "$sessions/isolated.sh" bash "$self" inside "${script%.jsonl}" "$logs/$script" $chosen || failed=1
done
if [ "$failed" = 1 ]; then
  echo "agents: at least one session failed; every output is in $logs"
  exit 1
fi
rm -rf "$logs"
echo "agents: every session passed"
