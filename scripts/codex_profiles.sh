#!/usr/bin/env bash
# Runs scripts/codex_profiles.py with the installed Codex, in a network namespace without a way out.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
. "$(dirname "$self")/agents_common.sh"

codex=$installed/codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex
check_machine
[ -x "$codex" ] || skip "Codex is not installed in $installed; \`scripts/agents_setup.sh codex\` does that"
exec "$sessions/isolated.sh" "${PYTHON:-.venv/bin/python}" scripts/codex_profiles.py "$codex"
