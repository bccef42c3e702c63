"""The project's parser cases and field reports, each in every cut, checked on the events (grammars facts, section 7)."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from parser_harness import codes, cuts, joined, run, segments_of, tools_of

from antiphon_parsers import resolve
from antiphon_turns import FinishReason, Opening

CASES = Path(__file__).parent / "cases"

# Families that exist, as the case files call them.
TOOL_FAMILIES = frozenset(
    (
        *("hermes", "qwen3_coder"),
        *("glm47", "glm45", "minimax_m2", "deepseek_v4", "deepseek_v3_2", "deepseek_v41", "seed_oss", "mimo", "hy_v3"),
        *("nemotron_nano", "nemotron_v3", "step3p5"),
        *("harmony", "gemma4", "kimi_k3", "minimax_m3", "pythonic", "llama4_pythonic", "olmo3", "lfm2"),
        *("kimi_k2", "mistral", "mistral_pre11", "deepseek_v3", "deepseek_v3_1", "nemotron_deci", "granite4", "phi4", "llama3_json"),
    )
)
REASONING_FAMILIES = frozenset(
    (
        *("qwen3", "glm47", "glm45", "minimax_m2", "minimax_append_think", "deepseek_v4", "deepseek_v3_2", "deepseek_v41"),
        *("seed_oss", "mimo", "nemotron_nano", "nemotron_v3", "step3p5", "hy_v3"),
        *("gpt_oss", "gemma4", "kimi_k3", "minimax_m3", "granite"),
        *("kimi_k2", "kimi_k25", "kimi", "mistral", "deepseek_r1"),
    )
)


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines() if line.strip()]


def is_supported(tool_parser: str | None, reasoning_parser: str | None) -> bool:
    known = tool_parser in TOOL_FAMILIES or tool_parser is None
    return known and (reasoning_parser in REASONING_FAMILIES or reasoning_parser is None)


def parsers_of(case: dict[str, Any]) -> tuple[str | None, str | None]:
    if case["kind"] == "reasoning":
        return None, case["parser"]
    return case["parser"], case.get("reasoning_parser")


PARSER_CASES = [case for case in rows("parser_cases.jsonl") if is_supported(*parsers_of(case))]
REPORTS = [
    report
    for report in rows("field_reports.jsonl")
    if report["input"].get("api") == "parser"
    and "parser" in report["input"]
    and is_supported(report["input"]["parser"], report["input"].get("reasoning_parser"))
]


def same(left: object, right: object) -> bool:
    """JSON equality: numbers by value, integers exactly, true and false are no numbers."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def collapse(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def text_of(segments: Iterable[dict[str, Any]], kind: str) -> str:
    return "".join(segment["text"] for segment in segments if segment["type"] == kind)


def check(expect: dict[str, Any], segments: list[dict[str, Any]]) -> None:
    calls = [segment for segment in segments if "arguments" in segment]
    assert [call["name"] for call in calls] == [call["name"] for call in expect["calls"]]
    assert same([call["arguments"] for call in calls], [call["arguments"] for call in expect["calls"]])
    blocks = [segment["text"] for segment in segments if segment["type"] == "reasoning"]
    assert expect["reasoning"].strip() in ("".join(blocks).strip(), "\n".join(blocks).strip())
    assert collapse(text_of(segments, "text")) == collapse(expect["content"])
    if "segments" in expect:
        assert [segment["type"] for segment in segments] == [segment["type"] for segment in expect["segments"]]
        for segment, wanted in zip(segments, expect["segments"], strict=True):
            if "text" in wanted:
                assert segment["text"].strip() == wanted["text"].strip()
            else:
                assert segment["name"] == wanted["name"] and same(segment["arguments"], wanted["arguments"])


def test_cases_are_selected() -> None:
    assert len(PARSER_CASES) >= 30
    assert len(REPORTS) >= 11


@pytest.mark.parametrize("case", PARSER_CASES, ids=lambda case: str(case["id"]))
def test_parser_case(case: dict[str, Any]) -> None:
    grammar = resolve(*parsers_of(case)).grammar
    expect = case["expect"]
    opening = Opening("reasoning" if case.get("prefilled_think") else "text")
    finish: FinishReason = "length" if expect.get("incomplete") else "stop"
    first: list[Any] = []
    for pieces in cuts(case["text"]):
        events, parser = run(grammar, tools_of(case["tools"]), pieces, opening=opening, finish=finish)
        check(expect, segments_of(events))
        assert parser.incomplete == bool(expect.get("incomplete"))
        assert ("malformed_tool_call" in codes(events)) == bool(expect.get("malformed"))
        first = first or joined(events)
        assert joined(events) == first, pieces


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: f"report{report['n']}")
def test_field_report(report: dict[str, Any]) -> None:
    given, right = report["input"], report["right_value"]
    grammar = resolve(given["parser"], given.get("reasoning_parser")).grammar
    expect = {"reasoning": right["reasoning"], "content": right["content"], "calls": right["tool_calls"]}
    opening = Opening(given.get("start_state", "text"))
    text = given["model_output"]
    first: list[Any] = []
    for pieces in [*([given["chunks"]] if "chunks" in given else []), *cuts(text)]:
        events, parser = run(grammar, tools_of(given["tools"]), pieces, opening=opening)
        check(expect, segments_of(events))
        assert not parser.incomplete
        first = first or joined(events)
        assert joined(events) == first, pieces
