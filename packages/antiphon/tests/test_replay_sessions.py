"""I9 over whole sessions: every must family, every client's way of sending turns back. Each prompt extends what the engine holds of the
one before, except where the family's policy drops past reasoning: then it leaves at the first reasoning that is dropped, not before."""

import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice, pairwise, repeat
from typing import NamedTuple

import pytest
from packages.antiphon.tests.replay_clients import CLIENTS, Client, PlainResponses
from packages.antiphon.tests.replay_world import TOOLS, Asked, Frontend, family_model, lost, sampled, shared, some_turn

from antiphon.model import Model
from antiphon_turns import CallSegment, ReasoningSegment, Segment, TextSegment

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


def play(frontends: Iterator[Frontend], client: Client, dice: random.Random, turns: int, *, tenant: str = "t") -> list[Told]:
    """A session: what the engine was given turn by turn. Each turn is served by the next frontend."""
    out: list[Told] = []
    calls = 0
    for frontend in islice(frontends, turns):
        made = some_turn(dice, frontend.model.family.name, last=dice.random() < 0.3, reasons=client.thinking != "off")

        if isinstance(client, PlainResponses) and len(made) == 1 and isinstance(made[0], ReasoningSegment):
            # Such a client returns nothing of a turn that was all reasoning: then the turn is gone by its own will.
            made = (*made, TextSegment("Done."))
        say = partial(sampled, model=frontend.model, made=made, dice=dice, number=calls)
        asked = frontend.ask(client.surface, client.body(), say, tenant=tenant)
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
            wrong.append(f"turn {number}: {gone} tokens lost: {seam(before, after, model)}; {told[number - 1].made}")
        elif where is not None and not where[0] <= at < where[1]:
            wrong.append(f"turn {number}: leaves at {at}, not within {where}: {seam(before, after, model)}")
    return wrong


def some(clients: list[str], family: str) -> list[str]:
    """The clients of a run; a few of them, other ones for each family, in the ordinary one."""
    return clients if SESSIONS > 1 else random.Random(family).sample(clients, 3)


def seam(before: Asked, after: Asked, model: Model) -> str:
    """The text around the place where a prompt leaves what was held."""
    at = shared(before.held, after.prompt)
    held, sent = (model.tokenizer.decode(ids[max(at - 8, 0) : at + 12]) for ids in (before.held, after.prompt))
    return f"held {held!r}, sent {sent!r}"


@pytest.mark.parametrize("family", sorted(KEPT | DROPPED))
def test_sessions_lose_what_the_policy_drops_and_nothing_else(family: str) -> None:
    model = family_model(family)
    wrong = []
    with Frontend(model, seed=family) as frontend:
        for name, kind in CLIENTS.items():
            for number in range(SESSIONS):
                dice = random.Random(f"{family}/{name}/{number}")
                client = kind(TOOLS, thinking=dice.choice(("on", "on", "default", "off")))
                told = play(repeat(frontend), client, dice, dice.randint(2, TURNS))
                wrong += [f"{name} {number} ({client.thinking}) {line}" for line in check(told, model, drops=family in DROPPED)]
    assert not wrong, "\n".join(wrong)


def sealed_until(turn: Told, model: Model) -> int:
    """How many tokens a restart must not lose of a turn, from the end of its prompt: those to the end of its last reasoning. Without
    any, not even how the prompt opened the turn is known."""
    last = next((s for s in reversed(turn.made) if isinstance(s, ReasoningSegment)), None)
    if last is None:
        return -len(model.tokenizer.encode(turn.asked.opening, added=True))
    text = model.tokenizer.decode(turn.asked.output)
    behind = len(text) - text.rindex(last.text.strip()) - len(last.text.strip())
    output = turn.asked.output
    return next(n for n in range(len(output), -1, -1) if len(model.tokenizer.decode(output[n:])) >= behind)


SEALING = [name for name, kind in CLIENTS.items() if kind.surface != "chat" and name != "responses without reasoning"]


@pytest.mark.parametrize("family", sorted(KEPT | DROPPED))
def test_restarts_between_turns_lose_nothing_up_to_the_last_reasoning(family: str) -> None:
    """Every turn is served by a fresh process with the same keys. What stands behind the last reasoning is the writer's: its loss is
    printed."""
    model = family_model(family)
    wrong, rest, tokens = [], 0, 0
    with ExitStack() as stack:
        for name in some(SEALING, family):
            for number in range(SESSIONS):
                dice = random.Random(f"restart/{family}/{name}/{number}")
                client = CLIENTS[name](TOOLS)
                fresh = (stack.enter_context(Frontend(model, seed=f"{name}/{number}/{turn}")) for turn in range(TURNS))
                told = play(fresh, client, dice, TURNS)
                for place, (turn, after) in enumerate(pairwise(told), 1):
                    # Where the policy acts behind an answer, turns without reasoning change too: they get the convention's empty block.
                    if family in DROPPED and not any(isinstance(segment, CallSegment) for segment in turn.made):
                        continue
                    at, kept = shared(turn.asked.held, after.asked.prompt), len(turn.asked.prompt) + sealed_until(turn, model)
                    rest += len(turn.asked.held) - at
                    tokens += len(turn.asked.output)
                    if at < kept:
                        wrong.append(f"{name} {number} turn {place}: {kept - at} lost: {seam(turn.asked, after.asked, model)}; {turn.made}")
    sys.stdout.write(f"{family}: behind the last reasoning {rest} of {tokens} sampled tokens are the writer's after a restart\n")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("family", sorted(KEPT | DROPPED))
def test_another_tenants_seals_and_ids_have_no_effect(family: str) -> None:
    """A history that was stolen with its seals and ids gives the prompt that it would give a server which has never seen it."""
    model = family_model(family)
    with Frontend(model, seed="owner") as frontend, Frontend(model, seed="stranger", secret=b"s" * 32) as stranger:
        for name in some(list(CLIENTS), family):
            for number in range(SESSIONS):
                dice = random.Random(f"tenants/{family}/{name}/{number}")
                client = CLIENTS[name](TOOLS)
                play(repeat(frontend), client, dice, dice.randint(1, 3), tenant="owner")
                body = client.body()

                nothing = partial(sampled, model=model, made=(TextSegment("Nothing."),), dice=random.Random(0))
                stolen = frontend.ask(client.surface, body, nothing, tenant=f"thief of {name}{number}")
                unknown = stranger.ask(client.surface, body, nothing, tenant=f"{name}{number}")
                assert stolen.prompt == unknown.prompt, name
                mine = frontend.ask(client.surface, body, nothing, tenant="owner")
                assert mine.prompt != stolen.prompt or mine.prompt == unknown.prompt, name
