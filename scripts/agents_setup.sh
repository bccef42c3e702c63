#!/usr/bin/env bash
# Installs the pinned agent clients that `make agents` runs, into CLIENTS_DIR (default: antiphon-clients in the user's
# cache folder). usage: scripts/agents_setup.sh [claude|claude-old|codex|opencode|pi|openclaw|sdks ...]      needs npm
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
installer=${ANTIPHON_SHARED:-../shared}/clients/install.sh
if [ ! -x "$installer" ]; then
  echo "The acceptance clients live in the shared folder, and $installer is not there. Set ANTIPHON_SHARED to its place." >&2
  exit 1
fi
if [ $# -eq 0 ]; then set -- claude claude-old codex opencode pi openclaw sdks; fi
exec "$installer" "$@"
