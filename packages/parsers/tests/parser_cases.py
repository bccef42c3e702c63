"""The handed cases and the parser entries of the field reports (grammars facts, section 7), and what is compared of them."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from parser_harness import tools_of

from antiphon_parsers import Grammar, resolve
from antiphon_turns import FinishReason, Opening, Tool

CASES = Path(__file__).parent / "cases"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One output and what must come of it. `chunks` is a cut of its own."""

    name: str
    grammar: Grammar
    tools: tuple[Tool, ...]
    text: str
    opening: Opening
    finish: FinishReason
    expect: dict[str, Any]
    chunks: tuple[str, ...] = ()


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines() if line.strip()]


def of_case(row: dict[str, Any]) -> Case:
    parsers = (None, row["parser"]) if row["kind"] == "reasoning" else (row["parser"], row.get("reasoning_parser"))
    return Case(
        name=row["id"],
        grammar=resolve(*parsers).grammar,
        tools=tools_of(row["tools"]),
        text=row["text"],
        opening=Opening("reasoning" if row.get("prefilled_think") else "text"),
        finish="length" if row["expect"].get("incomplete") else "stop",
        expect=row["expect"],
    )


def of_report(row: dict[str, Any]) -> Case:
    given, right = row["input"], row["right_value"]
    return Case(
        name=f"report{row['n']}",
        grammar=resolve(given["parser"], given.get("reasoning_parser")).grammar,
        tools=tools_of(given["tools"]),
        text=given["model_output"],
        opening=Opening(given.get("start_state", "text")),
        finish="stop",
        expect={"reasoning": right["reasoning"], "content": right["content"], "calls": right["tool_calls"]},
        chunks=tuple(given.get("chunks", ())),
    )


ALL = [
    *(of_case(row) for row in rows("parser_cases.jsonl")),
    *(of_report(row) for row in rows("field_reports.jsonl") if row["input"].get("api") == "parser"),
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
