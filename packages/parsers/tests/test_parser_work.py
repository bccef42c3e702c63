"""Work and memory: linear in the text, holdback bounded (I7)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_harness import TAG, tools_of

from antiphon_parsers import Parser, resolve
from antiphon_parsers.engine.cursor import Cursor
from antiphon_parsers.engine.lenient import LenientJson
from antiphon_parsers.engine.record import RECORDS
from antiphon_parsers.engine.state import State
from antiphon_turns import Anomaly, Opening, SegmentDelta

TOOLS = tools_of(
    [
        {"name": "run", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}}}},
        {"name": "run_all", "parameters": {"type": "object", "properties": {"opt": {"type": ["string", "null"]}, "any": {}}}},
    ]
)

M3 = "]<]minimax[>["


STATES = tuple(cls for cls in RECORDS.values() if issubclass(cls, State) and cls is not State)


class Work:
    """Counts what the machine does: characters copied within the cursor, and state steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        push, unread = Cursor.push, Cursor.unread

        def counted_push(cursor: Cursor, text: str) -> None:
            push(cursor, text)
            self.count += 1 + len(cursor.text)

        def counted_unread(cursor: Cursor, text: str) -> None:
            unread(cursor, text)
            self.count += len(text) + (len(cursor.text) if cursor.at == 0 else 0)

        monkeypatch.setattr(Cursor, "push", counted_push)
        monkeypatch.setattr(Cursor, "unread", counted_unread)
        for state in STATES:
            self._count_steps(state, monkeypatch)

    def _count_steps(self, state: type, monkeypatch: pytest.MonkeyPatch) -> None:
        advance = state.advance  # type: ignore[attr-defined]

        def counted_advance(*arguments: Any) -> Any:
            self.count += 1
            return advance(*arguments)

        monkeypatch.setattr(state, "advance", counted_advance)


H_OPEN = '<tool_call>\n{"name": "run", "arguments": '
T_OPEN = "<tool_call>\n<function=run>\n<parameter=cmd>\n"
P_OPEN = "<tool_call>run<arg_key>cmd</arg_key><arg_value>"
I_OPEN = '<minimax:tool_call>\n<invoke name="run">\n<parameter name="cmd">'
D_OPEN = '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="run">\n<｜DSML｜'
T_CLOSE = "\n</parameter>\n</function>\n"
HARMONY_OPEN = "<|channel|>commentary to=functions.run <|constrain|>json<|message|>"
G_OPEN = "<|tool_call>call:run{cmd:"
XTML_OPEN = '<|open|>call tool="run" index="1"<|sep|><|open|>argument key="cmd" type="string"<|sep|>'
XTML_CLOSE = "<|close|>argument<|sep|>"
E_OPEN = M3 + "<tool_call>\n" + M3 + '<invoke name="run">' + M3

K_OPEN = "<|tool_calls_section_begin|><|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>"

# parser, head, repeated unit, tail
UNITS = {
    "hermes argument": ("hermes", H_OPEN + '{"cmd": "', "line \\n '", '"}}\n</tool_call>'),
    "hermes arguments first": ("hermes", '<tool_call>\n{"arguments": {"cmd": "', "0123456789", '"}, "name": "run"}\n</tool_call>'),
    "hermes raw line feeds": ("hermes", H_OPEN + '{"cmd": "', "line\n\t", '"}}\n</tool_call>'),
    "hermes string arguments": ("hermes", H_OPEN + '"{\\"cmd\\": \\"', "ab\\\\n", '\\"}"}\n</tool_call>'),
    "hermes mentions": ("hermes", "", "<tool_call> {'a': '", ""),
    "hermes unclosed": ("hermes", '<tool_call>\n{"a": "', "<tool_call>{'b': ", ""),
    "tags argument": ("qwen3_coder", T_OPEN, "line\n<b></p", T_CLOSE),
    "tags closers": ("qwen3_coder", T_OPEN, "</parameter>\n\n", "x"),
    "tags held": ("qwen3_coder", T_OPEN.replace("cmd", "n"), "1234567", T_CLOSE),
    "tags mentions": ("qwen3_coder", "", "<tool_call>\n<function=run> ", ""),
    "named argument": ("kimi_k2", K_OPEN + '{"cmd": "', "line \\n '", '"}<|tool_call_end|>'),
    "named mentions": ("kimi_k2", "", "<|tool_calls_section_begin|> a ", ""),
    "named openers": ("kimi_k2", "", "<|tool_call_begin|>", ""),
    "named calls": ("kimi_k2", "", "<|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>{}<|tool_call_end|>", ""),
    "named unreadable": ("kimi_k2", K_OPEN + "{x", "<|tool_call_argument", ""),
    "markers without end": ("mistral", "", "[TOOL_CALLS]run[ARGS] ", ""),
    "list": ("mistral_pre11", "[TOOL_CALLS][", '{"name": "run", "arguments": {"cmd": "a"}}, ', ""),
    "list argument": ("nemotron_deci", '<TOOLCALL>[{"name": "run", "arguments": {"cmd": "', "</TOOLCALL>", '"}}]</TOOLCALL>'),
    "bare objects": ("llama3_json", "", '{"name": "run", "parameters": {}}; ', ""),
    "braces": ("llama3_json", "x", '{"a": {', ""),
    "pairs argument": ("glm47", P_OPEN, "line\n<b></arg", "</arg_value></tool_call>"),
    "pairs closers": ("glm47", P_OPEN, "</arg_value>\n\n", "x"),
    "pairs keys": ("glm47", P_OPEN, "<arg_key>n</arg_key>", "x"),
    "pairs calls": ("glm47", "", "<tool_call>run</tool_call>\n", ""),
    "pairs mentions": ("glm47", "", "<tool_call> run", ""),
    "invokes argument": ("minimax_m2", I_OPEN, "line\n<b></para", "</parameter></invoke>"),
    "invokes closers": ("minimax_m2", I_OPEN, "</parameter>\n\n", "x"),
    "invokes tags": ("minimax_m2", I_OPEN, '<parameter name="n">', "x"),
    "invokes held": ("minimax_m2", I_OPEN.replace("cmd", "n"), "1234567", "</parameter></invoke>"),
    "invokes mentions": ("minimax_m2", "", '<minimax:tool_call><invoke name="run">x', ""),
    "dsml argument": ("deepseek_v4", D_OPEN + 'parameter name="cmd" string="true">', "a<｜DSML</｜", "x"),
    "dsml body": ("deepseek_v4", D_OPEN[:-7] + '{"cmd": "', "line \\n ", '"}</｜DSML｜invoke>'),
    "harmony argument": ("harmony", HARMONY_OPEN + '{"cmd": "', "line \\n ", '"}<|call|>'),
    "harmony headers": ("harmony", "", "<|start|>assistant", ""),
    "harmony header": ("harmony", "<|channel|>", "final ", "<|message|>x"),
    "noted argument": ("gemma4", G_OPEN + '<|"|>', 'line <|"', '<|"|>}<tool_call|>'),
    "noted quotes": ("gemma4", G_OPEN + '<|"|>', '<|"|> ', ""),
    "noted word": ("gemma4", G_OPEN, "word <", ""),
    "noted depth": ("gemma4", G_OPEN, "[", ""),
    "noted mentions": ("gemma4", "", "<|tool_call>call:run ", ""),
    "tag argument": ("kimi_k3", XTML_OPEN, "line <|close|>", XTML_CLOSE + "<|close|>call<|sep|>"),
    "tag closers": ("kimi_k3", XTML_OPEN, XTML_CLOSE + "\n", ""),
    "element text": ("minimax_m3", E_OPEN + "<cmd>", "line ]<]", ""),
    "element closers": ("minimax_m3", E_OPEN + "<cmd>", M3 + "</cmd> ", ""),
    "element tree": ("minimax_m3", E_OPEN + "<n>", M3 + "<a>", ""),
    "element items": ("minimax_m3", E_OPEN + "<n>", M3 + "<item>x" + M3 + "</item>", ""),
    "element parameters": ("minimax_m3", E_OPEN + "<n>" + M3 + "</n>", M3 + "<n>1" + M3 + "</n>", ""),
    "python argument": ("pythonic", "[run(cmd='", "line \\n ", "')]"),
    "python lists": ("pythonic", "", "[run(\n", ""),
    "text": ("hermes", "", "plain < text\n", ""),
    "blank": ("hermes", "", " \n", "x"),
}


@pytest.mark.parametrize("size", [1, 4, 10**9], ids=["chars", "fours", "whole"])
@pytest.mark.parametrize("name", UNITS)
def test_work_is_linear(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parser_name, head, unit, tail = UNITS[name]
    work = Work(monkeypatch)
    counts = []
    for repeat in (400, 800):
        work.count = 0
        text = head + unit * repeat + tail
        parser = Parser(resolve(parser_name, "qwen3").grammar, tools=TOOLS, opening=Opening("text"), turn_tag=TAG)
        for at in range(0, len(text), size):
            parser.feed(text[at : at + size])
        parser.finish("stop")
        counts.append(work.count)
    assert counts[1] <= 2.2 * counts[0] + 200, counts


LONGEST_MARKER = len("<|tool_call_argument_begin|>")
BOUND = LONGEST_MARKER + len("run_all") + 64

STREAMS = {
    "text": ("hermes", ""),
    "reasoning": ("hermes", "<think>"),
    "hermes string": ("hermes", H_OPEN + '{"cmd": "'),
    "tags string": ("qwen3_coder", T_OPEN),
    "named text": ("kimi_k2", ""),
    "named string": ("kimi_k2", K_OPEN + '{"cmd": "'),
    "marker text": ("mistral", ""),
    "list string": ("nemotron_deci", '<TOOLCALL>[{"name": "run", "arguments": {"cmd": "'),
    "bare text": ("llama3_json", ""),
    "pairs text": ("glm47", ""),
    "pairs string": ("glm47", P_OPEN),
    "invokes text": ("minimax_m2", ""),
    "invokes string": ("minimax_m2", I_OPEN),
    "harmony string": ("harmony", HARMONY_OPEN + '{"cmd": "'),
    "noted text": ("gemma4", ""),
    "noted string": ("gemma4", G_OPEN + '<|"|>'),
    "tag string": ("kimi_k3", XTML_OPEN),
    "element text": ("minimax_m3", ""),
    "element string": ("minimax_m3", E_OPEN + "<cmd>"),
    "python text": ("pythonic", ""),
    "python string": ("pythonic", "[run(cmd='"),
    "dsml text": ("deepseek_v4", ""),
    "dsml string": ("deepseek_v4", D_OPEN + 'parameter name="cmd" string="true">'),
}
CONFUSING = ["<", "</", "</t", "<tool_cal", "</think", "</parameter> x", "</parameter> \n", "</function>", "\n", "a", "long words "]
CONFUSING += ["<functio", "&", "</arg_value> x", "</arg_val", "<arg_k", "<tool_call>", "<invoke name=", "<minimax:tool", "\n\n"]
CONFUSING += ["<｜DSML｜tool_calls>", "</｜DSML｜parameter> x", "<｜DSML｜invoke", "<parameter nam"]
CONFUSING += ['<|"|> x', '<|"', XTML_CLOSE + " x", "<|close|>arg", M3 + "</cmd> x", M3, "[run", "[", "<|tool_call>ca", "<|open|>"]
CONFUSING += ["<|tool_call_begin|>", "<|tool_calls_section_begin|>", "[TOOL_CALLS]", "[ARGS]", "[", "run"]


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.sampled_from(CONFUSING), min_size=1, max_size=60))
def test_holdback_is_bounded(name: str, pieces: list[str]) -> None:
    parser_name, head = STREAMS[name]
    text = "x" + "".join(pieces)
    if name in ("hermes string", "named string", "list string", "harmony string"):
        text = json.dumps(text)[1:-1]
    parser = Parser(resolve(parser_name, "qwen3").grammar, tools=TOOLS, opening=Opening("text"), turn_tag=TAG)
    out = sum(len(event.text) for event in parser.feed(head) if isinstance(event, SegmentDelta))
    start = out
    for number, char in enumerate(text, 1):
        events = parser.feed(char)
        out += sum(len(event.text) for event in events if isinstance(event, SegmentDelta))
        assert number - (out - start) <= BOUND
        if any(isinstance(event, Anomaly) for event in events):
            return  # what was refused is dropped, not held


def test_dropped_commas_do_not_copy_what_came_before() -> None:
    value = LenientJson()
    text = "[" + "[1,]," * 2_000
    assert value.feed(text) == len(text)
    assert max(map(len, value._out)) < 100
