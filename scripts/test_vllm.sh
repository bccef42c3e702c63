#!/usr/bin/env bash
# Text, tool calls, prefix reuse, KV events, cancellation, priority and structured output on a real vLLM behind a real frontend.
# usage: scripts/test_vllm.sh [pytest arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$(scripts/vllm_setup.sh)
if [ -z "$folder" ]; then
  echo "test-vllm: skipped, because vLLM is not here (the reason stands above)"
  exit 0
fi
ANTIPHON_VLLM="$folder" exec .venv/bin/python -m pytest -n 0 --timeout 600 -rs -v tests/vllm "$@"
