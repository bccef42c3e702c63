"""The project's parser cases and field reports, each in every cut, checked on the events (grammars facts, section 7)."""

from typing import Any

import pytest
from parser_cases import ALL, Case, check
from parser_harness import check_holdback, codes, cuts, joined, run, segments_of, tools_of

from antiphon_parsers import resolve
from antiphon_parsers.engine.cursor import MarkerSet
from antiphon_parsers.engine.prose import Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tag_calls import Value


def test_every_handed_case_is_here() -> None:
    assert len([case for case in ALL if not case.name.startswith("report")]) == 178
    assert len([case for case in ALL if case.name.startswith("report")]) == 29


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_case_in_every_cut(case: Case) -> None:
    first: list[Any] = []
    for pieces in [*([list(case.chunks)] if case.chunks else []), *cuts(case.text, seeds=20)]:
        events, parser = run(case.grammar, case.tools, pieces, opening=case.opening, finish=case.finish)
        if not first:
            check(case.expect, segments_of(events))
        assert parser.incomplete == bool(case.expect.get("incomplete"))
        assert ("malformed_tool_call" in codes(events)) == bool(case.expect.get("malformed"))
        first = first or joined(events)
        assert joined(events) == first, pieces


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_nothing_comes_later_than_it_must(case: Case) -> None:
    check_holdback(case.grammar, case.tools, case.text, opening=case.opening, finish=case.finish)


def hold_all(markers: MarkerSet, text: str, at: int) -> int:
    return at


LONG = "words of a sentence, " * 20
CALL = "<tool_call>\n<function=run>\n<parameter=cmd>\n" + LONG + "\n</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize("text", [LONG, f"<think>\n{LONG}\n</think>\n\nDone.", CALL], ids=["text", "reasoning", "argument"])
def test_the_check_of_lateness_can_fail(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = resolve("qwen3_coder", "qwen3").grammar
    tools = tools_of([{"name": "run", "parameters": {"properties": {"cmd": {"type": "string"}}}}])
    check_holdback(grammar, tools, text)
    monkeypatch.setattr(MarkerSet, "held_from", hold_all)
    monkeypatch.setattr(State, "plain", lambda state, text, out: None)
    monkeypatch.setattr(Prose, "plain", State.plain)
    monkeypatch.setattr(Value, "plain", State.plain)
    with pytest.raises(AssertionError, match="came late"):
        check_holdback(grammar, tools, text)
