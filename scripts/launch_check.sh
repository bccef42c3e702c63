#!/usr/bin/env bash
# `antiphon launch` with the real clients: each is launched against the mock engine, must run a shell command that the model asks
# for, and must show the model's last words. One more row lets the launch start the server itself.
#
#   CLIENTS="claude codex opencode openclaw pi"   which clients
#   WIRES="messages chat responses"               over which wires, for the clients that speak several
#   ANTIPHON_SHARED=../shared                     where the mock's script is (clients/agent_session.jsonl)
#   CLIENTS_DIR=...                               where `make agents-setup` installed the clients
#
# Everything runs in a network namespace without a way out. Clients that are not installed are skipped, with a note. Exit status 1
# if a session fails; 0 with a reason where none can be run.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
. "$(dirname "$self")/agents_common.sh"

# shellcheck disable=SC2016 # the client's shell computes it, so that text alone cannot fake that the command ran
command='echo TOOLRAN_$((6*7)) | tee ran.txt'
prompt="Use the shell tool to run exactly this command: <<cmd>>$command<<end>> then reply with the words FINAL and OK joined by one underscore."
claude=$installed/cc24/node_modules/@anthropic-ai/claude-code-linux-x64/claude
codex=$installed/codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex
opencode=$installed/opencode/node_modules/opencode-linux-x64/bin/opencode
openclaw=$installed/openclaw/node_modules/.bin/openclaw
pi=$installed/pi/node_modules/.bin/pi

row() { # row CLIENT WIRE SERVER RESULT SECONDS
  printf '%-10s %-10s %-9s %-8s %5s s\n' "$@"
}

launch() { # launch CLIENT WIRE FOLDER FLAG... -- ARGUMENT...
  local client=$1 wire=$2 folder=$3
  shift 3
  (
    cd "$folder/project"
    PATH=$installed/node24/node_modules/node/bin:$PATH HOME=$folder/home IS_SANDBOX=1 PI_OFFLINE=1 OPENCLAW_OFFLINE=1 \
      OPENCODE_DISABLE_LSP_DOWNLOAD=1 OPENCODE_DISABLE_DEFAULT_PLUGINS=1 \
      timeout "${LIMIT:-120}" "$server" launch "$client" --client-path "${!client}" --state-dir "$folder/state" --wire "$wire" "$@" </dev/null
  )
}

session() { # session CLIENT WIRE FOLDER FLAG...: one launch; status 0 if the command ran and the last words came
  local client=$1 wire=$2 folder=$3
  mkdir -p "$folder/project" "$folder/home"
  case $client in
    claude) launch "$@" -- -p "$prompt" --dangerously-skip-permissions ;;
    codex) launch "$@" -- exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --json "$prompt" ;;
    opencode) launch "$@" -- run --auto "$prompt" ;;
    pi) launch "$@" -- -p "$prompt" ;;
    openclaw)
      # What a user would allow in OpenClaw's own settings; a launch keeps it.
      mkdir -p "$folder/state/launch/openclaw"
      echo '{"tools": {"exec": {"host": "gateway", "security": "full", "ask": "off"}}}' >"$folder/state/launch/openclaw/openclaw.json"
      launch "$@" -- agent --local --agent main --session-id s1 --message "$prompt"
      ;;
  esac >"$folder/out.txt" 2>"$folder/err.txt" || { echo "exit status $?" >>"$folder/err.txt"; return 1; }
  grep -q TOOLRAN_42 "$folder/project/ran.txt" && grep -q FINAL_OK "$folder/out.txt" && ! grep -qi 'metadata .* not found' "$folder/out.txt" "$folder/err.txt"
}

check() { # check CLIENT WIRE SERVER FLAG...: runs a session and prints its row
  local client=$1 wire=$2 who=$3 folder result=PASS started=$SECONDS
  folder=$logs/$client-$wire-$who
  shift 3
  session "$client" "$wire" "$folder" "$@" || result=FAIL
  row "$client" "$wire" "$who" "$result" "$((SECONDS - started))"
  [ "$result" = PASS ] && return
  failed=1
  tail -n 12 "$folder/out.txt" "$folder/err.txt" | cut -c1-400 | sed 's/^/    /'
}

catalog() { # whether Codex reads the entry of the server's catalog as it was meant
  local folder=$logs/codex-catalog result=PASS started=$SECONDS
  mkdir -p "$folder/project" "$folder/home"
  launch codex responses "$folder" --url "$url" -- debug models >"$folder/out.txt" 2>"$folder/err.txt" || result=FAIL
  "${PYTHON:-.venv/bin/python}" - "$folder/out.txt" <<'PY' 2>>"$folder/err.txt" || result=FAIL
import json, sys
(entry,) = json.load(open(sys.argv[1]))["models"]
meant = {"slug": "antiphon-mock", "apply_patch_tool_type": "freeform", "default_reasoning_level": "medium", "context_window": 262144}
sys.exit({key: entry.get(key) for key in meant} != meant)
PY
  row codex "(catalog)" running "$result" "$((SECONDS - started))"
  [ "$result" = PASS ] || failed=1
}

# The inner half: runs inside the namespace.
inside() { # inside LOGS CLIENT...
  local client wire script=$sessions/agent_session.jsonl
  logs=$1 failed=0
  shift
  start_server "$logs/server.txt" --mock-script "$script" || return 1
  for client in "$@"; do
    case $client in
      claude) check claude messages running --url "$url" ;;
      codex)
        catalog
        check codex responses running --url "$url"
        ;;
      *) for wire in ${WIRES:-messages chat responses}; do check "$client" "$wire" running --url "$url"; done ;;
    esac
  done
  case $1 in codex) wire=responses ;; *) wire=messages ;; esac
  check "$1" "$wire" started --url http://127.0.0.1:8001 --engine mock --mock-script "$script"
  return "$failed"
}

if [ "${1:-}" = inside ]; then
  shift
  inside "$@"
  exit
fi

check_machine
present=()
for client in ${CLIENTS:-claude codex opencode openclaw pi}; do
  if [ -x "${!client:-}" ]; then
    present+=("$client")
  else
    echo "launch-check: $client is not installed in $installed: left out (scripts/agents_setup.sh $client installs it)"
  fi
done
[ ${#present[@]} -gt 0 ] || skip "no client is installed in $installed; \`make agents-setup\` does that"

logs=$(mktemp -d "${TMPDIR:-/tmp}/antiphon-launch.XXXXXX")
printf '%-10s %-10s %-9s %-8s %7s\n' CLIENT WIRE SERVER RESULT TIME
if "$sessions/isolated.sh" bash "$self" inside "$logs" "${present[@]}"; then
  rm -rf "$logs"
  echo "launch-check: every session passed"
else
  echo "launch-check: at least one session failed; every output is in $logs"
  exit 1
fi
