"""Work and memory: linear in the text, holdback bounded (I7)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_formats import FAMILIES, format_id
from parser_harness import TAG, tools_of

from antiphon_parsers import ModelFormat, Parser, resolve
from antiphon_parsers.engine.cursor import Cursor, MarkerSet
from antiphon_parsers.engine.lenient import LenientJson
from antiphon_parsers.engine.record import RECORDS
from antiphon_parsers.engine.state import State
from antiphon_turns import Anomaly, CallSegment, Opening, SegmentDelta

TOOLS = tools_of(
    [
        {"name": "run", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}}}},
        {"name": "run_all", "parameters": {"type": "object", "properties": {"opt": {"type": ["string", "null"]}, "any": {}}}},
    ]
)

M3 = "]<]minimax[>["


STATES = tuple(cls for cls in RECORDS.values() if issubclass(cls, State) and cls is not State)


class Work:
    """Counts what the machine does: characters copied within the cursor or looked at by the short way, and state steps."""

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
        plain = state.plain  # type: ignore[attr-defined]

        def counted_plain(machine: Any, text: str, out: Any) -> str | None:
            work.count += len(text)
            return plain(machine, text, out)

        work = self
        monkeypatch.setattr(state, "plain", counted_plain)


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
    for repeat in (200, 400):
        work.count = 0
        text = head + unit * repeat + tail
        parser = Parser(resolve(parser_name, "qwen3").grammar, tools=TOOLS, opening=Opening("text"), turn_tag=TAG)
        for at in range(0, len(text), size):
            parser.feed(text[at : at + size])
        parser.finish("stop")
        counts.append(work.count)
    assert counts[1] <= 2.2 * counts[0] + 200, counts


def inputs_of(model: ModelFormat, times: int) -> dict[str, str]:
    """Texts that are hard for a machine that reads anything twice; what repeats in them has about 800 characters, so many times."""
    write = model.writer.write
    before, _, after = write([CallSegment("run", '{"cmd": "@@"}')]).partition("@@")
    block = write([CallSegment("run", '{"cmd": "x"}')])
    openers = model.grammar.calls.openers if model.grammar.calls else ()
    nested = write([CallSegment("run_all", '{"any": [1]}')])

    def many(unit: str) -> str:
        return unit * (800 // len(unit) + 1) * times

    prefixes = {f"prefix of {opener}": many(opener[:-1]) for opener in openers if len(opener) > 1}
    in_value = {f"prefix of {marker} in a value": before + many(marker[:-1]) + after for marker in model.family.markers[-3:]}
    return {
        "argument": before + many("words of a line, ") + after,
        "held value": write([CallSegment("run", '{"n": 1}')]).replace("1", many("1"), 1),
        "lone <": many("<"),
        "lone < in a value": before + many("<") + after,
        "nested": nested.replace("[1]", many("[")),
        "calls": many(block),
        "openers": many(openers[0]),
        "text between calls": many(block + "\nSome text.\n"),
        **prefixes,
        **in_value,
    }


def work_of(model: ModelFormat, text: str, size: int, work: Work) -> int:
    """What the machine does for a text in deltas of `size` characters."""
    work.count = 0
    parser = Parser(model.grammar, tools=TOOLS, opening=Opening("text"), turn_tag=TAG)
    for at in range(0, len(text), size):
        parser.feed(text[at : at + size])
    parser.finish("stop")
    return work.count


@pytest.mark.parametrize("size", [1, 4], ids=["chars", "fours"])
@pytest.mark.parametrize("model", FAMILIES, ids=format_id)
def test_doubling_any_input_at_most_doubles_the_work(model: ModelFormat, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(monkeypatch)
    short, long = inputs_of(model, 1), inputs_of(model, 2)
    for name, text in short.items():
        first, second = (work_of(model, each, size, work) for each in (text, long[name]))
        assert second <= 2.2 * first + 200, (name, first, second)


def test_the_count_sees_text_that_is_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MarkerSet, "held_from", lambda markers, text, at: at)
    work = Work(monkeypatch)
    first, second = (work_of(FAMILIES[0], "<" * size, 4, work) for size in (1_500, 3_000))
    assert second > 3 * first


@pytest.mark.parametrize("model", FAMILIES, ids=format_id)
def test_large_inputs_take_work_in_proportion(model: ModelFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument of one megabyte, ten thousand lone `<`, a thousand calls: at most so many steps and characters a character."""
    work = Work(monkeypatch)
    write = model.writer.write
    argument = write([CallSegment("run", '{"cmd": "@@"}')]).replace("@@", "words of a line, " * 61_681)
    assert work_of(model, argument, 4_096, work) <= 4 * len(argument)
    assert work_of(model, "<" * 10_000, 4, work) <= 4 * 10_000
    calls = write([CallSegment("run", '{"cmd": "x"}')]) * 1_000
    assert work_of(model, calls, 64, work) <= 4 * len(calls)


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
@settings(max_examples=30, deadline=None)
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
