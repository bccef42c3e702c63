#!/usr/bin/env bash
# Sourced by agents.sh and agents_cut.sh: where the clients are, and the server inside the namespace.
# Sets root, shared, sessions, server, url, installed. Needs `self`, the path of the script that sources it.
set -euo pipefail

root=$(dirname "$(dirname "$self")")
cd "$root"
shared=$(realpath -m "${ANTIPHON_SHARED:-../shared}")
sessions=$shared/clients
server=${ANTIPHON:-$root/.venv/bin/antiphon} # clients are launched in folders of their own
url=http://127.0.0.1:8000
installed=${CLIENTS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon-clients}

skip() { echo "agents: skipped: $*"; exit 0; }

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

start_server() { # start_server LOG FLAG...: runs the mock engine until this shell ends; status 1 if it does not come up
  local log=$1 started=$SECONDS
  shift
  unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY # there is no way to a proxy from here
  # shellcheck disable=SC2086
  "$server" serve --engine mock --http-port 8000 --state-dir "$(dirname "$log")/state" "$@" ${SERVE_ARGS:-} >"$log" 2>&1 </dev/null &
  pid=$! # global: the trap outlives this function
  trap 'kill "$pid" 2>/dev/null || true' EXIT
  until healthy; do
    if ! kill -0 "$pid" 2>/dev/null || [ $((SECONDS - started)) -gt 30 ]; then
      echo "agents: the server did not start:" >&2
      tail -n 20 "$log" >&2
      return 1
    fi
    sleep 0.5
  done
}

full_catalog() { # a line of Codex's settings: a full catalog entry, with which it offers its freeform apply_patch
  echo "model_catalog_json = \"$sessions/codex_catalog_full.json\""
}

run_client() { # run_client CLIENT: one session of one client, as shipped; its variant is behind the slash
  local client=$1 variant=${1#*/}
  case $client in
    claude) "$sessions/run_claude.sh" "$url" ;;
    claude-old) CLAUDE_BIN=$installed/cc/node_modules/@anthropic-ai/claude-code-linux-x64/claude "$sessions/run_claude.sh" "$url" ;;
    claude-tui) "${PYTHON:-.venv/bin/python}" "$sessions/run_claude_tui.py" "$url" ;;
    codex/plain) "$sessions/run_codex.sh" "$url" ;;
    # A full catalog entry gives Codex the freeform apply_patch tool and its lark grammar.
    codex/patch) CODEX_EXTRA_TOP="$(full_catalog)" "$sessions/run_codex.sh" "$url" ;;
    # With a token command of its own Codex asks /v1/models for the catalog.
    codex/auth)
      CODEX_EXTRA_PROVIDER='[model_providers.local.auth]
command = "echo"
args = ["sk-local-test"]' "$sessions/run_codex_auth.sh" "$url"
      ;;
    codex/builtin) "$sessions/run_codex_builtin.sh" "$url" ;; # over WebSocket
    opencode/*) API=$variant "$sessions/run_opencode.sh" "$url" ;;
    pi/*) API=$variant "$sessions/run_pi.sh" "$url" ;;
    openclaw/*) API=$variant "$sessions/run_openclaw.sh" "$url" ;;
    sdks/*) ONLY=$variant "$sessions/run_sdks.sh" "$url" ;;
  esac
}

check_machine() { # check_machine CLIENT...: skips where the sessions cannot run, fails where a client is missing
  local client
  local -A folder=([claude]=cc24 [claude-old]=cc [claude-tui]=cc24 [codex]=codex [opencode]=opencode [pi]=pi [openclaw]=openclaw [sdks]=venv)
  [ -x "$sessions/isolated.sh" ] || skip "the acceptance sessions are not at $sessions (set ANTIPHON_SHARED)"
  [ "$(id -u)" = 0 ] || skip "the sessions need root, for a network namespace without a way out"
  unshare -n true 2>/dev/null || skip "this machine does not allow network namespaces (unshare -n)"
  for client in "$@"; do
    client=${client%%/*}
    if [ ! -d "$installed/${folder[$client]:-$client}" ]; then
      echo "agents: client '$client' is not installed in $installed; \`make agents-setup\` does that" >&2
      exit 1
    fi
  done
}

expand() { # expand "SDK SESSION ..." CLIENT...: the sessions of the named clients
  local sdks=$1 name
  shift
  for name in "$@"; do
    case $name in
      claude | claude-old | claude-tui | */*) echo "$name" ;;
      codex) echo codex/plain codex/patch codex/auth codex/builtin ;;
      opencode) echo opencode/chat opencode/anthropic opencode/responses ;;
      pi) echo pi/openai-completions pi/anthropic-messages pi/openai-responses ;;
      openclaw) echo openclaw/openai-completions openclaw/anthropic-messages openclaw/openai-responses ;;
      sdks) printf 'sdks/%s\n' $sdks ;;
      *)
        echo "agents: unknown client '$name' (claude, claude-old, claude-tui, codex, opencode, pi, openclaw, sdks; or one variant, codex/plain)" >&2
        return 1
        ;;
    esac
  done
}
