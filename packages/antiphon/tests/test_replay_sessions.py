"""I9 over whole sessions: every must family, every client's way of sending turns back. Each prompt extends what the engine holds of the
one before, except where the family's policy drops past reasoning: then it leaves at the first reasoning that is dropped, not before."""

import os
import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from packages.antiphon.tests.replay_clients import CLIENTS, Client
from packages.antiphon.tests.replay_world import TOOLS, Asked, Frontend, family_model, lost, sampled, shared, some_turn

from antiphon.model import Model
from antiphon_turns import CallSegment, ReasoningSegment, Segment

# What becomes of past reasoning, by the models' own conventions: kept for good, or dropped when the user speaks behind a plain answer.
KEPT = {"qwen3_coder", "glm47", "deepseek_v4", "deepseek_v41", "kimi_k3", "mistral"}
DROPPED = {"hermes", "deepseek_v3_2", "kimi_k2", "minimax_m2", "minimax_m3", "harmony", "gemma4"}
# `make replay-all` plays this many sessions of each pair; the ordinary run takes a sample.
SESSIONS = int(os.environ.get("REPLAY_SESSIONS", "1"))
TURNS = 6


class Told(NamedTuple):
    """One turn of a session: what was asked, and what the model said."""

    asked: Asked
    made: tuple[Segment, ...]


def play(frontend: Frontend, client: Client, dice: random.Random, turns: int) -> list[Told]:
    """A session: what the engine was given turn by turn."""
    out: list[Told] = []
    calls = 0
    for _ in range(turns):
        made = some_turn(dice, frontend.model.family.name, last=dice.random() < 0.3, reasons=client.thinking != "off")
        number = calls

        def say(opening: str, made: tuple[Segment, ...] = made, number: int = number) -> list[int]:
            return sampled(frontend.model, opening, made, dice, number=number)

        asked = frontend.ask(client.surface, client.body(), say)
        client.take(asked.answer)
        calls += sum(isinstance(segment, CallSegment) for segment in made)
        out.append(Told(asked, made))
    return out


def leaves_at(told: Sequence[Told], model: Model, *, drops: bool) -> tuple[int, int] | None:
    """Where the prompt behind these turns must leave what the engine holds: the range of tokens; None where it must not. By the
    conventions alone: all reasoning since the user last spoke behind an answer goes when an answer has ended."""
    last = told[-1].made
    if not drops or any(isinstance(segment, CallSegment) for segment in last):
        return None
    since = max((n + 1 for n, turn in enumerate(told[:-1]) if not any(isinstance(s, CallSegment) for s in turn.made)), default=0)
    first = next((turn for turn in told[since:] if any(isinstance(s, ReasoningSegment) for s in turn.made)), None)
    if first is None:
        return None
    decode = model.tokenizer.decode
    place = next(i for i, s in enumerate(first.made) if isinstance(s, ReasoningSegment))
    reasoning = first.made[place]
    assert isinstance(reasoning, ReasoningSegment)
    output, start = first.asked.output, len(first.asked.prompt)
    # The reasoning's first characters are no longer there ...
    before = first.made[place - 1].text.rstrip() if place else ""
    texts = [decode(output[:n]) for n in range(len(output) + 1)]
    upper = next(n for n, text in enumerate(texts) if reasoning.text.strip()[:3] in text[max(text.find(before), 0) + len(before) :])
    if place == 0:
        # ... and all that stood before its opening is.
        return start - len(model.tokenizer.encode(first.asked.opening, added=True)), start + upper
    return start + next(n for n, text in enumerate(texts) if before in text), start + upper


def check(told: Sequence[Told], model: Model, *, drops: bool) -> list[str]:
    """What is wrong with a session; one line a turn."""
    wrong = []
    for number in range(1, len(told)):
        before, after = told[number - 1].asked, told[number].asked
        where = leaves_at(told[:number], model, drops=drops)
        gone, at = lost(before, after), shared(before.held, after.prompt)
        # Harmony's convention: the token that ended generation is written as one that ends a message.
        returned = model.family.name == "harmony" and not isinstance(told[number - 1].made[-1], CallSegment)
        if where is None and gone != returned:
            tail = model.tokenizer.decode(before.held[max(at - 8, 0) : at + 12]), model.tokenizer.decode(after.prompt[max(at - 8, 0) : at + 12])
            wrong.append(f"turn {number}: {gone} tokens lost: held {tail[0]!r}, sent {tail[1]!r}; {told[number - 1].made}")
        elif where is not None and not where[0] <= at < where[1]:
            tail = model.tokenizer.decode(before.held[max(at - 8, 0) : at + 12]), model.tokenizer.decode(after.prompt[max(at - 8, 0) : at + 12])
            wrong.append(f"turn {number}: leaves at {at}, not within {where}: held {tail[0]!r}, sent {tail[1]!r}")
    return wrong


@pytest.mark.parametrize("family", sorted(KEPT | DROPPED))
def test_sessions_lose_what_the_policy_drops_and_nothing_else(family: str) -> None:
    model = family_model(family)
    wrong = []
    with Frontend(model, seed=family) as frontend:
        for name, kind in CLIENTS.items():
            for number in range(SESSIONS):
                dice = random.Random(f"{family}/{name}/{number}")
                client = kind(TOOLS, thinking=dice.choice(("on", "on", "default", "off")))
                told = play(frontend, client, dice, dice.randint(2, TURNS))
                wrong += [f"{name} {number} ({client.thinking}) {line}" for line in check(told, model, drops=family in DROPPED)]
    assert not wrong, "\n".join(wrong)
