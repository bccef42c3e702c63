#!/usr/bin/env bash
# Real agent clients against the mock engine with --trace-tokens: how many tokens that the engine held each next prompt does not begin
# with, by turn and client. Expected: none.
#
#   CLIENTS, SCRIPTS, ANTIPHON_SHARED, SERVE_ARGS      as for scripts/agents.sh
#
# Server and clients run together in a network namespace of their own, one for each script. Exit status 1 if a session fails or loses
# a token; 0 with a reason where the sessions cannot be run at all.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
. "$(dirname "$self")/agents_common.sh"

# The inner half: runs inside the namespace, for one script. Leaves trace.jsonl and parts.txt (client, first line, last line) in LOGS.
inside() { # inside SCRIPT LOGS CLIENT...
  local script=$1 logs=$2 client before failed=0
  shift 2
  start_server "$logs/server.txt" --mock-script "$sessions/$script.jsonl" --trace-tokens "$logs/trace.jsonl" || return 1
  for client in "$@"; do
    before=$(wc -l <"$logs/trace.jsonl")
    if ! run_client "$client" >"$logs/${client//\//-}.txt" 2>&1; then
      echo "replay: $script: $client failed:" >&2
      tail -n 15 "$logs/${client//\//-}.txt" | sed 's/^/    /' >&2
      failed=1
    fi
    echo "$client $before $(wc -l <"$logs/trace.jsonl")" >>"$logs/parts.txt"
  done
  return "$failed"
}

if [ "${1:-}" = inside ]; then
  shift
  inside "$@"
  exit
fi

clients=${CLIENTS:-claude claude-old codex opencode pi openclaw sdks}
# shellcheck disable=SC2086
chosen=$(expand "anthropic_stream openai_chat_stream openai_responses_stream openai_agents_responses openai_agents_chat" $clients)
# shellcheck disable=SC2086
check_machine $clients

logs=$(mktemp -d "${TMPDIR:-/tmp}/antiphon-replay.XXXXXX")
failed=0
for script in ${SCRIPTS:-agent_session agent_session_parallel agent_session_interleaved}; do
  mkdir -p "$logs/$script"
  # shellcheck disable=SC2086
  "$sessions/isolated.sh" bash "$self" inside "${script%.jsonl}" "$logs/$script" $chosen || failed=1
done
"${PYTHON:-.venv/bin/python}" "$root/scripts/replay_table.py" "$logs"/*/ || failed=1
if [ "$failed" = 1 ]; then
  echo "replay: a session failed, or lost tokens; every output is in $logs"
  exit 1
fi
rm -rf "$logs"
