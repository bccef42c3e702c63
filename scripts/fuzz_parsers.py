"""Coverage-guided fuzzing of the parsers of every format (`make fuzz`).

usage: python scripts/fuzz_parsers.py [--seconds N] [--corpus FOLDER]

Stops at the first input for which a property of tests/fuzz/parser_target.py does not hold, prints it and leaves the bytes in
the folder of --artifacts; exit status 0 when the time is over and all held.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the fuzzer; it ends the process itself when the time is over."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--runs", type=int, default=-1, help="stop after so many inputs; without limit by default")
    parser.add_argument("--seed", type=int, default=0, help="of the fuzzer; 0: another one each time")
    parser.add_argument("--corpus", type=Path, help="a folder of inputs to begin with and to add to")
    parser.add_argument("--artifacts", type=Path, default=Path.cwd(), help="where the bytes of a failing input go")
    options = parser.parse_args(arguments)
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        sys.stderr.write("fuzz: skipped: atheris has no wheel for this Python and machine\n")
        return 0
    sys.path.insert(0, str(ROOT / "tests" / "fuzz"))
    with atheris.instrument_imports(include=["antiphon_parsers", "antiphon_turns"]):
        target = importlib.import_module("parser_target")
    flags = [f"-max_total_time={options.seconds}", f"-runs={options.runs}", f"-artifact_prefix={options.artifacts}/", "-timeout=20"]
    flags += ["-max_len=48", "-len_control=0", "-print_final_stats=1", *([f"-seed={options.seed}"] if options.seed else [])]
    folder = [str(options.corpus)] if options.corpus else []
    atheris.Setup([sys.argv[0], *flags, *folder], target.check_bytes)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
