"""When blocks, items and calls leave after their closing tokens, at a known pace, beside the peer.

usage: python -m bench.dispatch [--peer FOLDER] [--turns N] [--long N]   (`make bench-dispatch`; FOLDER has the peer's up.sh)

Exit status 1 when one of our calls misses the target, or comes out of order.
"""

import argparse
import contextlib
import json
import os
import struct
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path

import msgspec

from antiphon.config import Settings
from antiphon.serve import build
from antiphon_tokenizers import Tokenizer, load_model_files
from bench.arrivals import WIRES, Frames, Mark, Wire, ask, heartbeats, marks, request
from bench.measure import BenchError, middle, table, this_machine
from bench.peer import NAME, Peer, model_folder, stop_when_told
from bench.prompts import MODEL
from bench.scripted import INTERLEAVED, Clock, Part, Script, long_argument, prompt, rule
from bench.server import MockServer

TOKEN_MS = 5.0
TARGET_MS = 20.0
ARGUMENT_CHARACTERS = 2_000
KEEPALIVE_SECONDS = 1.0
PEER_PORT = 9124
WHOLE, INCREMENTAL = "whole", "incremental"
_PAIR = struct.Struct("<qq")


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from a token to what it makes known; None: it never came."""

    server: str
    wire: Wire
    script: str
    part: str
    what: str
    ms: float | None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One turn as a whole."""

    server: str
    wire: Wire
    script: str
    in_order: bool
    silence_ms: float
    heartbeats: int


class Speaker(msgspec.Struct, frozen=True):
    """One server under test: `handed` makes the times at which tokens were given out of the engine's (asked, slept) pairs."""

    name: str
    address: tuple[str, int]
    model: str
    times: Path
    handed: Callable[[Sequence[tuple[int, int]]], list[int]]
    tokenizer: Tokenizer


def before_each(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Our mock engine sleeps before each token, the one that ends the turn included."""
    return [slept for _, slept in pairs]


def behind_each(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The peer's scripted worker sleeps behind each token; the turn ends after the last sleep."""
    return [pairs[0][0], *(slept for _, slept in pairs)]


def take(speaker: Speaker, wire: Wire, said: Script) -> tuple[list[Lag], Seen]:
    """One turn. Raises BenchError when the engine's tokens are not those of the script."""
    clock = Clock(said, speaker.tokenizer)
    skip = speaker.times.stat().st_size if speaker.times.exists() else 0
    frames = ask(speaker.address, wire, request(wire, speaker.model, prompt(said, TOKEN_MS)))
    pairs = list(_PAIR.iter_unpack(speaker.times.read_bytes()[skip:]))
    handed = speaker.handed(pairs) if pairs else []
    if len(handed) != len(clock.tokens) + 1:
        raise BenchError(f"{speaker.name}: the engine gave {len(handed)} tokens, not the script's {len(clock.tokens)} and its end")
    told = marks(wire, frames)
    lags = [
        Lag(server=speaker.name, wire=wire, script=said.name, part=f"{number} {part.kind}", what=what, ms=ms)
        for number, part in enumerate(said.parts, 1)
        for what, ms in part_lags(part, _nth_call(said, part), told, lambda place: handed[clock.token_at(place)])
    ]
    seen = Seen(
        server=speaker.name,
        wire=wire,
        script=said.name,
        in_order=in_order(said, told, closes=wire != "chat"),
        silence_ms=silence_ms(frames),
        heartbeats=heartbeats(frames),
    )
    return lags, seen


def _nth_call(said: Script, part: Part) -> int:
    return [other for other in said.parts if other.kind == "call"].index(part) if part.kind == "call" else 0


def part_lags(part: Part, nth: int, told: Sequence[Mark], handed: Callable[[int], int]) -> Iterator[tuple[str, float | None]]:
    """(what, milliseconds): a call's first argument byte and the whole call, or the last byte of a text and the end of its block."""

    def lag(at: int | None, place: int) -> float | None:
        return None if at is None else (at - handed(place)) / 1e6

    if part.kind == "call":
        calls = list(dict.fromkeys(mark.block for mark in told if mark.kind == "call"))
        own = [mark for mark in told if nth < len(calls) and mark.block == calls[nth]]
        yield "first byte", lag(next((mark.at for mark in own if mark.text), None), part.first_value)
        yield "whole call", lag(whole_at(own), part.closing)
        return
    added = [mark for mark in told if mark.what == "add" and mark.kind == part.kind]
    place = "".join(mark.text for mark in added).find(part.content)
    holder, rest = None, place + len(part.content)
    for mark in added if place >= 0 else ():
        rest -= len(mark.text)
        if rest <= 0:
            holder = mark
            break
    yield "last byte", lag(holder.at if holder else None, part.last_byte)
    if any(mark.what == "close" for mark in told):
        closed = next((mark.at for mark in told if holder and mark.what == "close" and mark.block == holder.block), None)
        yield "closed", lag(closed, part.closing)


def whole_at(own: Sequence[Mark]) -> int | None:
    """When a call may be executed: its block is closed; on Chat, its arguments are whole JSON."""
    if any(mark.what == "close" for mark in own):
        return next(mark.at for mark in own if mark.what == "close")
    arguments = ""
    for mark in own:
        arguments += mark.text
        with contextlib.suppress(ValueError):
            if mark.text and json.loads(arguments):
                return mark.at
    return None


def in_order(said: Script, told: Sequence[Mark], *, closes: bool) -> bool:
    """Whether the blocks came in the order of the turn, nothing but white space between them, each closed before the next began."""
    filled = {mark.block for mark in told if mark.text.strip()}
    told = [mark for mark in told if mark.kind != "text" or mark.block in filled]
    if [mark.kind for mark in told if mark.what == "begin"] != [part.kind for part in said.parts]:
        return False
    open_block: str | None = None
    for mark in told:
        if mark.what == "begin":
            if open_block is not None and closes:
                return False
            open_block = mark.block
        elif mark.block != open_block:
            return False
        elif mark.what == "close":
            open_block = None
    return open_block is None or not closes


def silence_ms(frames: Frames) -> float:
    """The longest time in which nothing came, keep-alives included."""
    times = [at for at, _ in frames]
    return max((after - before for before, after in pairwise(times)), default=0) / 1e6


def p95(values: Sequence[float]) -> float:
    """The value that 95 of 100 do not exceed (nearest rank)."""
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


Key = tuple[Wire, str, str, str]


def by_row(lags: Sequence[Lag]) -> dict[Key, dict[str, list[float | None]]]:
    """The lags of each row of the table, by server."""
    rows: dict[Key, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    for lag in lags:
        rows[lag.wire, lag.script, lag.part, lag.what][lag.server].append(lag.ms)
    return rows


def _cell(values: Sequence[float | None]) -> str:
    came = [value for value in values if value is not None]
    if not came:
        return "never" if values else "-"
    missing = f", {len(values) - len(came)} never" if len(came) < len(values) else ""
    return f"{middle(came):,.1f} / {p95(came):,.1f}{missing}"


def lag_table(lags: Sequence[Lag], servers: Sequence[str]) -> str:
    """Median and p95 of every row."""
    rows = by_row(lags)
    order = {wire: number for number, wire in enumerate(WIRES)}
    keys = sorted(rows, key=lambda key: (order[key[0]], *key[1:3]))
    return table(("surface", "turn", "segment", "what", *servers), [(*key, *(_cell(rows[key][name]) for name in servers)) for key in keys])


def seen_table(seen: Sequence[Seen], servers: Sequence[str]) -> str:
    """Order, and the longest silence with its keep-alives."""
    rows = []
    for wire in WIRES:
        for name in dict.fromkeys(one.script for one in seen):
            cells = []
            for server in servers:
                found = [one for one in seen if (one.server, one.wire, one.script) == (server, wire, name)]
                ordered = "in order" if all(one.in_order for one in found) else "out of order"
                quiet, beats = middle(one.silence_ms for one in found), middle(one.heartbeats for one in found)
                cells.append(f"{ordered}, {quiet:,.0f} ms, {beats:.0f}")
            rows.append((wire, name, *cells))
    return table(("surface", "turn", *servers), rows)


def misses(lags: Sequence[Lag], seen: Sequence[Seen]) -> list[str]:
    """What of ours is beyond the target, a line each."""
    judged = {WHOLE: "whole call", INCREMENTAL: "first byte"}
    found = []
    for (wire, name, part, what), servers in by_row(lags).items():
        for server, values in servers.items():
            if judged.get(server) != what:
                continue
            came = [value for value in values if value is not None]
            if len(came) < len(values) or p95(came) > TARGET_MS:
                found.append(f"{server}, {wire}, {name}, {part}: {what} {_cell(values)} ms")
    found += [f"{one.server}, {one.wire}, {one.script}: out of order" for one in seen if one.server in judged and not one.in_order]
    return list(dict.fromkeys(found))


@contextlib.contextmanager
def speakers(scripts: Path | None, said: Sequence[Script]) -> Iterator[list[Speaker]]:
    """Our server in both modes, and the peer where its scripts are; all with the same model folder."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-bench-")))
        rules = folder / "script.jsonl"
        rules.write_bytes(b"\n".join(map(rule, said)))
        model, tokenizer = MODEL, build(Settings(engine="mock"))[0].tokenizer
        flags = ["--mock-script", str(rules), "--mock-token-delay-ms", str(TOKEN_MS), "--keepalive-seconds", str(KEEPALIVE_SECONDS)]
        if scripts is not None:
            model, tokenizer = "q", load_model_files(model_folder("model_q")).tokenizer
            flags += ["--model-path", str(model_folder("model_q")), "--model-name", model]
            flags += ["--tool-call-parser", "qwen3_coder", "--reasoning-parser", "qwen3"]

        def clock(name: str) -> dict[str, str]:
            paths = [str(Path(__file__).with_name("token_clock")), *filter(None, [os.environ.get("PYTHONPATH")])]
            return {
                "BENCH_TOKEN_CLOCK": str(folder / name),
                "BENCH_TOKEN_SECONDS": repr(TOKEN_MS / 1000),
                "PYTHONPATH": os.pathsep.join(paths),
            }

        found = []
        for mode in (WHOLE, INCREMENTAL):
            server = stack.enter_context(MockServer(*flags, "--argument-streaming", mode, environment=clock(mode)))
            found.append(Speaker(mode, server.address, model, folder / mode, before_each, tokenizer))
        if scripts is not None:
            peer = stack.enter_context(Peer(scripts, PEER_PORT, ["script", "q:qwen3_coder:qwen3"], environment=clock("peer")))
            found.append(Speaker(NAME, peer.address, model, folder / "peer", behind_each, tokenizer))
        yield found


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    options = _options(arguments)
    stop_when_told()
    said = {INTERLEAVED: options.turns, long_argument(ARGUMENT_CHARACTERS): options.long}
    lags: list[Lag] = []
    seen: list[Seen] = []
    sys.stdout.write(f"{this_machine()}\n")
    try:
        with speakers(options.peer, list(said)) as found:
            for one, count in said.items():
                # The first turn of each server and surface is not counted: it imports and compiles.
                for turn in range(-1 if one is INTERLEAVED else 0, count):
                    for speaker, wire in product(found, WIRES):
                        taken, whole = take(speaker, wire, one)
                        if turn >= 0:
                            lags += taken
                            seen.append(whole)
    except BenchError as error:
        sys.stderr.write(f"bench-dispatch: {error}\n")
        return 1
    servers = [speaker.name for speaker in found]
    sys.stdout.write(f"\nMilliseconds after the token, p50 / p95, at {TOKEN_MS:g} ms a token\n\n{lag_table(lags, servers)}\n")
    sys.stdout.write(f"\nOrder, longest silence, keep-alives a turn\n\n{seen_table(seen, servers)}\n\n")
    missed = misses(lags, seen)
    target = f"p95 within {TARGET_MS:g} ms: whole mode the whole call, incremental mode the first argument byte; every block in order"
    sys.stdout.write("".join(f"MISSED {line}\n" for line in missed) + f"{target}: {'MISSED' if missed else 'met'}\n")
    return 1 if missed else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.dispatch", description="When blocks and calls leave after their closing tokens.")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="the folder with the peer's up.sh; without it ours alone")
    parser.add_argument("--turns", type=int, default=10, help="interleaved turns per server and surface")
    parser.add_argument("--long", type=int, default=3, help="turns with the long argument per server and surface")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
