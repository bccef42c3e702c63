#!/usr/bin/env bash
# Real agent clients in sessions whose first tool call is cut by the token limit (tests/agents/cut_calls.jsonl).
# The cut command would write cut.txt; the model then makes a good call, and answers when that has run.
#
#   CLIENTS="claude codex ..."          which clients, all of their variants or one
#   MODES="honest recover ..."          --cut-calls, with `incremental-` in front also --argument-streaming incremental
#   CUTS="opener name ..."              where the call is cut: behind <tool_call>, behind the name, inside the value, before
#                                       </parameter>, before </function>; `second`: a good call, then a cut one;
#                                       `silent`: inside the value, with no text before the call; `nothing`: complete at the
#                                       limit; `always`: every call, inside the value
#   ANTIPHON_SHARED, SERVE_ARGS         as in agents.sh
#
# tests/agents/cut_outcomes.txt says what must become of each session; nothing of a cut call may run, and no session may go on for
# ever. Exit status 1 if one does otherwise; 0 with a reason where the sessions cannot be run at all.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
. "$(dirname "$self")/agents_common.sh"
command='echo TOOLRAN_$((6*7)) | tee ran.txt' # the shell computes 42, so text alone cannot fake that it ran
limit=${LIMIT:-90}                            # seconds a session may take
most_turns=8                                  # and turns; three recoveries of ours and those of the client's own are fewer

row() { # row MODE CUT CLIENT OUTCOME RESULT TURNS SECONDS
  printf '%-20s %-10s %-38s %-9s %-6s %5s %7s\n' "$@"
}

session() { # session CLIENT FOLDER: one session of one client, in FOLDER/cwd
  export W=$2/cwd H=$2/home LIMIT=$limit TMPDIR=$2
  case $1 in
    sdks/*) (cd "$W" && timeout "$limit" "$installed/venv/bin/python" "$root/tests/agents/sdk_cut_sessions.py" "$url" "${1#*/}") ;;
    *) run_client "$1" ;;
  esac
}

wanted() { # wanted MODE CUT CLIENT: the outcomes that are right, from the table
  local mode cut client outcomes
  while read -r mode cut client outcomes; do
    case $mode in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2254 # they are patterns
    case $1 in $mode) ;; *) continue ;; esac
    # shellcheck disable=SC2254
    case $2 in $cut) ;; *) continue ;; esac
    # shellcheck disable=SC2254
    case $3 in $client) ;; *) continue ;; esac
    if [ "$outcomes" = honest ]; then wanted honest "$2" "$3"; else echo "$outcomes"; fi
    return
  done <tests/agents/cut_outcomes.txt
  echo "agents: no line of the table fits $*" >&2
  return 1
}

outcome() { # outcome STATUS TURNS FOLDER: what happened to one session
  if [ -n "$(find "$3" -name cut.txt -print -quit)" ]; then
    echo RAN-CUT
  elif [ "$2" = 0 ]; then
    echo silent # it never asked for a turn
  elif grep -q 'client exit status 124' "$3/log.txt" || [ "$1" = 124 ]; then
    echo hangs
  elif [ "$2" -gt "$most_turns" ]; then
    echo unbounded
  elif [ "$1" = 0 ]; then
    echo goes-on
  elif [ -e "$3/cwd/ran.txt" ]; then
    echo ran
  elif grep -Eq 'client exit status|^Traceback' "$3/log.txt"; then
    echo error
  else
    echo quiet
  fi
}

# The inner half: runs inside the namespace, for one mode.
inside() { # inside MODE LOGS CLIENT...
  local mode=$1 logs=$2 cut client folder started status got want result turns failed=0
  shift 2
  local flags=(--mock-script tests/agents/cut_calls.jsonl --trace-tokens "$logs/tokens.jsonl" --cut-calls "${mode#incremental-}")
  case $mode in incremental-*) flags+=(--argument-streaming incremental) ;; esac
  start_server "$logs/server.txt" "${flags[@]}" || return 1
  for cut in ${CUTS:-opener name value silent parameter function second nothing always}; do
    for client in "$@"; do
      # The client's name tells conversations apart where a client sends no session id.
      export PROMPT="Use the shell tool to run exactly this command: <<cmd>>$command<<end>> Then say so, $client. ((cut:$cut))"
      folder=$logs/$cut/${client//\//-}
      mkdir -p "$folder/cwd" "$folder/home"
      : >"$logs/tokens.jsonl"
      started=$SECONDS status=0
      (session "$client" "$folder") >"$folder/log.txt" 2>&1 || status=$?
      turns=$(wc -l <"$logs/tokens.jsonl")
      got=$(outcome "$status" "$turns" "$folder") want=$(wanted "$mode" "$cut" "$client") result=FAIL
      case ,$want, in *,"$got",*) result=PASS ;; esac
      row "$mode" "$cut" "$client" "$got" "$result" "$turns" "$((SECONDS - started)) s"
      if [ "$result" = FAIL ]; then
        failed=1
        tail -n 15 "$folder/log.txt" | sed 's/^/    /'
      fi
    done
  done
  return "$failed"
}

if [ "${1:-}" = inside ]; then
  shift
  inside "$@"
  exit
fi

clients=${CLIENTS:-claude claude-old codex opencode pi openclaw sdks}
sdk_sessions="anthropic_stream anthropic_nonstream anthropic_tool_runner openai_chat_stream openai_chat_nonstream
openai_responses_stream openai_responses_nonstream openai_agents_chat_stream openai_agents_chat
openai_agents_stream openai_agents_responses claude_agent_sdk"
# shellcheck disable=SC2086
chosen=$(expand "$sdk_sessions" $clients | tr ' ' '\n' | grep -vx claude-tui || true) # nobody there to answer its prompt
# shellcheck disable=SC2086
check_machine $clients
[ -n "$chosen" ] || skip "there is no session with a cut call for $clients"

logs=$(mktemp -d "${TMPDIR:-/tmp}/antiphon-agents-cut.XXXXXX")
failed=0
row MODE CUT CLIENT OUTCOME RESULT TURNS TIME
for mode in ${MODES:-honest recover incremental-honest incremental-recover}; do
  mkdir -p "$logs/$mode"
  # shellcheck disable=SC2086
  "$sessions/isolated.sh" bash "$self" inside "$mode" "$logs/$mode" $chosen || failed=1
done
if [ "$failed" = 1 ]; then
  echo "agents: at least one session with a cut call failed; every output is in $logs"
  exit 1
fi
rm -rf "$logs"
echo "agents: every session with a cut call ended as it should, and nothing of a cut call ran"
