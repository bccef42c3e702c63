"""Runs the benchmarks and prints their tables. usage: python -m bench.run [--only parsers|frontend|ttft] [--json FILE]"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.floor import floor_figures, floor_table
from bench.frontend import PACE_MS, STREAMS, frontend_figures, frontend_table
from bench.measure import BenchError, this_machine
from bench.parsers import parser_figures, parser_table
from bench.ttft import encode_figure, ttft_figures, ttft_table

PARTS = ("parsers", "frontend", "ttft")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 when a figure could not be taken."""
    options = _options(arguments)
    machine = this_machine()
    results: dict[str, Any] = {"machine": machine}
    started = time.monotonic()
    _say(str(machine))
    try:
        for part in options.only or PARTS:
            results[part] = _run(part)
    except BenchError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    _say(f"\n{time.monotonic() - started:.0f} s in all. bench/README.md says what the figures mean.")
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)) + b"\n")
        _say(f"Written: {options.json}")
    return 0


def _run(part: str) -> Any:
    if part == "parsers":
        parsers = parser_figures()
        _say("\nParser CPU per 4-character delta of one string argument\n\n" + parser_table(parsers))
        return parsers
    if part == "frontend":
        frontend = frontend_figures()
        _say("\nFrontend CPU per streamed token, mock engine included\n\n" + frontend_table(frontend))
        floor = floor_figures(streams=STREAMS, pace_ms=PACE_MS)
        _say("\nA bare event loop that only waits and writes, on this machine\n\n" + floor_table(floor))
        return {"figures": frontend, "floor": floor}
    ttft, encode = ttft_figures(), encode_figure()
    _say("\nTime to first token that the frontend adds\n\n" + ttft_table(ttft))
    plain = f"{encode.p50_ms:.1f} ms, CPU {encode.cpu_ms:.1f} ms"
    _say(f"\nPlain tokenizer library on the agent prompt ({encode.prompt_tokens:,} tokens): {plain}")
    return {"figures": ttft, "plain_encode": encode}


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="Parser and frontend figures of this machine.")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone (may be repeated)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
