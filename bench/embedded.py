"""What slots and slices of the embedded engine are worth: sessions that share a prefix, and a short prompt beside a long one.
usage: python -m bench.embedded [--only slots|workers|short] [--tokens N] [--json FILE]"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from antiphon.engines.base import Job, Placement
from antiphon.engines.default_model import default_model_path
from antiphon.engines.embedded import EmbeddedEngine, EmbeddedOptions
from antiphon_turns import Sampling
from bench.measure import table, this_machine
from bench.prompts import words

PARTS = ("slots", "workers", "short")
PREFIX_TOKENS = 4096
CONTEXT = 8192
TURN_TOKENS = 24
OUTPUT_TOKENS = 16
SHORT_TOKENS = 40
# Where in a long prompt the short ones arrive.
DEPTHS = (0.1, 0.35, 0.6, 0.85)
LONGEST_WAIT_S = 2.0
# Of what the engine holds of a session all but the last sampled token is found again.
LEAST_MISSED = 1
PATIENCE_S = 600.0


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn. `expected`: tokens of the prompt that the engine could have cached. CPU time is the whole process's until the first
    token; `load` the one-minute load average then."""

    name: str
    prompt_tokens: int
    expected: int
    cached: int
    ttft_s: float
    cpu_s: float
    load: float
    ids: list[int]


@asynccontextmanager
async def running(slots: int, threads: int | None) -> AsyncGenerator[EmbeddedEngine, None]:
    """The default model with so many slots."""
    options = EmbeddedOptions(slots=slots, kv_events=True)
    engine = EmbeddedEngine(default_model_path(), context_length=CONTEXT, threads=threads, options=options)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


async def asked(engine: EmbeddedEngine, name: str, ids: Sequence[int], *, expected: int = 0, output: int = OUTPUT_TOKENS) -> Turn:
    """One turn of a session, greedy."""
    placement = Placement(session=name)
    sampling = Sampling(temperature=0)
    job = Job(request_id=name, prompt_ids=ids, max_tokens=output, sampling=sampling, stop_ids=frozenset(), placement=placement)
    began, cpu = time.monotonic(), time.process_time()
    cached, sampled = 0, list[int]()
    ttft = used = 0.0
    async for chunk in engine.generate(job):
        if chunk.ids and not sampled:
            ttft, used = time.monotonic() - began, time.process_time() - cpu
        cached = cached if chunk.cached_tokens is None else chunk.cached_tokens
        sampled += chunk.ids
    return Turn(
        name=name,
        prompt_tokens=len(ids),
        expected=expected,
        cached=cached,
        ttft_s=ttft,
        cpu_s=used,
        load=os.getloadavg()[0],
        ids=sampled,
    )


async def text(engine: EmbeddedEngine, seed: str, tokens: int) -> list[int]:
    """So many tokens of words."""
    return (await engine.tokenize(words(tokens, seed)))[:tokens]


async def conversations(engines: Sequence[EmbeddedEngine], *, tokens: int, turns: int) -> list[Turn]:
    """Two sessions with one prefix, in turns, each with its own engine or both with one."""
    prefix = await text(engines[0], "prefix", tokens)
    history = {name: [*prefix, *await text(engines[0], name, TURN_TOKENS)] for name in ("A", "B")}
    found: list[Turn] = []
    for number in range(turns):
        for index, (name, ids) in enumerate(history.items()):
            first = len(prefix) if index and len(engines) == 1 else 0
            expected = len(ids) - TURN_TOKENS - LEAST_MISSED if number else first
            turn = await asked(engines[index % len(engines)], name, ids, expected=expected)
            found.append(msgspec.structs.replace(turn, name=f"{name}{number + 1}"))
            ids += [*turn.ids, *await text(engines[0], f"{name}{number}", TURN_TOKENS)]
    return found


async def short_beside_long(engine: EmbeddedEngine, *, tokens: int) -> list[Turn]:
    """Short prompts, one after the other, while a long one is computed."""
    long = asyncio.create_task(asked(engine, "long", await text(engine, "long", tokens), output=1))
    shorts = []
    for number, depth in enumerate(DEPTHS):
        async with asyncio.timeout(PATIENCE_S):
            while engine.cache.used_blocks * engine.cache.block_tokens < depth * tokens:
                await asyncio.sleep(0.01)
        ids = await text(engine, f"short {number}", SHORT_TOKENS)
        turn = await asked(engine, "short", ids)
        shorts.append(msgspec.structs.replace(turn, name=f"short, {depth:.0%} of the long one done"))
        engine.cache.take_events()
    return [*shorts, await long]


async def measured(part: str, *, tokens: int, turns: int, threads: int | None) -> list[Turn]:
    """One of PARTS, on fresh engines."""
    if part == "workers":
        async with running(1, threads) as one, running(1, threads) as other:
            return await conversations([one, other], tokens=tokens, turns=turns)
    async with running(2, threads) as engine:
        if part == "slots":
            return await conversations([engine], tokens=tokens, turns=turns)
        return await short_beside_long(engine, tokens=tokens)


def turn_table(turns: Sequence[Turn]) -> str:
    """The turns as text."""
    head = ("turn", "prompt tokens", "could be cached", "cached", "TTFT s", "CPU s", "load")
    return table(head, [(t.name, t.prompt_tokens, t.expected, t.cached, t.ttft_s, t.cpu_s, t.load) for t in turns])


def shortfalls(part: str, turns: Sequence[Turn]) -> list[str]:
    """What is not as it must be."""
    if part == "short":
        return [f"{t.name}: {t.ttft_s:.2f} s (load {t.load:.1f})" for t in turns if t.name != "long" and t.ttft_s > LONGEST_WAIT_S]
    return [f"{part}, {t.name}: {t.cached} of {t.expected} tokens cached" for t in turns if t.cached < t.expected]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 when a figure is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m bench.embedded", description="Slots and slices of the embedded engine.")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone")
    parser.add_argument("--tokens", type=int, default=PREFIX_TOKENS, help="tokens of the shared prefix, and of the long prompt")
    parser.add_argument("--turns", type=int, default=4, help="turns of each session")
    parser.add_argument("--threads", type=int, help="as `antiphon serve --threads`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args(arguments)
    machine = this_machine()
    _say(str(machine))
    results: dict[str, list[Turn]] = {}
    found: list[str] = []
    for part in options.only or PARTS:
        results[part] = asyncio.run(measured(part, tokens=options.tokens, turns=options.turns, threads=options.threads))
        _say(f"\n{part}\n\n{turn_table(results[part])}")
        found += shortfalls(part, results[part])
    _say("\n" + ("\n".join(found) or f"As it must be: everything cached that could be, short prompts start within {LONGEST_WAIT_S:g} s."))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": machine, **results})) + b"\n")
    return 1 if found else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
