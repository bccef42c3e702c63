#!/usr/bin/env bash
# Real agent clients in one longer session each (tests/agents/long_session.py): seven turns with calls side by side, thoughts
# between calls, a call that fails and an edit tool whose text is full of markup; then a compaction, and work that goes on
# from the summary. The files the session leaves must be right byte for byte.
#
#   CLIENTS="claude codex/builtin ..."  which clients, all of their variants or one
#   ANTIPHON_SHARED, SERVE_ARGS         as in agents.sh
#
# Exit status 1 if a session fails; 0 with a reason where the sessions cannot be run at all.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
. "$(dirname "$self")/agents_common.sh"
play=("${PYTHON:-.venv/bin/python}" tests/agents/long_session.py)

row() { # row CLIENT STEP RESULT TURNS SECONDS
  printf '%-28s %-12s %-8s %5s %5s s\n' "$@"
}

changed() { # changed SCRIPT SED: a shipped session with a setting more
  (cd "$sessions" && sed "$2" "$1" | bash -s "$url")
}

ask() { # ask CLIENT STEP TEXT: one process of the client; all of a session share the working folder and the home
  local client=$1 step=$2
  export PROMPT=$3
  case $client in
    claude*)
      [ "$step" = work ] || export EXTRA=--continue
      run_client "$client"
      ;;
    codex/*)
      export CODEX_EXTRA_TOP=
      case $client in codex/builtin) CODEX_EXTRA_TOP=$(full_catalog) ;; esac
      if [ "$step" = again ]; then
        # It compacts when a turn has more tokens than this: a little more than it brings from the first step.
        CODEX_EXTRA_TOP+=$'\n'"model_auto_compact_token_limit = 8000"
        export CODEX_ARGS="--json resume --last"
      fi
      case $client/$step in
        codex/builtin/again) changed run_codex_builtin.sh "s|exec --skip-git-repo-check --json|& resume --last|" ;;
        *) run_client "$client" ;;
      esac
      ;;
    openclaw/*)
      export API=${client#*/}
      if [ "$step" = work ]; then
        run_client "$client"
      else
        # Compact behind a turn, and keep next to nothing beside the summary.
        changed run_openclaw.sh 's|"skipBootstrap":true|&,"compaction":{"mode":"default","maxActiveTranscriptBytes":2000,"keepRecentTokens":50,"memoryFlush":{"enabled":false}}|'
      fi
      ;;
  esac
}

# The inner half: runs inside the namespace, for one client.
inside() { # inside CLIENT LOGS
  local client=$1 logs=$2 family=${1%%[-/]*} script=${1%%[-/]*} step text started result turns failed=0
  export W=$logs/cwd H=$logs/home TMPDIR=$logs
  mkdir -p "$W" "$H"
  case $client in */openai-completions) script=openclaw-chat ;; esac
  "${play[@]}" script "$script" >"$logs/script.jsonl"
  start_server "$logs/server.txt" --mock-script "$logs/script.jsonl" --trace-tokens "$logs/tokens.jsonl" || return 1
  for step in work compact again; do
    case $step/$family in
      compact/codex) continue ;;                               # compacts in the midst of the last step
      compact/openclaw) text=$("${play[@]}" prompt pause "$W") ;; # compacts behind any turn
      compact/claude) text=/compact ;;
      *) text=$("${play[@]}" prompt "$step" "$W") ;;
    esac
    started=$SECONDS result=PASS
    : >"$logs/tokens.jsonl"
    (ask "$client" "$step" "$text") >"$logs/$step.txt" 2>&1 || result=FAIL
    cp "$logs/tokens.jsonl" "$logs/$step.jsonl"
    turns=$(wc -l <"$logs/$step.jsonl")
    if [ "$step" = work ] && [ "$turns" != 7 ]; then result=FAIL; fi # a turn was asked for twice
    # Nothing runs in it; whether it compacted, the last step shows, which goes on only from a summary.
    if [ "$step" = compact ] && [ "$turns" -gt 0 ]; then result=ran; fi
    row "$client" "$step" "$result" "$turns" "$((SECONDS - started))"
    if [ "$result" = FAIL ]; then
      failed=1
      tail -n 15 "$logs/$step.txt" | cut -c1-400 | sed 's/^/    /'
    fi
  done
  "${play[@]}" check "$W" || failed=1
  return "$failed"
}

if [ "${1:-}" = inside ]; then
  shift
  inside "$@"
  exit
fi

clients=${CLIENTS:-claude claude-old codex openclaw}
# shellcheck disable=SC2086
chosen=$(expand "" $clients | tr ' ' '\n' | grep -Ex 'claude|claude-old|codex/auth|codex/builtin|openclaw/.*' || true)
# shellcheck disable=SC2086
check_machine $clients
[ -n "$chosen" ] || skip "there is no longer session for $clients"

logs=$(mktemp -d "${TMPDIR:-/tmp}/antiphon-agents-long.XXXXXX")
failed=0
printf '%-28s %-12s %-8s %5s %7s\n' CLIENT STEP RESULT TURNS TIME
for client in $chosen; do
  mkdir -p "$logs/${client//\//-}"
  "$sessions/isolated.sh" bash "$self" inside "$client" "$logs/${client//\//-}" || failed=1
done
if [ "$failed" = 1 ]; then
  echo "agents: at least one longer session failed; every output is in $logs"
  exit 1
fi
rm -rf "$logs"
echo "agents: every longer session passed, its files byte for byte"
