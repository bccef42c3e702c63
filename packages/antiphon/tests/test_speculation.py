"""Speculative prefill: what is computed ahead is a beginning of the prompt that comes, on every family and for every client; and it
never costs a client anything."""

import random
from functools import partial

import pytest
from packages.antiphon.tests.replay_clients import CLIENTS, PlainResponses
from packages.antiphon.tests.replay_world import TOOLS, Frontend, family_model, sampled, some_turn

from antiphon.pipeline import PipelineOptions
from antiphon.prompts import PromptOptions
from antiphon.speculation import SpeculationOptions
from antiphon.stabilize import ANTHROPIC_PREAMBLE
from antiphon_turns import CallSegment, ReasoningSegment, TextSegment

FAMILIES = ("deepseek_v3_2", "deepseek_v4", "gemma4", "glm47", "harmony", "hermes", "kimi_k2", "kimi_k3", "minimax_m2", "minimax_m3")
FAMILIES = (*FAMILIES, "deepseek_v41", "mistral", "qwen3_coder")
ALWAYS = PipelineOptions(prompts=PromptOptions(rules=(ANTHROPIC_PREAMBLE,)), speculation=SpeculationOptions(mode="always"))
# What a client says next, with the frame around it and the opening of the turn to come: few tokens in these sessions.
NEWS = 80


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_computed_ahead_begins_the_next_prompt(family: str) -> None:
    model = family_model(family)
    wrong, sent, reached = [], 0, 0
    with Frontend(model, seed=family, options=ALWAYS) as frontend:
        for name, kind in CLIENTS.items():
            dice = random.Random(f"{family}/{name}")
            client = kind(TOOLS, thinking=dice.choice(("on", "on", "default", "off")))
            calls, before = 0, None
            for number in range(5):
                made = some_turn(dice, model.family.name, last=dice.random() < 0.4, reasons=client.thinking != "off")
                if isinstance(client, PlainResponses) and len(made) == 1 and isinstance(made[0], ReasoningSegment):
                    made = (*made, TextSegment("Done."))
                say = partial(sampled, model=model, made=made, dice=dice, number=calls)
                asked = frontend.ask(client.surface, client.body(), say)
                if before is not None:
                    prefix, prompt = list(before), list(asked.prompt)
                    sent += 1
                    reached += len(prompt) - len(prefix) < NEWS
                    if prompt[: len(prefix)] != prefix:
                        same = next(n for n, (a, b) in enumerate(zip(prefix, prompt, strict=False)) if a != b)
                        spell = model.tokenizer.decode
                        wrong.append(f"{name} {number}: {spell(prefix[same - 5 :][:20])!r} is not {spell(prompt[same - 5 :][:20])!r}")
                frontend.settle()
                before = frontend.engine.ahead[-1].prompt_ids if frontend.engine.ahead else None
                frontend.engine.ahead.clear()
                client.take(asked.answer)
                calls += sum(isinstance(segment, CallSegment) for segment in made)
    assert not wrong, "\n".join(wrong)
    assert sent > 20 and reached > 0.9 * sent
