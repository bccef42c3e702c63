#!/usr/bin/env bash
# Real agent clients, each in a two-turn tool session against the mock engine, cut off from every network.
#
#   CLIENTS="claude codex ..."          which clients, all of their variants or one: codex/builtin
#   SCRIPTS="agent_session ..."         which scripts of the mock engine (names in the clients' folder)
#   DISPATCH="off on"                   without and with the typed side events of Chat (--enable-streaming-*-dispatch)
#   ANTIPHON_SHARED=../shared           where the clients' session scripts are (its folder `clients`)
#   SERVE_ARGS="..."                    further flags for the server
#
# Server and clients run together in a network namespace of their own, one for each script and DISPATCH. Exit status 1 if a session
# fails; 0 with a reason where the sessions cannot be run at all.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
. "$(dirname "$self")/agents_common.sh"

row() { # row SCRIPT DISPATCH CLIENT RESULT SECONDS
  printf '%-26s %-8s %-30s %-8s %5s s\n' "$@"
}

session() { # session CLIENT LOGS: one session, and that it took the way that it is there for
  local before
  before=$(grep -c 'responses socket' "$2/server.txt" || true)
  run_client "$1" || return 1
  case $1 in
    codex/builtin)
      [ "$(grep -c 'responses socket' "$2/server.txt")" -gt "$before" ] || { echo "it did not use the WebSocket"; return 1; }
      ;;
  esac
}

# The inner half: runs inside the namespace, for one script.
inside() { # inside SCRIPT DISPATCH LOGS CLIENT...
  local script=$1 dispatch=$2 logs=$3 client log started result failed=0 flags=()
  shift 3
  case $dispatch in on) flags=(--enable-streaming-tool-dispatch --enable-streaming-reasoning-dispatch) ;; esac
  start_server "$logs/server.txt" --mock-script "$sessions/$script.jsonl" "${flags[@]}" || return 1
  for client in "$@"; do
    log=$logs/${client//\//-}.txt
    started=$SECONDS
    result=PASS
    session "$client" "$logs" >"$log" 2>&1 || result=FAIL
    row "$script" "$dispatch" "$client" "$result" "$((SECONDS - started))"
    if [ "$result" = FAIL ]; then
      failed=1
      tail -n 15 "$log" | sed 's/^/    /'
    fi
  done
  return "$failed"
}

if [ "${1:-}" = inside ]; then
  shift
  inside "$@"
  exit
fi

clients=${CLIENTS:-claude claude-old claude-tui codex opencode pi openclaw sdks}
sdk_sessions="anthropic_stream anthropic_nonstream openai_chat_stream openai_chat_nonstream openai_responses_stream"
# shellcheck disable=SC2086
chosen=$(expand "$sdk_sessions openai_agents_responses openai_agents_chat openai_agents_stream claude_agent_sdk" $clients)
# shellcheck disable=SC2086
check_machine $clients

logs=$(mktemp -d "${TMPDIR:-/tmp}/antiphon-agents.XXXXXX")
failed=0
printf '%-26s %-8s %-30s %-8s %7s\n' SCRIPT DISPATCH CLIENT RESULT TIME
for script in ${SCRIPTS:-agent_session agent_session_parallel agent_session_interleaved}; do
  for dispatch in ${DISPATCH:-off on}; do
    mkdir -p "$logs/$script/$dispatch"
    # shellcheck disable=SC2086
    "$sessions/isolated.sh" bash "$self" inside "${script%.jsonl}" "$dispatch" "$logs/$script/$dispatch" $chosen || failed=1
  done
done
if [ "$failed" = 1 ]; then
  echo "agents: at least one session failed; every output is in $logs"
  exit 1
fi
rm -rf "$logs"
echo "agents: every session passed"
