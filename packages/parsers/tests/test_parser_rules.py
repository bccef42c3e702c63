"""Single rules of the grammars facts (2.0, 2.1, 2.2, 3.2): what comes out of one text, in every cut."""

from typing import Any

import pytest
from parser_harness import TAG, TEXT, codes, cuts, joined, run, segments_of, tools_of

from antiphon_parsers import Parser, opening_of, resolve
from antiphon_turns import CallReady, FinishReason, Opening, SegmentDelta, SegmentEnd, Tool
from antiphon_turns.errors import InternalError

TOOLS = tools_of(
    [
        {"name": "run", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}}}},
        {"name": "save", "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "body": {"type": "string"}}}},
        {"name": "now", "parameters": {"type": "object", "properties": {}}},
    ]
)
HERMES, TAGS = "hermes", "qwen3_coder"


def outcome(parser: str, text: str, finish: FinishReason = "stop", opening: Opening = TEXT) -> tuple[list[Any], list[str], bool]:
    """Short segments, anomaly codes, incomplete; the same for every cut."""
    grammar = resolve(parser, "qwen3").grammar
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


def h(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def q(name: str, *parameters: tuple[str, str]) -> str:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


REPAIRED = ["repaired_tool_call"]
MALFORMED = ["malformed_tool_call"]

HERMES_RULES = {
    "verbatim numbers": (
        h('{"name": "run", "arguments": {"n": 12345678901234567890,  "x":1.10}}'),
        [("run", '{"n": 12345678901234567890,  "x":1.10}', "complete")],
        [],
    ),
    "python dict": (
        h("{'name': 'run', 'arguments': {'cmd': 'say \"hi\" it\\'s', 'x': True, 'y': [None, False]}}"),
        [("run", '{"cmd": "say \\"hi\\" it\'s", "x": true, "y": [null, false]}', "recovered")],
        REPAIRED,
    ),
    "raw line feed": (h('{"name": "run", "arguments": {"cmd": "a\nb"}}'), [("run", '{"cmd": "a\\nb"}', "recovered")], REPAIRED),
    "trailing commas": (h('{"name": "run", "arguments": {"cmd": ["a", ], },}'), [("run", '{"cmd": ["a" ] }', "recovered")], REPAIRED),
    "braces missing": (h('{"name": "run", "arguments": {"cmd": {"a": [1'), [("run", '{"cmd": {"a": [1\n]}}', "recovered")], REPAIRED),
    "outer brace missing": (h('{"name": "run", "arguments": {"cmd": "a"}'), [("run", '{"cmd": "a"}', "recovered")], REPAIRED),
    "surplus brace": (h('{"name": "run", "arguments": {"cmd": "a"}}}'), [("run", '{"cmd": "a"}', "complete")], ["surplus_braces"]),
    "unknown escape": (h('{"name": "run", "arguments": {"cmd": "\\d\\x41"}}'), [("run", '{"cmd": "\\\\d\\u0041"}', "recovered")], REPAIRED),
    "unreadable arguments": (
        h('{"name": "run", "arguments": {"cmd": bad}}') + "\nafter",
        [("run", '{"cmd": ', "truncated"), ("text", "after")],
        MALFORMED,
    ),
    "unreadable then a good call": (
        h('{"name": "run", "arguments": {"cmd": bad') + "\n" + h('{"name": "now"}'),
        [("run", '{"cmd": ', "truncated"), ("now", "{}", "complete")],
        MALFORMED,
    ),
    "arguments in a string": (
        h('{"name": "run", "arguments": "{\\"cmd\\": \\"a\\\\nb \\ud83d\\ude00 \\ud83d\\"}"}'),
        [("run", '{"cmd": "a\\nb 😀 \\ud83d"}', "complete")],
        [],
    ),
    "empty string of arguments": (h('{"name": "now", "arguments": ""}'), [("now", "{}", "complete")], []),
    "null arguments": (h('{"name": "now", "arguments": null}'), [("now", "{}", "complete")], []),
    "parameters key": (h('{"name": "run", "parameters": {"cmd": "a"}}'), [("run", '{"cmd": "a"}', "complete")], []),
    "more keys": (h('{"id": 7, "name": "run", "x": [{}], "arguments": {}, "y": "z"}'), [("run", "{}", "complete")], []),
    "no name": (h('{"arguments": {}}'), [("text", h('{"arguments": {}}'))], MALFORMED),
    "arguments no object": (h('{"name": "run", "arguments": [1]}'), [("text", h('{"name": "run", "arguments": [1]}'))], MALFORMED),
    "name no string": (h('{"name": 5}'), [("text", h('{"name": 5}'))], MALFORMED),
    "name with markup": (h('{"name": "a<b", "arguments": {}}'), [("text", h('{"name": "a<b", "arguments": {}}'))], MALFORMED),
    "other family": (q("now"), [("text", q("now"))], MALFORMED),
    "garbage then good": (
        "<tool_call>junk\n" + h('{"name": "now"}'),
        [("text", "<tool_call>junk"), ("now", "{}", "complete")],
        [],
    ),
    "closer in a string": (
        h('{"name": "run", "arguments": {"cmd": "</tool_call>"}}'),
        [("run", '{"cmd": "</tool_call>"}', "complete")],
        [],
    ),
    "unknown tool": (h('{"name": "other.x-1", "arguments": {}}'), [("other.x-1", "{}", "complete")], []),
}

TAG_RULES = {
    "own closers in a value": (
        q("save", ("body", "a\n</parameter>\nb </function> c\n</tool_call>\nd")),
        [("save", '{"body": "a\\n</parameter>\\nb </function> c\\n</tool_call>\\nd"}', "complete")],
        [],
    ),
    "undeclared parameter tag in a value": (
        q("save", ("body", "x <parameter=zzz> y")),
        [("save", '{"body": "x <parameter=zzz> y"}', "complete")],
        [],
    ),
    "value closer missing": (
        "<tool_call>\n<function=save>\n<parameter=path>\na\n<parameter=body>\nb\n</function>\n</tool_call>",
        [("save", '{"path": "a", "body": "b"}', "recovered")],
        REPAIRED,
    ),
    "function closer missing": (
        "<tool_call>\n<function=save>\n<parameter=path>\na\n</parameter>\n</tool_call>",
        [("save", '{"path": "a"}', "recovered")],
        REPAIRED,
    ),
    "several in one wrapper": (
        "<tool_call>\n<function=now>\n</function>\n<function=other>\n<parameter=k>v</parameter>\n</function>\n</tool_call>",
        [("now", "{}", "complete"), ("other", '{"k": "v"}', "complete")],
        [],
    ),
    "repeated key": (q("run", ("cmd", "a"), ("cmd", "b")), [("run", '{"cmd": "a", "cmd": "b"}', "complete")], []),
    "white space is data": (q("save", ("body", "\n  a  \n\n")), [("save", '{"body": "\\n  a  \\n\\n"}', "complete")], []),
    "empty value": (
        "<tool_call><function=save><parameter=body></parameter></function></tool_call>",
        [("save", '{"body": ""}', "complete")],
        [],
    ),
    "entities stay": (q("save", ("body", "&lt;a&gt; &amp;")), [("save", '{"body": "&lt;a&gt; &amp;"}', "complete")], []),
    "undeclared is text": (q("save", ("mode", "7")), [("save", '{"mode": "7"}', "complete")], []),
    "no schema is text": (q("other", ("n", "true")), [("other", '{"n": "true"}', "complete")], []),
    "parameter without name": (q("run", ("n", "7"), ("", "x")), [("run", '{"n": 7}', "complete")], ["dropped_parameter"]),
    "text between parameters": (
        "<tool_call>\n<function=run>\nfirst\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>",
        [("text", "<tool_call>\n<function=run>\nfirst\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>")],
        MALFORMED,
    ),
    "text behind a parameter": (
        "<function=run>\n<parameter=n>7</parameter>\n<b>hm\n<parameter=cmd>ls</parameter></function>",
        [("run", '{"n": "7</parameter>\\n<b>hm", "cmd": "ls"}', "recovered")],
        REPAIRED,
    ),
    "prose mention": ("Use <function=run> so, or <function=x>.", [("text", "Use <function=run> so, or <function=x>.")], []),
    "bare known call": ("hi\n<function=now>\n</function>\nbye", [("text", "hi"), ("now", "{}", "complete"), ("text", "bye")], []),
    "bare unknown call": ("<function=x>\n</function>", [("text", "<function=x>\n</function>")], []),
}

NOW = h('{"name": "now"}')
RUN = h('{"name": "run", "arguments": {}}')
UNKNOWN = h('{"name": "x"}')

PROSE_RULES = {
    "two blocks in order": (
        f"<think>\na\n</think>\n\n{NOW}\n<think>\nb\n</think>\n\n{RUN}",
        [("reasoning", "a"), ("now", "{}", "complete"), ("reasoning", "b"), ("run", "{}", "complete")],
        [],
    ),
    "nested opener": ("<think>a<think>b</think>c", [("reasoning", "ab"), ("text", "c")], ["stray_marker"]),
    "text before a block": ("x\n<think>a</think>y", [("text", "x\n"), ("reasoning", "a"), ("text", "y")], []),
    "empty blocks": ("<think></think><think>\n\n</think>\n\nx", [("text", "x")], []),
    "only framing goes": ("<think>\n\n a \n\n</think>\n\n\nx\n", [("reasoning", "\n a \n"), ("text", "\nx\n")], []),
    "stray closers": ("a</think>b</tool_call>c", [("text", "abc")], ["stray_marker", "stray_marker"]),
    "mention in prose": ("use <tool_call> and </tool_call>", [("text", "use <tool_call> and </tool_call>")], []),
    "garbage in a line": ("so <tool_call>junk</tool_call>", [("text", "so <tool_call>junk</tool_call>")], MALFORMED),
    "mention at the end": ("I would use <tool_call>", [("text", "I would use <tool_call>")], []),
    "partial marker at the end": ("a <tool_c", [("text", "a <tool_c")], []),
    "text around calls": (
        f"a\n\n{NOW}\n\nb\n{NOW} c",
        [("text", "a\n"), ("now", "{}", "complete"), ("text", "\nb"), ("now", "{}", "complete"), ("text", " c")],
        [],
    ),
    "known call ends reasoning": (
        f"<think>\na\n{NOW}\nb",
        [("reasoning", "a"), ("now", "{}", "complete"), ("text", "b")],
        [],
    ),
    "call inside a line of reasoning": (
        f"<think>\na {NOW}</think>",
        [("reasoning", f"a {NOW}")],
        [],
    ),
    "unknown call in reasoning": (
        f"<think>\na\n{UNKNOWN}</think>",
        [("reasoning", f"a\n{UNKNOWN}")],
        [],
    ),
    "blank turn": (" \n\n ", [], []),
}


@pytest.mark.parametrize("name", HERMES_RULES)
def test_hermes_rule(name: str) -> None:
    text, segments, anomalies = HERMES_RULES[name]
    assert outcome(HERMES, text) == (segments, anomalies, False)


@pytest.mark.parametrize("name", TAG_RULES)
def test_tag_rule(name: str) -> None:
    text, segments, anomalies = TAG_RULES[name]
    assert outcome(TAGS, text) == (segments, anomalies, False)


@pytest.mark.parametrize("name", PROSE_RULES)
def test_prose_rule(name: str) -> None:
    text, segments, anomalies = PROSE_RULES[name]
    assert outcome(HERMES, text) == (segments, anomalies, False)


CUTS = {
    "in a value": (TAGS, "<tool_call>\n<function=run>\n<parameter=cmd>\nrm -r", [("run", '{"cmd": "rm -r', "truncated")]),
    "behind a value": (TAGS, "<tool_call>\n<function=run>\n<parameter=n>\n7\n</parameter>\n", [("run", '{"n": 7', "truncated")]),
    "in a held value": (TAGS, "<tool_call>\n<function=run>\n<parameter=n>\n7", [("run", "", "truncated")]),
    "behind the tag": (TAGS, "a\n<tool_call>\n<function=run>\n", [("text", "a"), ("run", "", "truncated")]),
    "in the tag": (TAGS, "a\n<tool_call>\n<funct", [("text", "a")]),
    "in the arguments": (HERMES, '<tool_call>\n{"name": "run", "arguments": {"cmd": "rm -r', [("run", '{"cmd": "rm -r', "truncated")]),
    "behind the arguments": (HERMES, '<tool_call>\n{"name": "run", "arguments": {"cmd": "a"}', [("run", '{"cmd": "a"', "truncated")]),
    "behind the name": (HERMES, '<tool_call>\n{"name": "run", ', [("run", "", "truncated")]),
    "in the name": (HERMES, 'a\n<tool_call>\n{"name": "ru', [("text", "a")]),
    "behind the marker": (HERMES, "a\n<tool_call>\n", [("text", "a")]),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_cut_call_is_never_executable(name: str) -> None:
    parser, text, segments = CUTS[name]
    assert outcome(parser, text, "length") == (segments, [], True)
    assert outcome(parser, text, "stop") == (segments, ["call_unfinished"], True)


def test_a_whole_call_at_the_limit_is_a_call() -> None:
    assert outcome(TAGS, "<tool_call>\n<function=now>\n</function>\n", "length") == ([("now", "{}", "complete")], [], False)


OPENINGS = {
    "in reasoning": ("<|im_start|>assistant\n<think>\n", "a\n</think>\n\nb", [("reasoning", "a"), ("text", "b")]),
    "marker again": ("<|im_start|>assistant\n<think>\n", "<think>\na\n</think>\n\nb", [("reasoning", "a"), ("text", "b")]),
    "closed": ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "\na", [("text", "\na")]),
    "half of the framing": ("<|im_start|>assistant\n<think>a</think>\n", "\na", [("text", "a")]),
    "earlier turns": ("<|im_start|>assistant\n<think>\n<|im_end|>\n<|im_start|>assistant\n", "a", [("text", "a")]),
    "prefill": ("<|im_start|>assistant\nHello\n", " world", [("text", " world")]),
    "in a call": (
        '<|im_start|>assistant\n<tool_call>\n{"name": "run", "arguments": {"cmd": "a',
        'b"}}\n</tool_call>\nc',
        [("run", '{"cmd": "ab"}', "complete"), ("text", "c")],
    ),
    "in a value": (
        "<tool_call>\n<function=run>\n<parameter=cmd>\na",
        "b\n</parameter>\n</function>\n</tool_call>",
        [("run", '{"cmd": "ab"}', "complete")],
    ),
}


@pytest.mark.parametrize("name", OPENINGS)
def test_rendered_opening(name: str) -> None:
    tail, text, segments = OPENINGS[name]
    parser = TAGS if "<function" in tail else HERMES
    assert outcome(parser, text, opening=opening_of(tail, resolve(parser, None).family.frame)) == (segments, [], False)


def test_a_refused_opener_waits_for_the_character_that_tells_a_block_from_a_mention() -> None:
    grammar = resolve(TAGS, "qwen3").grammar
    text = "see <function=run></tool_call>"
    whole, _ = run(grammar, (), [text])
    assert codes(whole) == ["malformed_tool_call"]
    assert joined(run(grammar, (), list(text))[0]) == joined(whole)


def test_undecided_starts_as_text_and_drops_the_closer() -> None:
    assert outcome(HERMES, "a</think>b", opening=Opening("undecided")) == ([("text", "ab")], ["stray_marker"], False)


def reader(parser: str, opening: Opening = TEXT) -> Parser:
    return Parser(resolve(parser, "qwen3").grammar, tools=TOOLS, opening=opening, turn_tag=TAG)


def tokens_of(parser: Parser, pieces: list[tuple[str, int]]) -> list[int]:
    events = [event for text, count in pieces for event in parser.feed(text, range(count))] + parser.finish("stop")
    return [event.tokens for event in events if isinstance(event, SegmentEnd)]


def test_tokens_belong_to_the_segment_of_their_last_byte() -> None:
    pieces = [("<think>", 1), ("\n", 1), ("plan", 1), ("\n", 1), ("</think>", 1), ("\n\n", 1), ("Hi", 1), (" you", 1), ("\n", 1)]
    pieces += [("<tool_call>", 1), ("\n", 1), ('{"name": "now"', 3), ("}", 1), ("\n", 1), ("</tool_call>", 1), ("", 1)]
    assert tokens_of(reader(HERMES), pieces) == [5, 4, 8]


def test_a_token_over_a_boundary_counts_once() -> None:
    assert tokens_of(reader(HERMES), [("<think>a", 1), ("b</think>\n\nHi", 1), (" you", 1)]) == [1, 2]


def test_tokens_without_text_wait_for_it() -> None:
    assert tokens_of(reader(HERMES), [("<think>a</think>", 3), ("", 1), ("", 1), ("é", 1), ("", 1)]) == [3, 4]


def test_the_call_leaves_at_its_closing_marker() -> None:
    parser = reader(TAGS)
    parser.feed("<tool_call>\n<function=run>\n<parameter=cmd>\nls\n</parameter>\n</function>\n</tool_call")
    assert [type(event) for event in parser.feed(">")] == [SegmentDelta, SegmentEnd, CallReady]


def test_strings_stream_while_they_are_decoded() -> None:
    parser = reader(TAGS)
    parser.feed("<tool_call>\n<function=run>\n<parameter=cmd>\n")
    assert parser.feed('say "hi"') == [SegmentDelta(0, '"hi"'.join(["say ", ""]).replace('"', '\\"'))]
    assert parser.feed("\n<") == []
    assert parser.feed("b>") == [SegmentDelta(0, "\\n<b>")]


def test_in_reasoning() -> None:
    parser = reader(HERMES, Opening("reasoning"))
    assert parser.in_reasoning
    parser.feed("a\n</think>")
    assert not parser.in_reasoning
    parser.finish("stop")
    assert not parser.incomplete


def test_nothing_after_finish() -> None:
    parser = reader(HERMES)
    parser.finish("stop")
    with pytest.raises(InternalError):
        parser.feed("a")
    with pytest.raises(InternalError):
        parser.finish("stop")


def test_a_broken_schema_is_no_schema() -> None:
    tools = [Tool(name="x", parameters="{"), Tool(name="y", parameters='{"properties": {"k": true}}')]
    text = q("x", ("k", "1")) + q("y", ("k", "1"))
    events, _ = run(resolve(TAGS, None).grammar, tools, [text])
    assert [segment["text"] for segment in segments_of(events)] == ['{"k": "1"}'] * 2


@pytest.mark.parametrize("size", [1 << 16, 3 << 20])
def test_held_blocks_are_capped(size: int) -> None:
    text = '<tool_call>\n{"arguments": {"cmd": "' + "a" * (2 << 20) + '"}, "name": "run"}\n</tool_call>'
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events, _ = run(resolve(HERMES, None).grammar, TOOLS, pieces)
    assert codes(events) == ["held_call_too_long", "malformed_tool_call"]
    assert [segment["type"] for segment in segments_of(events)] == ["text"]
    events, _ = run(resolve(TAGS, None).grammar, TOOLS, [q("run", ("n", "1" * (2 << 20)))])
    assert codes(events) == ["held_value_too_long"]
    assert len(segments_of(events)[0]["arguments"]["n"]) == 2 << 20


ROOTS = [
    {"allOf": [{"properties": {"n": {"type": "integer"}}}, {"properties": {"k": {"type": "string"}}}]},
    {"type": "object", "anyOf": [{"properties": {"n": {"type": "integer"}}}, {"properties": {"k": {}}}]},
    {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"n": {"$ref": "#/$defs/n"}}}, "n": {"type": "integer"}}},
    {"properties": {"k": {"type": "string"}}, "patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False},
    {"allOf": [{"$ref": "#"}, {"properties": {"n": {"type": ["integer", "null"]}}}]},
]


@pytest.mark.parametrize("schema", ROOTS)
def test_parameters_are_declared_in_every_branch_of_the_schema(schema: dict[str, Any]) -> None:
    events, _ = run(resolve(TAGS, None).grammar, tools_of([{"name": "x", "parameters": schema}]), [q("x", ("n", "7"), ("k", "7"))])
    assert segments_of(events)[0]["arguments"] == {"n": 7, "k": "7"}
