#!/usr/bin/env bash
# Real agent clients, each in a two-turn tool session against the mock engine, cut off from every network.
#
#   CLIENTS="claude codex ..."          which clients, all of their variants or one: codex/builtin
#   SCRIPTS="agent_session ..."         which scripts of the mock engine (names in the clients' folder)
#   ANTIPHON_SHARED=../shared           where the clients' session scripts are (its folder `clients`)
#   SERVE_ARGS="..."                    further flags for the server
#
# Server and clients run together in a network namespace of their own, one for each script. Exit status 1 if a session
# fails; 0 with a reason where the sessions cannot be run at all.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
. "$(dirname "$self")/agents_common.sh"

row() { # row SCRIPT CLIENT RESULT SECONDS
  printf '%-28s %-26s %-8s %5s s\n' "$@"
}

# The inner half: runs inside the namespace, for one script.
inside() { # inside SCRIPT LOGS CLIENT...
  local script=$1 logs=$2 client log started result failed=0
  shift 2
  start_server "$logs/server.txt" --mock-script "$sessions/$script.jsonl" || return 1
  for client in "$@"; do
    log=$logs/${client//\//-}.txt
    started=$SECONDS
    result=PASS
    run_client "$client" >"$log" 2>&1 || result=FAIL
    row "$script" "$client" "$result" "$((SECONDS - started))"
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
