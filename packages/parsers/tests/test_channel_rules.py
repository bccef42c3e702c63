"""Single rules of the families whose turns are channels or whose arguments have their own notation: what comes out of one text,
in every cut (grammars facts, 2.6, 2.8, 2.9, 2.10, 2.14)."""

import json
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
    "cut recipient": ("a<|start|>assistant<|channel|>commentary to=functions.run ", [("text", "a"), done("", status="truncated")], CUT),
    "cut in the recipient": ("a<|start|>assistant<|channel|>commentary to=functions.run", [("text", "a")], CUT),
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
    segments = (ReasoningSegment("R"), TextSegment("A"), CallSegment("f", '{"n": 1.10}'), TextSegment("B"))
    writer = resolve(*HARMONY).writer
    call = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"n": 1.10}<|call|>'
    preamble = "<|channel|>analysis<|message|>R<|end|><|start|>assistant<|channel|>commentary<|message|>A<|end|><|start|>assistant"
    assert writer.write(segments[:3]) == preamble + call
    assert writer.write(segments) == preamble + call + "<|start|>assistant<|channel|>final<|message|>B"
    assert writer.write([CallSegment("cut", "{", status="truncated")]) == ""
    assert resolve(*HARMONY).grammar.reasoning_close == "<|end|><|start|>assistant"


GEMMA = ("gemma4", "gemma4")
Q = '<|"|>'


def g(arguments: str, name: str = "run") -> str:
    return f"<|tool_call>call:{name}{arguments}<tool_call|>"


GEMMA_RULES: dict[str, Rule] = {
    "end marker in a string": (g(f"{{cmd:{Q}a <tool_call|> }} b{Q}}}"), [done('{"cmd": "a <tool_call|> } b"}')], []),
    "quote in a string": (g(f"{{cmd:{Q}a {Q} b{Q}}}"), [done(json.dumps({"cmd": f"a {Q} b"}))], []),
    "strings are raw": (g(f'{{cmd:{Q}a\\n"\n{Q}}}'), [done('{"cmd": "a\\\\n\\"\\n"}')], []),
    "json string": (g('{cmd:"a\\n\\"}"}'), [done('{"cmd": "a\\n\\"}"}')], []),
    "quoted keys": (g(f'{{{Q}cmd{Q}:{Q}a{Q}, "n" : 1}}'), [done('{"cmd": "a", "n": 1}')], []),
    "bare words": (g("{cmd:ls -l,n:12,x:yes,y:null}"), [done('{"cmd": "ls -l", "n": 12, "x": "yes", "y": null}')], []),
    "number for a string": (g("{cmd:12}"), [done('{"cmd": "12"}')], []),
    "spelling of numbers": (g("{rate:1.50e3,x:[-1,+2,3.]}", "plan"), [done('{"rate": 1.50e3, "x": [-1, 2, 3]}', "plan")], []),
    "trailing commas": (g("{any:[1,{a:true,},],}", "plan"), [done('{"any": [1, {"a": true}]}', "plan")], []),
    "empty containers": (g("{ any : [ { } , [ ] ] }", "plan"), [done('{"any": [{}, []]}', "plan")], []),
    "braces missing": (g("{any:{a:[1", "plan"), [done('{"any": {"a": [1]}}', "plan", "recovered")], REPAIRED),
    "surplus braces": (g("{n:1}}"), [done('{"n": 1}')], ["surplus_braces"]),
    "no end marker": ("<|tool_call>call:run{n:1} then", [done('{"n": 1}'), ("text", " then")], []),
    "response marker": (g("{}", "now") + "<|tool_response>", [done("{}", "now")], []),
    "unknown": (g("{a:1}", "other.tool-1"), [done('{"a": 1}', "other.tool-1")], []),
    "unreadable": (g("{any:{a 1}}", "plan") + "x", [done('{"any": {', "plan", "truncated"), ("text", "x")], MALFORMED),
    "mentioned": ("Write `<|tool_call>` and `<tool_call|>`.", [("text", "Write `<|tool_call>` and `<tool_call|>`.")], []),
    "garbage": ("<|tool_call>nonsense<tool_call|>", [("text", "<|tool_call>nonsense<tool_call|>")], MALFORMED),
    "doubled": ("<|tool_call><|tool_call>call:now{}<tool_call|>", [done("{}", "now")], STRAY),
    "stray closer": ("a<tool_call|>b", [("text", "ab")], STRAY),
    "call in an open block": (
        "<|channel>thought\nhm" + g("{n:1}") + "x",
        [("reasoning", "hm"), done('{"n": 1}'), ("text", "x")],
        [],
    ),
    "unknown call in an open block": (
        "<|channel>thought\n" + g("{}", "other") + "<channel|>x",
        [("reasoning", g("{}", "other")), ("text", "x")],
        [],
    ),
    "empty block": ("<|channel>thought\n<channel|>x", [("text", "x")], []),
    "two blocks": (
        "<|channel>thought\na<channel|>b<|channel>thought\nc<channel|>\nd",
        [("reasoning", "a"), ("text", "b"), ("reasoning", "c"), ("text", "\nd")],
        [],
    ),
    "cut name": ("<|tool_call>call:ru", [], CUT),
    "cut string": (g("{}", "now") + f"<|tool_call>call:run{{cmd:{Q}a", [done("{}", "now"), done('{"cmd": "a', status="truncated")], CUT),
}


@pytest.mark.parametrize("name", GEMMA_RULES)
def test_gemma4(name: str) -> None:
    text, segments, anomalies = GEMMA_RULES[name]
    assert outcome(GEMMA, text)[:2] == (segments, anomalies)


def test_gemma4_writes_its_notation() -> None:
    arguments = '{"b c": "x\\ny", "a": [1.10, null, {"k": "v"}, []], "z": {}}'
    call = f"<|tool_call>call:f{{{Q}b c{Q}:{Q}x\ny{Q},a:[1.10,null,{{k:{Q}v{Q}}},[]],z:{{}}}}<tool_call|>"
    written = resolve(*GEMMA).writer.write([ReasoningSegment("R"), TextSegment("A\n"), CallSegment("f", arguments), TextSegment("B")])
    assert written == f"<|channel>thought\nR<channel|>A\n{call}B"


KIMI = ("kimi_k3", "kimi_k3")


def k(*arguments: str, name: str = "run") -> str:
    return f'<|open|>call tool="{name}" index="1"<|sep|>{"".join(arguments)}<|close|>call<|sep|>'


def ka(key: str, kind: str, value: str) -> str:
    return f'<|open|>argument key="{key}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>'


KT, KE = "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"
KIMI_RULES: dict[str, Rule] = {
    "types come from the tag": (
        KT + k(ka("cmd", "number", "1.50"), ka("n", "string", "7"), ka("x", "null", "null"), ka("y", "boolean", "true")) + KE,
        [done('{"cmd": 1.50, "n": "7", "x": null, "y": true}')],
        [],
    ),
    "no type, by schema": (
        KT + k('<|open|>argument key="n"<|sep|>7<|close|>argument<|sep|>') + KE,
        [done('{"n": 7}')],
        [],
    ),
    "unfit value is text": (KT + k(ka("n", "number", "seven"), ka("x", "array", "[1")) + KE, [done('{"n": "seven", "x": "[1"}')], []),
    "attributes are decoded": (
        k(ka("a &quot;b&amp;quot;", "string", "&amp;"), name="run&amp;go"),
        [done('{"a \\"b&quot;": "&amp;"}', "run&go")],
        [],
    ),
    "json body": (
        KT + k('<|open|>json type="object"<|sep|>{"n": 1.0, "cmd": "<|close|>json<|sep|>"}<|close|>json<|sep|>') + KE,
        [done('{"n": 1.0, "cmd": "<|close|>json<|sep|>"}')],
        [],
    ),
    "json body, brace missing": (
        KT + k('<|open|>json type="object"<|sep|>{"n": 1<|close|>json<|sep|>') + KE,
        [done('{"n": 1}', status="recovered")],
        REPAIRED,
    ),
    "own closers in a string": (
        k(ka("cmd", "string", "a<|close|>argument<|sep|> b<|close|>call<|sep|> c")),
        [done('{"cmd": "a<|close|>argument<|sep|> b<|close|>call<|sep|> c"}')],
        [],
    ),
    "argument not closed": (
        KT + '<|open|>call tool="run" index="1"<|sep|><|open|>argument key="cmd" type="string"<|sep|>ls<|close|>call<|sep|>' + KE,
        [done('{"cmd": "ls"}', status="recovered")],
        REPAIRED,
    ),
    "call not closed": (
        KT + '<|open|>call tool="run" index="1"<|sep|>' + ka("n", "number", "1") + KE,
        [done('{"n": 1}', status="recovered")],
        REPAIRED,
    ),
    "no key": (
        k('<|open|>argument type="string"<|sep|>x<|close|>argument<|sep|>', ka("n", "number", "1")),
        [done('{"n": 1}')],
        ["dropped_parameter"],
    ),
    "junk between": (k(" junk ", ka("n", "number", "1")), [done('{"n": 1}')], ["stray_call_text"]),
    "no name": (k(name=""), [("text", '<|open|>call tool="" index="1"<|sep|>')], []),
    "channels": (
        "<|open|>think<|sep|>a<|close|>think<|sep|><|open|>response<|sep|>b\n<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>",
        [("reasoning", "a"), ("text", "b\n")],
        [],
    ),
    "empty channels": (
        "<|open|>think<|sep|><|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|>" + KT + k(name="now") + KE,
        [done("{}", "now")],
        [],
    ),
    "think not closed": ("<|open|>think<|sep|>a<|open|>response<|sep|>b", [("reasoning", "a"), ("text", "b")], []),
    "tools end think": ("<|open|>think<|sep|>a" + KT + k(name="other") + KE, [("reasoning", "a"), done("{}", "other")], []),
    "cut tag": (KT + '<|open|>call tool="ru', [], CUT),
    "cut value": (
        KT + '<|open|>call tool="run" index="1"<|sep|>' + ka("cmd", "string", "x")[:-4],
        [done('{"cmd": "x', status="truncated")],
        CUT,
    ),
}


@pytest.mark.parametrize("name", KIMI_RULES)
def test_kimi_k3(name: str) -> None:
    text, segments, anomalies = KIMI_RULES[name]
    assert outcome(KIMI, text)[:2] == (segments, anomalies)


def test_kimi_k3_writes_channels() -> None:
    calls = (CallSegment("a&b", '{"q \\"": "x\\ny", "n": 1.10, "l": [1], "t": true}'), CallSegment("f", ""))
    arguments = ka("q &quot;", "string", "x\ny") + ka("n", "number", "1.10") + ka("l", "array", "[1]") + ka("t", "boolean", "true")
    second = '<|open|>call tool="f" index="2"<|sep|><|close|>call<|sep|>'
    assert resolve(*KIMI).writer.write([ReasoningSegment("R"), TextSegment("A"), *calls]) == (
        "<|open|>think<|sep|>R<|close|>think<|sep|><|open|>response<|sep|>A<|close|>response<|sep|>"
        + KT
        + k(arguments, name="a&amp;b")
        + second
        + KE
    )


M3 = ("minimax_m3", "minimax_m3")
NS = "]<]minimax[>["


def m(*body: str, name: str = "run", block: bool = True) -> str:
    call = f'{NS}<invoke name="{name}">{"".join(body)}{NS}</invoke>\n'
    return f"{NS}<tool_call>\n{call}{NS}</tool_call>" if block else call


def e(name: str, *inner: str) -> str:
    return f"{NS}<{name}>{''.join(inner)}{NS}</{name}>"


M3_RULES: dict[str, Rule] = {
    "string stays": (m(e("cmd", " 12\n<item>a</cmd>")), [done('{"cmd": " 12\\n<item>a</cmd>"}')], []),
    "own closer in a string": (m(e("cmd", f"a{NS}</cmd> b")), [done(json.dumps({"cmd": f"a{NS}</cmd> b"}))], []),
    "by schema": (m(e("n", "7"), e("cmd", "7"), e("x", "7")), [done('{"n": 7, "cmd": "7", "x": "7"}')], []),
    "entities stay": (m(e("cmd", "a &lt; b")), [done('{"cmd": "a &lt; b"}')], []),
    "list whatever the tags": (m(e("tags", e("item", "a"), e("x", "1")), name="plan"), [done('{"tags": ["a", "1"]}', "plan")], []),
    "repeated name": (m(e("tags", "a"), e("tags", "b"), name="plan"), [done('{"tags": ["a", "b"]}', "plan")], []),
    "one text for a list": (m(e("tags", '["a", "b"]'), name="plan"), [done('{"tags": ["a", "b"]}', "plan")], []),
    "empty containers": (m(e("tags"), e("limits"), name="plan"), [done('{"tags": [], "limits": {}}', "plan")], []),
    "nested by schema": (
        m(e("limits", e("cpu", "4"), e("hosts", e("item", "a"))), name="plan"),
        [done('{"limits": {"cpu": 4, "hosts": ["a"]}}', "plan")],
        [],
    ),
    "text among elements": (
        m(e("limits", " note ", e("cpu", "4")), name="plan"),
        [done('{"limits": {"cpu": 4, "$text": "note"}}', "plan")],
        [],
    ),
    "undeclared tree": (m(e("x", e("a", "1"), e("a", "2"), e("b", e("item", "c")))), [done('{"x": {"a": ["1", "2"], "b": ["c"]}}')], []),
    "invoke not closed": (
        f'{NS}<tool_call>\n{NS}<invoke name="run">{e("n", "1")}{NS}</tool_call>x',
        [done('{"n": 1}', status="recovered"), ("text", "x")],
        REPAIRED,
    ),
    "string not closed": (m(f"{NS}<cmd>ls"), [done('{"cmd": "ls"}', status="recovered")], REPAIRED),
    "element not closed": (m(f"{NS}<limits>{NS}<cpu>4", name="plan"), [done('{"limits": {"cpu": 4}}', "plan", "recovered")], REPAIRED),
    "block not opened": (m(e("n", "1"), block=False), [done('{"n": 1}')], []),
    "unknown, no block": (
        m(e("n", "1"), name="other", block=False),
        [("text", f'{NS}<invoke name="other">{e("n", "1")}{NS}</invoke>\n')],
        [],
    ),
    "junk": (m(" junk ", e("n", "1")), [done('{"n": 1}')], ["stray_call_text"]),
    "two calls": (
        f"A\n{NS}<tool_call>\n" + m(e("n", "1"), block=False) + m(name="now", block=False) + f"{NS}</tool_call>\nB",
        [("text", "A"), done('{"n": 1}'), done("{}", "now"), ("text", "B")],
        [],
    ),
    "garbage": (f"{NS}<tool_call>x{NS}</tool_call>", [("text", f"{NS}<tool_call>x{NS}</tool_call>")], MALFORMED),
    "stray closer of reasoning": ("</mm:think>hi", [("text", "hi")], STRAY),
    "call in an open block": ("<mm:think>a\n" + m(e("n", "1")), [("reasoning", "a"), done('{"n": 1}')], []),
    "cut tag": (f'{NS}<tool_call>\n{NS}<invoke name="ru', [], CUT),
    "cut value": (m(e("n", "1"))[:-40], [done("", status="truncated")], CUT),
}


@pytest.mark.parametrize("name", M3_RULES)
def test_minimax_m3(name: str) -> None:
    text, segments, anomalies = M3_RULES[name]
    assert outcome(M3, text)[:2] == (segments, anomalies)


def test_minimax_m3_writes_elements() -> None:
    calls = (CallSegment("a", '{"s": "x\\ny", "l": [1.10, {"k": true}], "o": {}}'), CallSegment("b", ""))
    item = e("item", e("k", "true"))
    assert resolve(*M3).writer.write([ReasoningSegment("R"), TextSegment("A"), *calls, TextSegment("B")]) == (
        f"<mm:think>R</mm:think>A\n{NS}<tool_call>\n"
        + m(e("s", "x\ny"), e("l", e("item", "1.10"), item), e("o"), name="a", block=False)
        + m(name="b", block=False)
        + f"{NS}</tool_call>\nB"
    )


P, L4, OLMO, LFM = ("pythonic", None), ("llama4_pythonic", None), ("olmo3", "qwen3"), ("lfm2", "qwen3")
PYTHON_RULES: dict[str, tuple[tuple[str, str | None], str, list[Any], list[str]]] = {
    "literals": (
        P,
        "[plan(any={'a': True, \"b\": [None, -1.50]}, rate=1e3), now()]",
        [done('{"any": {"a": true, "b": [null, -1.50]}, "rate": 1e3}', "plan"), done("{}", "now")],
        [],
    ),
    "quotes": (P, "[run(cmd='it\\'s, \"x\" ) ]\\n')]", [done('{"cmd": "it\'s, \\"x\\" ) ]\\n"}')], []),
    "json words": (P, "[plan(any=[true, null, false])]", [done('{"any": [true, null, false]}', "plan")], []),
    "keyword is a reserved word": (P, "[run(class='x', n=1,)]", [done('{"class": "x", "n": 1}')], []),
    "text around": (P, "Look:\n[now()]\nDone.", [("text", "Look:"), done("{}", "now"), ("text", "Done.")], []),
    "in a sentence": (P, "Say [now()] or [1].", [("text", "Say [now()] or [1].")], []),
    "unknown": (P, "[other(a=1)]", [("text", "[other(a=1)]")], []),
    "positional": (P, "[run('ls')]", [("text", "[run('ls')]")], []),
    "list of text": (P, "[link](http://x)\n[ ] todo", [("text", "[link](http://x)\n[ ] todo")], []),
    "bracket missing": (P, "[run(n=1]", [done('{"n": 1}', status="recovered")], REPAIRED),
    "list not closed": (P, "[run(n=1)", [done('{"n": 1}')], []),
    "expression": (P, "[run(n=x), now()]", [done('{"n": ', status="truncated")], MALFORMED),
    "markers": (L4, "<|python_start|>[run(n=1), other(a='b')]<|python_end|>", [done('{"n": 1}'), done('{"a": "b"}', "other")], []),
    "markers without list": (L4, "<|python_start|>now()<|python_end|>x", [done("{}", "now"), ("text", "x")], []),
    "json instead": (L4, '{"name": "run", "parameters": {"n": 1.0}}', [done('{"n": 1.0}')], []),
    "json behind text": (L4, 'A\n{"name": "run"}', [("text", 'A\n{"name": "run"}')], []),
    "json of something else": (L4, '{"name": "Bob", "age": 1}', [("text", '{"name": "Bob", "age": 1}')], []),
    "one a line": (
        OLMO,
        "<function_calls>\nrun(cmd='a')\nother(n=2)\n</function_calls>\nx",
        [done('{"cmd": "a"}'), done('{"n": 2}', "other"), ("text", "x")],
        [],
    ),
    "mentioned": (OLMO, "Use `<function_calls>` here.", [("text", "Use `<function_calls>` here.")], []),
    "after reasoning": (
        LFM,
        "<think>a</think><|tool_call_start|>[now()]<|tool_call_end|>\nb",
        [("reasoning", "a"), done("{}", "now"), ("text", "\nb")],
        [],
    ),
    "in reasoning": (LFM, "<think>a<|tool_call_start|>[now()]<|tool_call_end|>", [("reasoning", "a"), done("{}", "now")], []),
    "garbage": (LFM, "<|tool_call_start|>what<|tool_call_end|>", [("text", "<|tool_call_start|>what<|tool_call_end|>")], MALFORMED),
    "cut name": (LFM, "<|tool_call_start|>[ru", [], CUT),
    "cut value": (LFM, "<|tool_call_start|>[now(), run(cmd='a", [done("{}", "now"), done('{"cmd": "a', status="truncated")], CUT),
}


@pytest.mark.parametrize("name", PYTHON_RULES)
def test_python_calls(name: str) -> None:
    names, text, segments, anomalies = PYTHON_RULES[name]
    assert outcome(names, text)[:2] == (segments, anomalies)


def test_python_calls_are_written_side_by_side() -> None:
    segments = (TextSegment("A"), CallSegment("f", '{"s": "it\'s\\n", "l": [1.10, true, null, {"k": []}]}'), CallSegment("g", ""))
    calls = "f(s='it\\'s\\n', l=[1.10, True, None, {'k': []}])", "g()"
    assert resolve(*P).writer.write(segments) == f"A\n[{', '.join(calls)}]"
    assert resolve(*L4).writer.write(segments) == f"A<|python_start|>[{', '.join(calls)}]<|python_end|>"
    assert resolve(*LFM).writer.write(segments) == f"A<|tool_call_start|>[{', '.join(calls)}]<|tool_call_end|>"
    joined_lines = "\n".join(calls)
    assert resolve(*OLMO).writer.write(segments) == f"A\n<function_calls>\n{joined_lines}\n</function_calls>"


GRANITE_RULES = {
    "block": ("Here is my thought process:\nA\nHere is my response:\nB", [("reasoning", "A"), ("text", "B")], False),
    "other spelling": ("\nHere's my thought process: A Here's my response: B", [("reasoning", " A "), ("text", " B")], False),
    "in a sentence": ("I say Here is my thought process: A", [("text", "I say Here is my thought process: A")], False),
    "closer in text": ("Here is my response: B", [("text", "Here is my response: B")], False),
    "opener inside": (
        "Here is my thought process: A Here is my thought process: B Here is my response:\nC",
        [("reasoning", " A Here is my thought process: B "), ("text", "C")],
        False,
    ),
    "no end": ("Here is my thought process:\nA", [("reasoning", "A")], True),
    "beginning only": ("Here is my", [("text", "Here is my")], False),
}


@pytest.mark.parametrize("name", GRANITE_RULES)
def test_granite_reasoning(name: str) -> None:
    text, segments, incomplete = GRANITE_RULES[name]
    assert outcome(("hermes", "granite"), text) == (segments, [], incomplete)


def test_granite_sentences_are_not_control_text() -> None:
    model = resolve("hermes", "granite")
    assert not any("Here" in marker for marker in model.family.markers)
    written = model.writer.write([ReasoningSegment("R"), TextSegment("A")])
    assert written == "Here is my thought process:\nR\nHere is my response:\nA"
