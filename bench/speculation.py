"""What the first token of the next turn waits for, with and without speculative prefill, on the simulated engine.
usage: python -m bench.speculation [--json FILE]"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon.engines.mock_script import Rule
from antiphon.simulation.clock import VirtualClock
from bench.measure import table, this_machine
from bench.prefix import Bench, Turn, mock_bench
from bench.prompts import agent_body, words

SIZE = 52_000
REASONING_WORDS = 500
WRITTEN_WORDS = 4_000
NEWS_WORDS = 200
PAUSE_SECONDS = 5.0
BLOCK_TOKENS = 16
# The frame around what the client says, with the opening of the turn to come.
FRAME_TOKENS = 40

Case = Literal["result, reasoning kept", "result, reasoning left out", "user behind an answer"]
CASES: dict[Case, dict[str, Any]] = {
    "result, reasoning kept": {},
    "result, reasoning left out": {"replay": "none"},
    "user behind an answer": {"replay": "after_last_user"},
}

CALL = "<tool_call>\n<function=tool_1>\n<parameter=field_0>\n{}\n</parameter>\n</function>\n</tool_call>"
RULES = (
    Rule(when=r"<tool_response>", say=f"{words(REASONING_WORDS, 'second')}\n</think>\n\nDone."),
    Rule(when="", say=f"{words(REASONING_WORDS, 'first')}\n</think>\n\nI write.\n{CALL.format(words(WRITTEN_WORDS, 'file'))}"),
)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """The turn behind a pause. `news_tokens`: what the client said in it, the frame not counted. `computed_tokens`: what of its prompt
    the engine did not hold."""

    case: Case
    ahead: bool
    prompt_tokens: int
    news_tokens: int
    computed_tokens: int
    ttft_ms: float


async def figures() -> list[Figure]:
    """Each case without and with speculation, on a clock of its own."""
    return [await figure(case, ahead=ahead) for case in CASES for ahead in (False, True)]


async def figure(case: Case, *, ahead: bool) -> Figure:
    """One session: a turn that thinks, then writes a file; its result; in the third case the answer, and the user's next words."""
    clock = VirtualClock()
    mode = "asked" if ahead else "off"
    opened = mock_bench(strip=True, rules=RULES, chunk_tokens=32, clock=clock, passing=clock.run, speculative_prefill=mode, **CASES[case])
    async with opened as bench:
        news = words(NEWS_WORDS, "news")
        wire = json.loads(agent_body("messages", SIZE, "ahead", output_tokens=1, added=words(40, "tail")))
        wire["messages"][-1]["content"] = words(40, "tail")
        wire |= {"thinking": {"type": "adaptive"}, "max_tokens": 8000, "nvext": {"agent_hints": {"speculative_prefill": True}}}
        turn = await _next(bench, wire, news)
        if case == "user behind an answer":
            turn = await _next(bench, wire, news, turn)
        found = await _asked(bench, wire, news, turn)
        tokens = len(bench.pipeline.model.tokenizer.encode(news, added=False))
    return Figure(
        case=case,
        ahead=ahead,
        prompt_tokens=found.prompt_tokens,
        news_tokens=tokens,
        computed_tokens=found.prompt_tokens - found.cached_tokens,
        ttft_ms=found.engine_s * 1e3,
    )


async def _next(bench: Bench, wire: dict[str, Any], news: str, before: Turn | None = None) -> Turn:
    """A turn, and the pause behind it."""
    turn = await _asked(bench, wire, news, before)
    await bench.pause(PAUSE_SECONDS)
    return turn


async def _asked(bench: Bench, wire: dict[str, Any], news: str, before: Turn | None) -> Turn:
    """The turn that answers what the client says behind `before`: results of its calls, else the user's words."""
    if before is not None:
        results = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": news} for one in before.content if one["type"] == "tool_use"
        ]
        wire["messages"] += [{"role": "assistant", "content": before.content}, {"role": "user", "content": results or news}]
    return await bench.ask(json.dumps(wire).encode())


def shortfalls(found: Sequence[Figure]) -> list[str]:
    """Where a turn pays for more than what is new in it."""
    most = FRAME_TOKENS + BLOCK_TOKENS
    return [
        f"{one.case}: {one.computed_tokens} tokens computed for {one.news_tokens} new ones"
        for one in found
        if one.ahead and one.computed_tokens > one.news_tokens + most
    ]


def figure_table(found: Sequence[Figure]) -> str:
    """The figures as text."""
    head = ("the turn brings", "speculation", "prompt tokens", "new", "computed", "TTFT ms")
    return table(
        head,
        [(one.case, "on" if one.ahead else "off", one.prompt_tokens, one.news_tokens, one.computed_tokens, one.ttft_ms) for one in found],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 when a turn pays for more than what is new in it."""
    parser = argparse.ArgumentParser(prog="python -m bench.speculation", description="The next turn's first token, computed ahead or not.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args(arguments)
    machine = this_machine()
    found = asyncio.run(figures())
    wrong = shortfalls(found)
    verdict = "\n".join(wrong) or "As it must be: with speculation a turn pays only for what is new in it."
    sys.stdout.write(f"{machine}\n\nSimulated engine (b200), virtual clock\n\n{figure_table(found)}\n\n{verdict}\n")
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": machine, "figures": found})) + b"\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
