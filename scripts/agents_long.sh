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
play=(env -u PYTHONPATH "${PYTHON:-.venv/bin/python}" tests/agents/long_session.py)

row() { # row CLIENT STEP RESULT TURNS SECONDS
  printf '%-28s %-12s %-8s %5s %5s s\n' "$@"
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
      case $client in codex/builtin) CODEX_EXTRA_TOP+=$(full_catalog)$'\n' ;; esac
      if [ "$step" = again ]; then
        # It compacts when a turn has more tokens than this: a little more than it brings from the first step.
        CODEX_EXTRA_TOP+="model_auto_compact_token_limit = 8000" CODEX_ARGS="--json resume --last"
        export CODEX_ARGS
      fi
      run_client "$client"
      ;;
    openclaw/*)
      if [ "$step" = work ]; then
        run_client "$client"
      else
        # The shipped session with a setting more: compact behind a turn, and keep next to nothing beside the summary.
        (cd "$sessions" && sed 's|"skipBootstrap":true|&,"compaction":{"mode":"default","maxActiveTranscriptBytes":2000,"keepRecentTokens":50,"memoryFlush":{"enabled":false}}|' run_openclaw.sh |
          API=${client#*/} bash -s "$url")
      fi
      ;;
  esac
}

inside() { # inside CLIENT LOGS
  local client=$1 logs=$2 family=${1%%[-/]*} step result started turns text failed=0
  export W=$logs/cwd H=$logs/home TMPDIR=$logs
  mkdir -p "$W" "$H"
  "${play[@]}" script "$family" >"$logs/script.jsonl"
  start_server "$logs/server.txt" --mock-script "$logs/script.jsonl" --trace-tokens "$logs/tokens.jsonl" || return 1
  for step in work compact again; do
    case $step/$family in
      compact/codex) continue ;; # it compacts by itself, in the last step
      compact/openclaw) text=$("${play[@]}" prompt pause "$W") ;; # and it does so behind a turn
      compact/claude) text=/compact ;;
      *) text=$("${play[@]}" prompt "$step" "$W") ;;
    esac
    started=$SECONDS result=PASS
    : >"$logs/tokens.jsonl"
    (ask "$client" "$step" "$text") >"$logs/$step.txt" 2>&1 || result=FAIL
    cp "$logs/tokens.jsonl" "$logs/$step.tokens.jsonl"
    turns=$(wc -l <"$logs/tokens.jsonl")
    # Whether it did compact, the last step shows: it knows the summary.
    [ "$step" = compact ] && [ "$turns" -gt 0 ] && result=ran
    row "$client" "$step" "$result" "$turns" "$((SECONDS - started))"
  done
  "${play[@]}" check "$family" "$W"
}
if [ "${1:-}" = inside ]; then
  shift
  inside "$@"
  exit
fi
