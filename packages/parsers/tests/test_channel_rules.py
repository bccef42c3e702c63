"""Single rules of the families whose turns are channels or whose arguments have their own notation: what comes out of one text,
in every cut (grammars facts, 2.6, 2.8, 2.9, 2.10, 2.14)."""

from typing import Any

import pytest
from parser_harness import TEXT, codes, cuts, joined, run, segments_of, tools_of

from antiphon_parsers import resolve
from antiphon_turns import CallSegment, FinishReason, Opening, ReasoningSegment, TextSegment

TOOLS = tools_of(
    [
        {"name": "run", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}}}},
        {"name": "now", "parameters": {"type": "object", "properties": {}}},
        {
            "name": "plan",
            "parameters": {
                "type": "object",
                "properties": {
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "limits": {"type": "object", "properties": {"cpu": {"type": "integer"}, "hosts": {"type": "array"}}},
                    "any": {},
                    "rate": {"type": "number"},
                },
            },
        },
    ]
)
CUT, STRAY, MALFORMED, REPAIRED = ["call_unfinished"], ["stray_marker"], ["malformed_tool_call"], ["repaired_tool_call"]
Rule = tuple[str, list[Any], list[str]]


def outcome(
    names: tuple[str, str | None], text: str, finish: FinishReason = "stop", opening: Opening = TEXT
) -> tuple[list[Any], list[str], bool]:
    """Short segments, anomaly codes, incomplete; the same for every cut."""
    grammar = resolve(*names).grammar
    first: list[Any] = []
    for pieces in cuts(text, seeds=3):
        events, reader = run(grammar, TOOLS, pieces, opening=opening, finish=finish)
        first = first or joined(events)
        assert joined(events) == first, pieces
    short: list[Any] = []
    for segment in segments_of(first):
        if segment["type"] == "tool_call":
            short.append((segment["name"], segment["text"], segment["status"]))
        else:
            short.append((segment["type"], segment["text"]))
    return short, codes(first), reader.incomplete


def done(arguments: str, name: str = "run", status: str = "complete") -> tuple[str, str, str]:
    return name, arguments, status


HARMONY = ("harmony", "gpt_oss")
H_CALL = "<|channel|>commentary to=functions.run <|constrain|>json<|message|>"
HARMONY_RULES: dict[str, Rule] = {
    "no end marker": (H_CALL + '{"cmd": "a"}', [done('{"cmd": "a"}')], []),
    "no arguments": (H_CALL + "<|call|>", [done("{}")], []),
    "no arguments, end swallowed": (H_CALL, [done("{}")], []),
    "no constrain": ('<|channel|>commentary to=functions.run<|message|>{"n": 1.0}<|call|>', [done('{"n": 1.0}')], []),
    "bare content type": ('<|channel|>commentary to=functions.run json<|message|>{"n":1}<|call|>', [done('{"n":1}')], []),
    "no prefix": ('<|channel|>commentary to=run<|message|>{"n":1}<|call|>', [done('{"n":1}')], []),
    "unknown": ('<|channel|>analysis to=browser.search<|message|>{"q":1}<|call|>', [done('{"q":1}', "browser.search")], []),
    "own tokens in a string": (H_CALL + '{"cmd": "<|call|><|end|>"}<|call|>', [done('{"cmd": "<|call|><|end|>"}')], []),
    "brace missing": (H_CALL + '{"cmd": "a"<|call|>', [done('{"cmd": "a"}', status="recovered")], REPAIRED),
    "python": (H_CALL + "{'cmd': None}<|call|>", [done('{"cmd": null}', status="recovered")], REPAIRED),
    "unreadable, then text": (
        H_CALL + '{"cmd": a}<|end|><|start|>assistant<|channel|>final<|message|>x',
        [done('{"cmd": ', status="truncated"), ("text", "x")],
        MALFORMED,
    ),
    "no object": (H_CALL + "ls -l<|call|>", [("text", "ls -l")], MALFORMED),
    "doubled channel": ("<|channel|>analysis<|channel|>final<|message|>x<|return|>", [("text", "x")], []),
    "prose before": ("Look.<|start|>assistant" + H_CALL + "{}<|call|>", [("text", "Look."), done("{}")], []),
    "start inferred": ("<|channel|>analysis<|message|>a<|channel|>final<|message|>b", [("reasoning", "a"), ("text", "b")], []),
    "empty messages": ("<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>b", [("text", "b")], []),
    "white space stays": ("<|channel|>final<|message|>\n\n b\n<|return|>", [("text", "\n\n b\n")], []),
    "header without message": ("a <|channel|> b <|end|>c", [("text", "a  b "), ("text", "c")], STRAY),
    "header never ends": ("a<|constrain|>" + "b" * 300, [("text", "a" + "b" * 300)], STRAY),
    "cut header": ("a<|start|>assistant<|channel|>fin", [("text", "a")], []),
    "cut recipient": ("a<|start|>assistant<|channel|>commentary to=functions.run", [("text", "a"), done("", status="truncated")], CUT),
    "cut arguments": (H_CALL + '{"cmd": "a', [done('{"cmd": "a', status="truncated")], CUT),
}


@pytest.mark.parametrize("name", HARMONY_RULES)
def test_harmony(name: str) -> None:
    text, segments, anomalies = HARMONY_RULES[name]
    assert outcome(HARMONY, text)[:2] == (segments, anomalies)


def test_harmony_reads_what_the_prompt_opened() -> None:
    text = "because<|end|><|start|>assistant<|channel|>final<|message|>yes"
    expected = [("reasoning", "because"), ("text", "yes")]
    for opening in (Opening("rendered", "<|channel|>analysis<|message|>"), Opening("reasoning")):
        assert outcome(HARMONY, text, opening=opening) == (expected, [], False)
    assert outcome(HARMONY, "al<|message|>yes", opening=Opening("rendered", "<|channel|>fin")) == ([("text", "yes")], [], False)
    assert outcome(HARMONY, "<|channel|>analysis<|message|>so", "length") == ([("reasoning", "so")], [], True)


def test_harmony_writes_messages() -> None:
    segments = [ReasoningSegment("R"), TextSegment("A"), CallSegment("f", '{"n": 1.10}'), TextSegment("B")]
    writer = resolve(*HARMONY).writer
    call = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"n": 1.10}<|call|>'
    preamble = "<|channel|>analysis<|message|>R<|end|><|start|>assistant<|channel|>commentary<|message|>A<|end|><|start|>assistant"
    assert writer.write(segments[:3]) == preamble + call
    assert writer.write(segments) == preamble + call + "<|start|>assistant<|channel|>final<|message|>B"
    assert writer.write([CallSegment("cut", "{", status="truncated")]) == ""
    assert resolve(*HARMONY).grammar.reasoning_close == "<|end|><|start|>assistant"
