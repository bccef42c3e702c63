"""The project's own cases (cases/own_*cases.jsonl): taxonomy and disagreements of the grammars facts, sections 5 and 6, each in
every cut, with exact segments, anomalies where they matter, and the stop reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from parser_harness import TAG, codes, cuts, joined, restored, run, segments_of, tools_of

from antiphon_parsers import ModelFormat, Parser, declare, opening_of, resolve
from antiphon_turns import Assembler, Opening, stop_reason

FOLDER = Path(__file__).parent / "cases"
CASES: list[dict[str, Any]] = [
    json.loads(line) for path in sorted(FOLDER.glob("own_*cases.jsonl")) for line in path.read_text(encoding="utf-8").splitlines()
]
TOOLS = {name: tools_of(tools) for name, tools in json.loads((FOLDER / "own_tools.json").read_text(encoding="utf-8")).items()}
DECLARATIONS: dict[str, dict[str, Any]] = json.loads((FOLDER / "declarations.json").read_text(encoding="utf-8"))
LONGEST_SPLIT = 400


def format_of(case: dict[str, Any]) -> ModelFormat:
    """The format of a case; that of a declaration is read from it, with the end of turn its tokenizer would name."""
    if "declaration" not in case:
        return resolve(case["parser"], case["reasoning_parser"])
    declaration = dict(DECLARATIONS[case["declaration"]])
    ends = [declaration.pop("eos")] if "eos" in declaration else []
    return resolve(case["parser"], case["reasoning_parser"], declared=declare(declaration, turn_ends=ends))


def same(left: object, right: object) -> bool:
    """JSON equality: numbers by value, integers exactly, true and false are no numbers."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def check_segment(got: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert got["type"] == wanted["type"]
    if wanted["type"] != "tool_call":
        assert got["text"] == wanted["text"]
        return
    assert (got["name"], got["status"]) == (wanted["name"], wanted.get("status", "complete"))
    if "arguments" in wanted:
        assert same(got["arguments"], wanted["arguments"])
    else:
        assert "arguments" not in got
        assert got["text"] == wanted.get("raw", got["text"])


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["id"].startswith(("deepseek_v4.B7", "lfm2.", "harmony.B1"))], ids=lambda c: c["id"]
)
def test_a_snapshot_at_every_character_changes_nothing(case: dict[str, Any]) -> None:
    model, tools = format_of(case), TOOLS[case["tools"]]
    kept, copied = (Parser(model.grammar, tools=tools, opening=Opening(case["opening"]), turn_tag=TAG) for _ in range(2))
    for char in case["text"]:
        copied = restored(copied, model.grammar, tools, binary=True)
        assert copied.feed(char) == kept.feed(char)
    assert copied.finish(case.get("finish", "stop")) == kept.finish(case.get("finish", "stop"))


def test_every_identifier_is_used_once() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES) > 400


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_own_case(case: dict[str, Any]) -> None:
    model, tools, finish = format_of(case), TOOLS[case["tools"]], case.get("finish", "stop")
    opening = Opening(case["opening"])
    if opening.kind == "rendered":
        opening = opening_of(case["prompt_tail"], model.family.frame)
    first: list[Any] = []
    for pieces in cuts(case["text"], every_split=len(case["text"]) <= LONGEST_SPLIT, seeds=3):
        events, parser = run(model.grammar, tools, pieces, opening=opening, finish=finish)
        first = first or joined(events)
        assert joined(events) == first, pieces
        assert parser.incomplete == case.get("incomplete", False)
    segments = segments_of(first)
    assert [segment["type"] for segment in segments] == [segment["type"] for segment in case["segments"]]
    for got, wanted in zip(segments, case["segments"], strict=True):
        check_segment(got, wanted)
    if "anomalies" in case:
        assert codes(first) == case["anomalies"]
    assembler = Assembler()
    for event in first:
        assembler.push(event)
    assert stop_reason(assembler.segments, finish, None) == case["stop_reason"]
