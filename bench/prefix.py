"""What a stable prefix is worth. Two experiments, from really rendered prompts: a system prompt whose first line varies, and a turn of the
model that comes back exactly or edited. usage: python -m bench.prefix [--only mock|embedded] [--json FILE]"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon.config import Settings
from antiphon.engines.mock import MockEngine, MockOptions
from antiphon.engines.mock_script import Rule
from antiphon.pipeline import Pipeline
from antiphon.seals import SealKey, Seals
from antiphon.serve import build, options_of
from antiphon.simulation.clock import Clock, RealClock
from antiphon.surfaces import messages_surface
from antiphon.trace import TokenTrace
from antiphon_turns import Event, SegmentDelta, SegmentStart, TurnEnd
from bench.measure import BenchError, middle, table, this_machine
from bench.prompts import agent_body, agent_turns, body, words

SIZE = 52_000
EMBEDDED_SIZE = 1_000
OUTPUT_TOKENS = 4
REASONING_WORDS = 500
# The turn that is sent back is not measured, so its tokens may come in handfuls.
REPLAY_CHUNK = 32
LEAST_RATIO = 5.0
PARTS = ("mock", "embedded")

Pass = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
"""How time passes while an engine works: as it does, or on a virtual clock (`VirtualClock.run`)."""
ArmName = Literal["stable", "varying", "stripped", "exact", "edited"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `engine_s`: from the finished prompt to the first token; `ttft_s`: with the making of the prompt."""

    prompt_tokens: int
    cached_tokens: int
    engine_s: float
    ttft_s: float
    content: list[dict[str, Any]]


class ArmFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the turns behind the first one; `first_ms` is that one's, on an empty cache."""

    engine: str
    arm: ArmName
    prompt_tokens: int
    cached_tokens: int
    first_ms: float
    engine_ms: float
    ttft_ms: float


async def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """Time passes as it does."""
    return await work


class Bench:
    """A pipeline in this process, with an engine of its own."""

    def __init__(self, pipeline: Pipeline, *, clock: Clock, passing: Pass, name: str) -> None:
        self.pipeline = pipeline
        self.name = name
        self._clock = clock
        self._passing = passing
        self._surface = messages_surface()

    async def pause(self, seconds: float) -> None:
        """The client is busy elsewhere for so long, on the engine's clock."""
        # What is computed ahead is rendered in a thread, for which a virtual clock does not wait.
        while len(self.pipeline.speculation) and not self.pipeline.speculation.sent:
            await asyncio.sleep(0.001)
        await self._passing(_asleep(self._clock, seconds))

    async def ask(self, request: bytes) -> Turn:
        """One turn on Messages. Raises BenchError for one without a token."""
        call = self._surface.ingest(request, {})
        begun = self._clock.now()
        prepared = await self.pipeline.prepare(call.turn)
        ready = self._clock.now()
        events: list[Event] = []

        async def run() -> float | None:
            first = None
            async with aclosing(self.pipeline.run(prepared, turn_tag=self.pipeline.new_tag(), request_id="bench")) as batches:
                async for batch in batches:
                    events.extend(batch)
                    if first is None and any(isinstance(event, SegmentStart | SegmentDelta) for event in batch):
                        first = self._clock.now()
            return first

        first = await self._passing(run())
        if first is None or not isinstance(events[-1], TurnEnd):
            raise BenchError("a turn without a token")
        projector = call.projector("bench", 0)
        for event in events:
            projector.push(event)
        return Turn(
            prompt_tokens=len(prepared.prompt.ids),
            cached_tokens=events[-1].usage.cached_tokens or 0,
            engine_s=first - ready,
            ttft_s=first - begun,
            content=json.loads(projector.body())["content"],
        )


async def _asleep(clock: Clock, seconds: float) -> None:
    await clock.sleep(seconds)


@asynccontextmanager
async def mock_bench(
    *,
    strip: bool,
    rules: Sequence[Rule] = (),
    chunk_tokens: int = 1,
    clock: Clock | None = None,
    passing: Pass = at_once,
    **chosen: Any,
) -> AsyncGenerator[Bench, None]:
    """The mock engine with B200-like speed; `chosen` are further settings."""
    settings = Settings(engine="mock", strip_anthropic_preamble=strip, **chosen)
    model, _ = build(settings)
    clock = clock or RealClock()
    mock = MockOptions(speed="b200", chunk_tokens=chunk_tokens)
    engine = MockEngine(model.tokenizer, model.family.frame, rules=rules, options=mock, clock=clock)
    await engine.start()
    seals = Seals([SealKey(os.urandom(32))], random_bytes=os.urandom)
    options, trace = options_of(settings), TokenTrace(None)
    pipeline = Pipeline(model, engine, options=options, trace=trace, random_bytes=os.urandom, seals=seals)
    try:
        yield Bench(pipeline, clock=clock, passing=passing, name="mock b200")
    finally:
        await pipeline.close()
        await engine.close()


@asynccontextmanager
async def embedded_bench(*, strip: bool) -> AsyncGenerator[Bench, None]:
    """The default model on one thread of this machine."""
    settings = Settings(threads=1, aliases=["*"], strip_anthropic_preamble=strip)
    model, engine = build(settings)
    await engine.start()
    pipeline = Pipeline(model, engine, options=options_of(settings), trace=TokenTrace(None), random_bytes=os.urandom)
    try:
        yield Bench(pipeline, clock=RealClock(), passing=at_once, name="embedded, 1 thread")
    finally:
        await engine.close()


Open = Callable[[bool], Any]
"""`Open(strip)`: a fresh bench."""


def billing_header(number: int) -> dict[str, Any]:
    """What Claude Code writes at the head of its system prompt; another one every time."""
    fields = f"cc_version=2.1.332.{number:03x}; cc_entrypoint=cli; cch={number * 7919:05x};"
    return {"type": "text", "text": f"x-anthropic-billing-header: {fields}"}


def with_header(request: bytes, number: int) -> bytes:
    """The request with a billing header before its system prompt."""
    wire = json.loads(request)
    wire["system"] = [billing_header(number), *wire["system"]]
    return json.dumps(wire).encode()


def mock_request(number: int) -> bytes:
    """One session with a system prompt, which is the head of the prompt, and a history; each request ends differently."""
    turns = [*agent_turns(SIZE * 3 // 4, "prefix")[:-1], words(40, f"tail{number}")]
    return body("messages", turns, output_tokens=OUTPUT_TOKENS, system=words(SIZE // 4, "prefix"))


def embedded_request(size: int) -> Callable[[int], bytes]:
    """A long system prompt and a short question."""
    system = words(size, "prefix")
    return lambda number: body("messages", [words(20, f"tail{number}")], output_tokens=OUTPUT_TOKENS, system=system)


async def header_figures(opened: Open, request: Callable[[int], bytes], *, turns: int) -> list[ArmFigure]:
    """stable: no header. varying: a new one every time, left in. stripped: a new one every time, cut by the server."""
    figures = []
    arms: tuple[tuple[ArmName, bool, bool], ...] = (("stable", False, False), ("varying", True, False), ("stripped", True, True))
    for arm, headed, strip in arms:
        async with opened(strip) as bench:
            made = [request(number) for number in range(turns + 1)]
            asked = [with_header(one, number) for number, one in enumerate(made)] if headed else made
            figures.append(figure_of(bench, arm, [await bench.ask(one) for one in asked]))
    return figures


def figure_of(bench: Bench, arm: ArmName, turns: Sequence[Turn]) -> ArmFigure:
    """The first turn for itself, the others in the middle."""
    first, *others = turns
    return ArmFigure(
        engine=bench.name,
        arm=arm,
        prompt_tokens=round(middle(turn.prompt_tokens for turn in others)),
        cached_tokens=round(middle(turn.cached_tokens for turn in others)),
        first_ms=first.engine_s * 1e3,
        engine_ms=middle(turn.engine_s for turn in others) * 1e3,
        ttft_ms=middle(turn.ttft_s for turn in others) * 1e3,
    )


REPLAY_RULES = (
    Rule(when=r"<tool_response>", say="Found.\n</think>\n\nDone."),
    Rule(
        when="",
        say=words(REASONING_WORDS, "reasoning")
        + "\n</think>\n\nI look.\n<tool_call>\n<function=tool_1>\n<parameter=field_0>\na\n</parameter>\n</function>\n</tool_call>",
    ),
)


async def replay_figures(opened: Open, *, turns: int) -> list[ArmFigure]:
    """A turn that thought for about 500 tokens and made a call comes back with the result: as it was, and with its reasoning edited.
    A fresh session for each, on a warm head."""
    figures = []
    for arm in ("exact", "edited"):
        async with opened(True) as bench:
            answers = [await replayed(bench, number, edited=arm == "edited") for number in range(turns + 1)]
            figures.append(figure_of(bench, arm, answers))
    return figures


async def replayed(bench: Bench, number: int, *, edited: bool) -> Turn:
    """The turn behind the call."""
    wire = json.loads(agent_body("messages", SIZE, "prefix", output_tokens=OUTPUT_TOKENS, added=words(40, f"tail{number}")))
    wire["messages"][-1]["content"] = words(40, f"tail{number}")
    wire |= {"thinking": {"type": "adaptive"}, "max_tokens": 4000}
    content = (await bench.ask(json.dumps(wire).encode())).content
    if edited:
        content = [{**block, "thinking": f"So: {block['thinking']}"} if block["type"] == "thinking" else block for block in content]
    results = [{"type": "tool_result", "tool_use_id": block["id"], "content": "ok"} for block in content if block["type"] == "tool_use"]
    if not results:
        raise BenchError("the scripted turn made no call")
    wire["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return await bench.ask(json.dumps(wire).encode())


def arm_table(figures: Sequence[ArmFigure]) -> str:
    """The figures as text; the ratio is to the first arm of the same engine."""
    head = ("engine", "arm", "prompt tokens", "cached", "first request ms", "engine TTFT ms", "ratio", "with frontend ms", "ratio ")
    rows = []
    for figure in figures:
        base = next(one for one in figures if one.engine == figure.engine)
        ratios = figure.engine_ms / base.engine_ms, figure.ttft_ms / base.ttft_ms
        counts = figure.prompt_tokens, figure.cached_tokens
        rows.append((figure.engine, figure.arm, *counts, figure.first_ms, figure.engine_ms, ratios[0], figure.ttft_ms, ratios[1]))
    return table(head, rows)


def shortfalls(figures: Sequence[ArmFigure]) -> list[str]:
    """What of the header experiment is not as it must be."""
    stable, varying, stripped = figures
    found = []
    if varying.engine_ms < LEAST_RATIO * stable.engine_ms:
        found.append(f"{stable.engine}: the varying header costs only {varying.engine_ms / stable.engine_ms:.1f}x")
    if stripped.cached_tokens != stable.cached_tokens:
        found.append(f"{stable.engine}: stripped has {stripped.cached_tokens} cached tokens and stable {stable.cached_tokens}")
    return found


async def _run(parts: Sequence[str], turns: int, embedded_size: int) -> dict[str, list[ArmFigure]]:
    results = {}
    if "mock" in parts:
        results["mock"] = await header_figures(lambda strip: mock_bench(strip=strip), mock_request, turns=turns)
        _say("\nA varying first line, 52K tokens, simulated engine\n\n" + arm_table(results["mock"]))
        results["replay"] = await replay_figures(
            lambda strip: mock_bench(strip=strip, rules=REPLAY_RULES, chunk_tokens=REPLAY_CHUNK), turns=turns
        )
        _say("\nA turn with about 500 reasoning tokens comes back, simulated engine\n\n" + arm_table(results["replay"]))
    if "embedded" in parts:
        results["embedded"] = await header_figures(lambda strip: embedded_bench(strip=strip), embedded_request(embedded_size), turns=turns)
        _say(f"\nA varying first line, {embedded_size:,} tokens, embedded engine\n\n" + arm_table(results["embedded"]))
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 when a figure is not as it must be."""
    parser = argparse.ArgumentParser(prog="python -m bench.prefix", description="What a stable prefix is worth.")
    parser.add_argument("--only", choices=PARTS, action="append", help="this engine alone")
    parser.add_argument("--turns", type=int, default=3, help="turns behind the first one, for each arm")
    parser.add_argument("--embedded-tokens", type=int, default=EMBEDDED_SIZE, help="size of the embedded engine's prompt")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args(arguments)
    machine = this_machine()
    _say(str(machine))
    results = asyncio.run(_run(options.only or PARTS, options.turns, options.embedded_tokens))
    found = [line for part in PARTS if part in results for line in shortfalls(results[part])]
    _say("\n" + ("\n".join(found) or "As it must be: varying costs 5x or more, stripped has as much cached as stable."))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": machine, **results})) + b"\n")
    return 1 if found else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
