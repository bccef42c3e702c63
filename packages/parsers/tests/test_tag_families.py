"""Rules of the tag formats beside qwen3_coder (grammars facts 2.2 to 2.4, 2.7, 2.16, 3.2): what comes out of one text, in every cut."""

from typing import Any

import pytest
from parser_harness import TEXT, codes, cuts, joined, run, segments_of, tools_of

from antiphon_parsers import opening_of, resolve
from antiphon_turns import CallSegment, FinishReason, Opening, TextSegment

TOOLS = tools_of(
    [
        {"name": "run", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}}}},
        {"name": "save", "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "body": {"type": "string"}}}},
        {"name": "now", "parameters": {"type": "object", "properties": {}}},
        {"name": "my tool", "parameters": {"type": "object", "properties": {"a b": {"type": "boolean"}}}},
    ]
)
G47, G45, M2, V4, V32, V41 = "glm47", "glm45", "minimax_m2", "deepseek_v4", "deepseek_v3_2", "deepseek_v41"
SEED, MIMO, HY = "seed_oss", "mimo", "hy_v3"


def outcome(parser: str, text: str, finish: FinishReason = "stop", opening: Opening = TEXT) -> tuple[list[Any], list[str], bool]:
    """Short segments, anomaly codes, incomplete; the same for every cut."""
    grammar = resolve(parser, parser).grammar
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


def g(name: str, *pairs: tuple[str, str]) -> str:
    return f"<tool_call>{name}" + "".join(f"<arg_key>{k}</arg_key><arg_value>{v}</arg_value>" for k, v in pairs) + "</tool_call>"


def i(name: str, *pairs: tuple[str, str]) -> str:
    return f'<invoke name="{name}">\n' + "".join(f'<parameter name="{k}">{v}</parameter>\n' for k, v in pairs) + "</invoke>\n"


def m(*invokes: str) -> str:
    return f"<minimax:tool_call>\n{''.join(invokes)}</minimax:tool_call>"


def d(*lines: str, block: str = "tool_calls", token: str = "｜DSML｜") -> str:
    """A DSML block; each line is the inside of a tag that carries the token, or text."""
    inner = "\n".join(lines).replace("</", "\0").replace("<", f"<{token}").replace("\0", f"</{token}")
    return f"<{token}{block}>\n{inner}\n</{token}{block}>"


NOW: tuple[str, str, str] = ("now", "{}", "complete")
LS: tuple[str, str, str] = ("run", '{"cmd": "ls"}', "complete")
REPAIRED, MALFORMED, STRAY = ["repaired_tool_call"], ["malformed_tool_call"], ["stray_marker"]

# parser, text, segments, anomalies
RULES: dict[str, tuple[str, str, list[Any], list[str]]] = {
    # name and pairs
    "glm no arguments": (G47, g("now"), [NOW], []),
    "glm no arguments, lines": (G45, "<tool_call>now\n</tool_call>", [NOW], []),
    "glm name on its own line": (G47, "<tool_call>\nnow\n</tool_call>", [NOW], []),
    "glm unknown tool": (G47, g("other.x-1", ("n", "7")), [("other.x-1", '{"n": "7"}', "complete")], []),
    "glm declared name with a space": (G47, g("my tool", ("a b", "true")), [("my tool", '{"a b": true}', "complete")], []),
    "glm no name": (G47, g("", ("cmd", "ls")), [("text", g("", ("cmd", "ls")))], MALFORMED),
    "glm own closers in a value": (
        G47,
        g("save", ("body", "a</arg_value>b</tool_call>c<arg_key>d")),
        [("save", '{"body": "a</arg_value>b</tool_call>c<arg_key>d"}', "complete")],
        [],
    ),
    "glm value closer missing": (
        G47,
        "<tool_call>save<arg_key>path</arg_key><arg_value>a<arg_key>body</arg_key><arg_value>b</arg_value></tool_call>",
        [("save", '{"path": "a", "body": "b"}', "recovered")],
        REPAIRED,
    ),
    "glm last value closer missing": (
        G47,
        "<tool_call>run<arg_key>cmd</arg_key><arg_value>ls</tool_call>",
        [("run", '{"cmd": "ls"}', "recovered")],
        REPAIRED,
    ),
    "glm call closer missing before the next": (
        G47,
        "<tool_call>now<tool_call>now</tool_call>",
        [("text", "<tool_call>now"), NOW],
        [],
    ),
    "glm key without value": (G47, "<tool_call>run<arg_key>n</arg_key></tool_call>", [("run", "{}", "complete")], ["dropped_parameter"]),
    "glm key without end": (
        G47,
        "<tool_call>run<arg_key>" + "k" * 200 + "</arg_value><arg_key>n</arg_key><arg_value>7</arg_value></tool_call>",
        [("run", '{"n": 7}', "complete")],
        ["dropped_parameter"],
    ),
    "glm text between pairs": (
        G47,
        "<tool_call>run<arg_key>n</arg_key><arg_value>7</arg_value></tool_call>x",
        [("run", '{"n": 7}', "complete"), ("text", "x")],
        [],
    ),
    "glm white space is data": (G47, g("save", ("body", "\n  a \n")), [("save", '{"body": "\\n  a \\n"}', "complete")], []),
    "glm entities stay": (G47, g("run", ("cmd", "a &lt; b")), [("run", '{"cmd": "a &lt; b"}', "complete")], []),
    "glm repeated key": (G47, g("run", ("n", "1"), ("n", "2")), [("run", '{"n": 1, "n": 2}', "complete")], []),
    "glm mention": (G47, "Use <tool_call> and </tool_call> for it.", [("text", "Use <tool_call> and </tool_call> for it.")], []),
    "glm mention at the end": (G47, "I would use <tool_call> so", [("text", "I would use <tool_call> so")], []),
    "glm mention of a name": (G47, "Not <tool_call> now is", [("text", "Not <tool_call> now is")], []),
    "minimax mention at the end": (M2, 'It begins with <invoke name="', [("text", 'It begins with <invoke name="')], []),
    "glm mention in a fence": (G47, "```\n<tool_call> name ...\n```", [("text", "```\n<tool_call> name ...\n```")], []),
    "glm garbage": (G47, "<tool_call>not a name at all</tool_call>", [("text", "<tool_call>not a name at all</tool_call>")], MALFORMED),
    "glm garbage then good": (G47, "<tool_call>{bad\n" + g("now"), [("text", "<tool_call>{bad\n"), NOW], []),
    "glm other family": (
        G47,
        '<tool_call>\n{"name": "now"}\n</tool_call>',
        [("text", '<tool_call>\n{"name": "now"}\n</tool_call>')],
        MALFORMED,
    ),
    "glm orphan closer": (G47, "a</tool_call>b", [("text", "ab")], STRAY),
    "glm role token": (G47, g("now") + "<|observation|>", [NOW], STRAY),
    "glm text around": (G47, "a\n" + g("now") + "\nb", [("text", "a\n"), NOW, ("text", "\nb")], []),
    "glm text around, lines": (G45, "\na\n" + g("now") + "\nb", [("text", "a"), NOW, ("text", "b")], []),
    "glm interleaved": (
        G47,
        f"<think>a</think>{g('now')}<think>b</think>{g('now')}c",
        [("reasoning", "a"), NOW, ("reasoning", "b"), NOW, ("text", "c")],
        [],
    ),
    "glm call ends reasoning": (G47, "<think>a\n" + g("run", ("cmd", "ls")) + "b", [("reasoning", "a\n"), LS, ("text", "b")], []),
    "glm call inside a line of reasoning": (G47, f"<think>a {g('now')}</think>b", [("reasoning", f"a {g('now')}"), ("text", "b")], []),
    "glm unknown call in reasoning": (G47, f"<think>a\n{g('x')}</think>b", [("reasoning", f"a\n{g('x')}"), ("text", "b")], []),
    "hy suffix": (
        HY,
        "<tool_calls:opensource>\n<tool_call:opensource>run<tool_sep:opensource>\n<arg_key:opensource>n</arg_key:opensource>\n"
        "<arg_value:opensource>7</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
        [("run", '{"n": 7}', "complete")],
        [],
    ),
    "hy without separator": (HY, f"<tool_calls>{g('now')}</tool_calls>x", [NOW, ("text", "x")], []),
    "hy bare known call": (HY, g("now"), [NOW], []),
    "hy bare unknown call": (HY, g("x"), [("text", g("x"))], MALFORMED),
    "hy block end missing": (HY, "<tool_calls>\n<tool_call>now<tool_sep>\n</tool_call>\nb", [NOW, ("text", "b")], []),
    # invoke tags
    "minimax quotes": (
        M2,
        m("<invoke name='now'></invoke>", "<invoke name=run><parameter name='cmd'>ls</parameter></invoke>"),
        [NOW, LS],
        [],
    ),
    "minimax two wrappers": (M2, m(i("now")) + "\n" + m(i("now")), [NOW, NOW], []),
    "minimax unknown second": (M2, m(i("now"), i("x")), [NOW, ("x", "{}", "complete")], []),
    "minimax block end missing, then text": (M2, "<minimax:tool_call>\n" + i("now") + "b", [NOW, ("text", "b")], []),
    "minimax bare known": (M2, "a\n" + i("run", ("cmd", "ls")) + "b", [("text", "a"), LS, ("text", "b")], []),
    "minimax bare unknown": (M2, i("x"), [("text", i("x"))], []),
    "minimax own closers in a value": (
        M2,
        m(i("save", ("body", 'a</parameter>b</invoke>c</minimax:tool_call>d<parameter name="zz">e'))),
        [("save", '{"body": "a</parameter>b</invoke>c</minimax:tool_call>d<parameter name=\\"zz\\">e"}', "complete")],
        [],
    ),
    "minimax value closer missing": (
        M2,
        m('<invoke name="save"><parameter name="path">a<parameter name="body">b</parameter></invoke>'),
        [("save", '{"path": "a", "body": "b"}', "recovered")],
        REPAIRED,
    ),
    "minimax invoke closer missing": (
        M2,
        m('<invoke name="run"><parameter name="n">7</parameter>'),
        [("run", '{"n": 7}', "recovered")],
        REPAIRED,
    ),
    "minimax no name": (M2, m("<invoke>\n</invoke>\n"), [("text", m("<invoke>\n</invoke>\n"))], MALFORMED),
    "minimax garbage": (M2, m("junk\n"), [("text", m("junk\n"))], MALFORMED),
    "minimax garbage then good": (M2, "<minimax:tool_call>junk\n" + m(i("now")), [("text", "<minimax:tool_call>junk"), NOW], []),
    "minimax mention": (
        M2,
        "A <minimax:tool_call> block, <invoke name= too",
        [("text", "A <minimax:tool_call> block, <invoke name= too")],
        [],
    ),
    "minimax unreadable parameter": (
        M2,
        m('<invoke name="run"><parameter name="">x</parameter><parameter name="n">7</parameter></invoke>'),
        [("run", '{"n": 7}', "complete")],
        ["dropped_parameter"],
    ),
    "minimax orphan closer": (M2, "a</minimax:tool_call>b", [("text", "ab")], STRAY),
    "minimax doubled opener": (M2, "<minimax:tool_call>\n" + m(i("now")), [NOW], STRAY),
    # DSML
    "dsml typed by the model": (
        V4,
        d(
            '<invoke name="x">',
            '<parameter name="a" string="true">7</parameter>',
            '<parameter name="b" string="false">7</parameter>',
            "</invoke>",
        ),
        [("x", '{"a": "7", "b": 7}', "complete")],
        [],
    ),
    "dsml declared string as JSON": (
        V4,
        d('<invoke name="run">', '<parameter name="cmd" string="false">7</parameter>', "</invoke>"),
        [("run", '{"cmd": 7}', "complete")],
        [],
    ),
    "dsml attribute missing": (
        V4,
        d('<invoke name="run">', '<parameter name="cmd">7</parameter>', '<parameter name="z">[1]</parameter>', "</invoke>"),
        [("run", '{"cmd": "7", "z": [1]}', "complete")],
        [],
    ),
    "dsml not JSON": (
        V4,
        d(
            '<invoke name="run">',
            '<parameter name="n" string="false">+7</parameter>',
            '<parameter name="z" string="false">a b</parameter>',
            "</invoke>",
        ),
        [("run", '{"n": 7, "z": "a b"}', "complete")],
        [],
    ),
    "dsml JSON body": (
        V32,
        d('<invoke name="run">', '{"cmd": "ls"}', "</invoke>", block="function_calls"),
        [LS],
        [],
    ),
    "dsml JSON body without closers": (
        V4,
        d('<invoke name="run">', '{"cmd": "ls"}')[: -len("\n</｜DSML｜tool_calls>")],
        [("run", '{"cmd": "ls"}', "recovered")],
        REPAIRED,
    ),
    "dsml unreadable JSON body": (
        V4,
        d('<invoke name="run">', '{"cmd": ls}', "</invoke>") + "x",
        [("run", '{"cmd": ', "truncated"), ("text", "x")],
        ["malformed_tool_call", "stray_marker"],
    ),
    "dsml misspelled": (V4, d('<invoke name="now">', "</invoke>", block="toolcalls"), [NOW], []),
    "dsml other bars": (V4, d('<invoke name="now">', "</invoke>", token="|DSML|"), [NOW], []),
    "dsml spaced": (V41, d('<invoke name="now">', "</invoke>", block="calls", token="｜DSML｜ "), [NOW], []),
    "dsml text around": (V4, "a\n\n\n" + d('<invoke name="now">', "</invoke>") + "\n\nb", [("text", "a\n"), NOW, ("text", "b")], []),
    "dsml call anywhere in reasoning": (
        V4,
        "<think>a " + d('<invoke name="now">', "</invoke>") + "<think>b</think>c",
        [("reasoning", "a "), NOW, ("reasoning", "b"), ("text", "c")],
        [],
    ),
    "dsml unknown call in reasoning": (
        V4,
        "<think>a " + d('<invoke name="x">', "</invoke>") + "</think>b",
        [("reasoning", "a " + d('<invoke name="x">', "</invoke>")), ("text", "b")],
        [],
    ),
    "dsml bare unknown": (
        V4,
        '<｜DSML｜invoke name="x">\n</｜DSML｜invoke>',
        [("text", '<｜DSML｜invoke name="x">\n</｜DSML｜invoke>')],
        [],
    ),
    "dsml own closer in a value": (
        V4,
        d('<invoke name="run">', '<parameter name="cmd" string="true">a</parameter>b</parameter>', "</invoke>"),
        [("run", '{"cmd": "a</｜DSML｜parameter>b"}', "complete")],
        [],
    ),
    # variants of qwen3_coder
    "seed verbatim": (
        SEED,
        "<seed:tool_call>\n<function=save>\n<parameter=body>\na </parameter>b\n</parameter>\n</function>\n</seed:tool_call>",
        [("save", '{"body": "\\na </parameter>b\\n"}', "complete")],
        [],
    ),
    "seed reasoning": (SEED, "<seed:think>a</seed:think>\nb", [("reasoning", "a"), ("text", "b")], []),
    "mimo verbatim": (
        MIMO,
        "<tool_call>\n<function=run>\n<parameter=cmd>\r\n a\n</parameter>\n<parameter=n>7</parameter>\n</function>\n</tool_call>",
        [("run", '{"cmd": "\\r\\n a\\n", "n": 7}', "complete")],
        [],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_rule(name: str) -> None:
    parser, text, segments, anomalies = RULES[name]
    assert outcome(parser, text) == (segments, anomalies, False)


G_RUN = "<tool_call>run<arg_key>"
M_RUN = '<minimax:tool_call>\n<invoke name="run">\n'
D_RUN = '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="run">\n'
CUTS: dict[str, tuple[str, str, list[Any]]] = {
    "glm in the name": (G47, "a\n<tool_call>ru", [("text", "a\n")]),
    "glm behind the name": (G47, "a\n<tool_call>run<", [("text", "a\n"), ("run", "", "truncated")]),
    "glm in a key": (G47, G_RUN + "cm", [("run", "", "truncated")]),
    "glm in a value": (G47, G_RUN + "cmd</arg_key><arg_value>rm -r", [("run", '{"cmd": "rm -r', "truncated")]),
    "glm in a held value": (G47, G_RUN + "n</arg_key><arg_value>1", [("run", "", "truncated")]),
    "glm behind a value": (G47, G_RUN + "n</arg_key><arg_value>1</arg_value>", [("run", '{"n": 1', "truncated")]),
    "glm second call": (G47, g("now") + G_RUN + "n</arg_key>", [NOW, ("run", "", "truncated")]),
    "minimax in the name": (M2, 'a\n<minimax:tool_call>\n<invoke name="ru', [("text", "a")]),
    "minimax behind the marker": (M2, "a\n<minimax:tool_call>\n", [("text", "a")]),
    "minimax in a value": (M2, M_RUN + '<parameter name="cmd">rm -r', [("run", '{"cmd": "rm -r', "truncated")]),
    "minimax second call": (M2, "<minimax:tool_call>\n" + i("now") + M_RUN[20:] + "<param", [NOW, ("run", "", "truncated")]),
    "dsml in the attribute": (V4, D_RUN + '<｜DSML｜parameter name="cmd" string="tr', [("run", "", "truncated")]),
    "dsml in a value": (V4, D_RUN + '<｜DSML｜parameter name="cmd" string="true">rm -r</｜DS', [("run", '{"cmd": "rm -r', "truncated")]),
    "dsml in a JSON body": (V4, D_RUN + '{"cmd": "rm', [("run", '{"cmd": "rm', "truncated")]),
    "hy behind the separator": (HY, "<tool_calls>\n<tool_call>run<tool_sep>\n", [("run", "", "truncated")]),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_cut_call_is_never_executable(name: str) -> None:
    parser, text, segments = CUTS[name]
    assert outcome(parser, text, "length") == (segments, [], True)
    assert outcome(parser, text, "stop") == (segments, ["call_unfinished"], True)


def test_a_call_leaves_at_its_own_closer_not_at_the_end_of_the_block() -> None:
    for parser, text in (
        (M2, "<minimax:tool_call>\n" + i("now")),
        (V4, d('<invoke name="now">', "</invoke>")[: -len("</｜DSML｜tool_calls>")]),
    ):
        events, _ = run(resolve(parser, None).grammar, TOOLS, [text], finish="length")
        assert segments_of(events)[0]["status"] == "complete"


APPEND_OPENINGS = [
    (TEXT, "<think>"),
    (Opening("rendered", "]~b]ai\n<think>\n"), "<think>"),
    (Opening("rendered", "]~b]ai\n<think>\nso far"), ""),
]


@pytest.mark.parametrize(("opening", "preface"), APPEND_OPENINGS)
def test_append_think_keeps_reasoning_in_the_text(opening: Opening, preface: str) -> None:
    model = resolve(M2, "minimax_append_think")
    for pieces in cuts("a\n</think>\n\n" + m(i("now")), seeds=2):
        events, _ = run(model.grammar, TOOLS, pieces, opening=opening)
        assert [segment["text"] for segment in segments_of(events)] == [f"{preface}a\n</think>\n", "{}"]


@pytest.mark.parametrize(
    ("parser", "tail", "text", "segments"),
    [
        (G47, "<|user|>hi<|assistant|><think>", "a</think>b", [("reasoning", "a"), ("text", "b")]),
        (G47, "<|user|>hi<|assistant|></think>", "b", [("text", "b")]),
        (V4, "<｜User｜>hi<｜Assistant｜><think>", "a</think>b", [("reasoning", "a"), ("text", "b")]),
        (V4, "<｜User｜>hi<｜Assistant｜></think>", "b", [("text", "b")]),
        (M2, "]~b]user\nhi[e~[\n]~b]ai\n<think>\n", "a\n</think>\n\nb", [("reasoning", "a"), ("text", "b")]),
        (SEED, "<seed:bos>assistant\n", "<seed:think>a</seed:think>\nb", [("reasoning", "a"), ("text", "b")]),
    ],
)
def test_rendered_opening(parser: str, tail: str, text: str, segments: list[Any]) -> None:
    opening = opening_of(tail, resolve(parser, parser).family.frame)
    assert outcome(parser, text, opening=opening) == (segments, [], False)


CALLS = (TextSegment("A"), CallSegment("f", '{"s": "a\\nb", "n": 1.10}'), CallSegment("now", "{}"), TextSegment("B"))
WRITTEN = {
    G47: "A<tool_call>f<arg_key>s</arg_key><arg_value>a\nb</arg_value><arg_key>n</arg_key><arg_value>1.10</arg_value></tool_call>"
    "<tool_call>now</tool_call>B",
    G45: "\nA\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a\nb</arg_value>\n<arg_key>n</arg_key>\n"
    "<arg_value>1.10</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>\nB",
    M2: 'A\n<minimax:tool_call>\n<invoke name="f">\n<parameter name="s">a\nb</parameter>\n<parameter name="n">1.10</parameter>\n</invoke>\n'
    '<invoke name="now">\n</invoke>\n</minimax:tool_call>\nB',
    V4: 'A\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="s" string="true">a\nb</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="n" string="false">1.10</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    '<｜DSML｜invoke name="now">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>\n\nB',
    V41: 'A\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name="f">\n<｜DSML｜ parameter name="s" string="true">a\nb</｜DSML｜ parameter>\n'
    '<｜DSML｜ parameter name="n" string="false">1.10</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n'
    '<｜DSML｜ invoke name="now">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>\n\nB',
    SEED: "A\n<seed:tool_call>\n<function=f>\n<parameter=s>a\nb</parameter>\n<parameter=n>1.10</parameter>\n"
    "</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>\nB",
    HY: "A\n<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>s</arg_key>\n<arg_value>a\nb</arg_value>\n<arg_key>n</arg_key>\n"
    "<arg_value>1.10</arg_value>\n</tool_call>\n<tool_call>now<tool_sep>\n</tool_call>\n</tool_calls>\nB",
}


@pytest.mark.parametrize("parser", WRITTEN)
def test_writers(parser: str) -> None:
    assert resolve(parser, None).writer.write(CALLS) == WRITTEN[parser]
