"""`antiphon parse --jsonl`: one JSON object a line, whatever stands in a case."""

import json
from typing import Any

import pytest

from antiphon.parse_cli import parse_lines

HERMES_CALL = '<tool_call>\n{"name": "save", "arguments": %s}\n</tool_call>'


def output_of(*lines: bytes) -> list[bytes]:
    return list(parse_lines(lines))


def parsed(case: dict[str, Any]) -> dict[str, Any]:
    (line,) = output_of(json.dumps(case).encode())
    # Readers split at more than line feeds.
    assert len(line.decode().splitlines()) == 1
    result = json.loads(line)
    assert isinstance(result, dict)
    return result


def test_output_has_the_documented_fields() -> None:
    case = {"id": "a", "parser": "hermes", "text": "x" + HERMES_CALL % '{"n": 1.10}', "opening": "text", "events": True}
    result = parsed(case)
    assert result["segments"] == [
        {"kind": "text", "text": "x", "status": "complete"},
        {"kind": "tool_call", "name": "save", "arguments_raw": '{"n": 1.10}', "status": "complete", "arguments": {"n": 1.10}},
    ]
    assert (result["incomplete"], result["anomalies"], result["stop_reason"]) == (False, [], "tool_use")
    assert [index for index, _ in result["events"]] == sorted(index for index, _ in result["events"])


@pytest.mark.parametrize("arguments", ['{\n  "path": "a",\n\t"n": [\r\n1]\n}', '{"path": "a\u2028b\u2029c\u0085d", "\u2028": 1}'])
def test_a_result_is_one_line(arguments: str) -> None:
    result = parsed({"id": 1, "parser": "hermes", "text": "a\u2028b" + HERMES_CALL % arguments})
    assert result["segments"][1]["arguments"] == json.loads(arguments)
    assert result["segments"][1]["arguments_raw"] == arguments


def test_unpaired_surrogates_are_replaced() -> None:
    assert parsed({"id": 1, "text": "a\ud800b"})["segments"][0]["text"] == "a\ufffdb"


def test_null_is_absent() -> None:
    case = {"id": 1, "parser": "hermes", "reasoning_parser": None, "tools": None, "prompt_tail": None, "cut": None, "text": "a"}
    assert parsed(case)["segments"][0]["text"] == "a"


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": 1, "text": "a", "parser": "hermez"}',
        b'{"id": 1, "text": "a", "cut": "sideways"}',
        b'{"id": 1, "text": 5}',
        b'{"id": 1, "cut": "given"}',
        b'{"id": 1',
        b"\xff",
        b"[1]",
        b'{"id": 1, "tools": [{"name": "a", "parameters": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}]}",
    ],
)
def test_a_bad_line_is_an_error_and_the_next_still_runs(line: bytes) -> None:
    bad, good = map(json.loads, output_of(line, b'{"id": 2, "text": "b"}'))
    assert set(bad) == {"id", "error"} and bad["error"]
    assert good["segments"][0]["text"] == "b"


def test_a_declared_format_comes_with_the_case() -> None:
    fields = {
        "content": {"close": "<|end|>"},
        "tool_calls": {"open": "<do>", "close": "</do>", "content": "json", "transform": {"function": "{content}"}},
    }
    declared = {"start_anchor": "<|model|>", "fields": fields}
    case = {"id": 1, "parser": "hf", "text": 'a\n<do>{"name": "f", "arguments": {"x": 1}}</do>', "response_template": declared}
    assert [segment["kind"] for segment in parsed(case)["segments"]] == ["text", "tool_call"]
    assert "response_template" in parsed({**case, "response_template": None})["error"]
    assert "start_anchor" in parsed({**case, "response_template": {"fields": fields}})["error"]
