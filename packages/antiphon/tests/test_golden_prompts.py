"""Prompts are what they were, for every must family: any change shows in the golden files, which `make golden` writes."""

import pytest
from packages.antiphon.tests.prompt_sessions import (
    FAMILIES,
    GOLDEN,
    INTERLEAVED,
    STEPS,
    TOOLS,
    common,
    family_renderer,
    golden_text,
    prompts,
    vocabulary,
)

from antiphon_parsers import Parser
from antiphon_turns import Assembler, AssistantMessage, Opening, ReasoningSegment, ToolMessage


@pytest.fixture(scope="module")
def base() -> str:
    return vocabulary()


@pytest.mark.parametrize("name", FAMILIES)
def test_golden_session(name: str, base: str) -> None:
    assert golden_text(name, base) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8"), "make golden, and review the diff"


def test_every_golden_file_has_a_family() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_past_turns_stand_in_order_and_read_back(name: str, base: str) -> None:
    """Field report 55: thinking, text, call, thinking, call, then the results in the order of the calls; none is lost, and nothing is an
    anomaly. What stands for the turn parses to the turn."""
    _, _, model = family_renderer(name, base)
    first, second, *_ = rendered = [prompt.rendered for prompt in prompts(name, base)]
    assert all(not one.anomalies for one in rendered)
    kept = model.family.replay.keep != "none"
    start = common(first.text, second.text)
    assert not kept or start == len(first.text)
    added = second.text[start:]
    told = ["First the file.", "I will look.", "src/\u00e4.py", "Then the tests.", "pytest -q", "x = 1", "2 passed"]
    words = [word for word in told if kept or word not in (told[0], told[3])]
    places = [added.find(word) for word in words]
    assert -1 not in places and places == sorted(places)
    assert all(one.text.count("I will look.") == 1 for one in rendered[1:])
    parser = Parser(model.grammar, tools=TOOLS, opening=Opening("rendered", first.opening), turn_tag="abcdefghijklmnop")
    assembler = Assembler()
    for event in (*parser.feed(added[: places[-2]]), *parser.finish("stop")):
        assembler.push(event)
    read = [(type(segment), getattr(segment, "text", "") or getattr(segment, "name", "")) for segment in assembler.segments]
    spoken = [s for s in INTERLEAVED.segments if kept or not isinstance(s, ReasoningSegment)]
    assert read[: len(spoken)] == [(type(segment), getattr(segment, "text", "") or getattr(segment, "name", "")) for segment in spoken]


def test_steps_bring_results_in_another_order_than_the_calls() -> None:
    turn, *results = STEPS[1][1]
    assert isinstance(turn, AssistantMessage) and [r.call_id for r in results if isinstance(r, ToolMessage)] == ["toolu_02", "toolu_01"]
