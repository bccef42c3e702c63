"""A long-lived agent: 500 turns, three compactions, hours without a word on a virtual clock, other sessions in between."""

import random
import time
from functools import partial
from types import SimpleNamespace

import pytest
from packages.antiphon.tests.replay_clients import ClaudeCode
from packages.antiphon.tests.replay_world import TOOLS, Asked, Frontend, family_model, lost, sampled, shared, some_turn

from antiphon.pipeline import PipelineOptions
from antiphon.prompts import PromptOptions
from antiphon.stabilize import ANTHROPIC_PREAMBLE
from antiphon_turns import CallSegment

CYCLE, CYCLES = 125, 4
# One cycle's turns fit, the whole session does not.
LEDGER_BYTES = 384 << 10
COMPARED_BYTES = 512 << 10
IDLE_SECONDS = 6 * 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Agent(ClaudeCode):
    """Claude Code, which sums its history up when told to."""

    def compact(self, number: int) -> None:
        self.said = []
        self.ask()
        self.said[0]["content"] = f"Summary {number} of what was done so far: nothing of note. " + self.said[0]["content"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("antiphon.pipeline.time", SimpleNamespace(monotonic=clock))
    return clock


def somebody_else(frontend: Frontend, client: Agent, dice: random.Random) -> None:
    """A few turns of another tenant."""
    for _ in range(5):
        say = partial(sampled, model=frontend.model, made=some_turn(dice, "qwen3_coder", last=False), dice=dice)
        client.take(frontend.ask("messages", client.body(), say, tenant="other").answer)


@pytest.mark.timeout(300)
def test_five_hundred_turns(clock: Clock) -> None:
    model = family_model("qwen3_coder")
    dice = random.Random("long")
    options = PipelineOptions(ledger_bytes=LEDGER_BYTES, compared_bytes=COMPARED_BYTES, prompts=PromptOptions(rules=(ANTHROPIC_PREAMBLE,)))
    costs: list[float] = []
    sizes: list[int] = []
    with Frontend(model, options=options) as frontend:
        pipeline = frontend.pipeline
        pipeline.watch._clock = clock
        agent, other = Agent(TOOLS), Agent(TOOLS)
        before: Asked | None = None
        calls = 0
        for number in range(CYCLE * CYCLES):
            if number % CYCLE == 0 and number:
                agent.compact(number)
                calls = 0
            made = some_turn(dice, "qwen3_coder", last=number % 9 == 8)
            say = partial(sampled, model=model, made=made, dice=dice, number=calls)
            started = time.process_time()
            asked = frontend.ask("messages", agent.body(), say)
            costs.append(time.process_time() - started)
            sizes.append(len(asked.prompt))
            agent.take(asked.answer)
            calls += sum(isinstance(segment, CallSegment) for segment in made)
            if before is not None and number % CYCLE:
                assert lost(before, asked) == 0, number
            elif before is not None:
                # After a compaction the tools, and what the template says first, stay.
                head = model.tokenizer.decode(asked.prompt[: shared(before.prompt, asked.prompt)])
                assert '"run"' in head and "Question" not in head, head
            before = asked
            clock.now += 30.0
            if number % 50 == 49:
                clock.now += IDLE_SECONDS
                somebody_else(frontend, other, dice)
            assert pipeline.ledger.bytes <= LEDGER_BYTES
            assert pipeline.watch.sent.bytes <= COMPARED_BYTES
        assert len(pipeline.ledger) < CYCLE * CYCLES, "the bound was never reached"
    check_costs(costs, sizes)


def check_costs(costs: list[float], sizes: list[int]) -> None:
    """The same place in the first cycle and in the last: the same amount of text, so the same cost; idle time and evictions change
    nothing."""
    first, last = sum(costs[20:CYCLE]), sum(costs[-CYCLE + 20 :])
    assert last < 3 * first * sum(sizes[-CYCLE + 20 :]) / sum(sizes[20:CYCLE])
    # Within a cycle the cost grows no faster than the prompt does.
    early, late = sum(costs[20:40]) / sum(sizes[20:40]), sum(costs[105:125]) / sum(sizes[105:125])
    assert late < 3 * early
