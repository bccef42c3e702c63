#!/usr/bin/env bash
# Brings the Python parsers of two other servers, without their engines, for `make bench-parsers`. usage: scripts/peer_parsers.sh
# Prints the folder it made, or nothing (and the reason on standard error) where they cannot be had.
# About 400 MB are downloaded, once; the folder lies outside the repository (PEER_PARSERS names another).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${PEER_PARSERS:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon/peer-parsers}
wheels=(vllm==0.33.0 sglang==0.5.23)
stamp="${wheels[*]} $(cksum <requirements/peers.txt)"
if [ -f "$folder/stamp" ] && [ "$(cat "$folder/stamp")" = "$stamp" ]; then
  echo "$folder"
  exit
fi

python=${PYTHON:-.venv/bin/python}
mkdir -p "$folder"
skip() {
  printf 'peer parsers: skipped: %s (%s)\n' "$1" "$folder/setup.log" >&2
  exit 0
}
exec 3>&1 >"$folder/setup.log" 2> >(tee -a "$folder/setup.log" >&2)
"$python" -m venv "$folder/venv" || skip "no environment of their own could be made"
"$folder/venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps -r requirements/peers.txt ||
  skip "their packages could not be installed"
"$folder/venv/bin/python" -m pip download --quiet --no-input --disable-pip-version-check --no-deps --only-binary=:all: \
  --dest "$folder/wheels" "${wheels[@]}" || skip "their wheels could not be downloaded"
"$folder/venv/bin/python" - "$folder" <<'PY' || skip "their wheels could not be unpacked"
import sys
import zipfile
from pathlib import Path

folder = Path(sys.argv[1])
for wheel in (folder / "wheels").glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked", [name for name in archive.namelist() if name.endswith(".py")])
    wheel.unlink()
PY
echo "$stamp" >"$folder/stamp"
echo "$folder" >&3
