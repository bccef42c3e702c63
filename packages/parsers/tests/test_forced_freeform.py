"""Freeform tools: the client's grammar enforced inside the argument, in every family's notation, and from the middle of a turn."""

import json
from typing import Any

import pytest
from lark_matcher import Reader
from parser_harness import run

from antiphon_parsers.forcing import Forced, force_argument, force_calls
from antiphon_parsers.forcing.freeform import freeform_tree
from antiphon_parsers.forcing.pattern_reader import Unreadable
from antiphon_parsers.registry import TOOL_PARTS, ModelFormat, resolve
from antiphon_turns import CallReady, CallSegment, Tool, ToolChoice
from antiphon_turns.request import FreeformGrammar

FAMILIES = sorted(TOOL_PARTS)
FORMATS = {name: resolve(name, None) for name in FAMILIES}
ONE = ToolChoice(mode="any", parallel=False)
READER = Reader()
INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": False}
NOTES = r"""
// A list of notes.
start: "Notes:" LF note+ end?
note: "- " text LF -> entry
    | "! " text LF

text: /(.+)/
end: "done" LF?
%import common.LF
"""
GOOD = ("Notes:\n- a\n", 'Notes:\n- "é" \\ </b>\n! x\ndone', "Notes:\n- ends with </parameter>\n")
BAD = ("", "Notes:\n", "Notes:\n* a\n", "Notes:\n- a", "notes:\n- a\n", "Notes:\n- a\n\n", "Notes:\n- a\ndone\n\n")


def tool(definition: str, syntax: Any = "lark") -> Tool:
    return Tool(name="write_notes", parameters=json.dumps(INPUT), freeform=FreeformGrammar(syntax, definition))


def written(model: ModelFormat, text: str) -> str:
    return model.writer.write([CallSegment(name="write_notes", arguments=json.dumps({"input": text}, ensure_ascii=False))]).lstrip("\n")


def forced(model: ModelFormat, given: Tool) -> Forced:
    assert model.call_format is not None
    return force_calls(model.call_format, [given], ONE, budget_tokens=2000)


def fits(rest: Forced, text: str) -> bool:
    return text.startswith(rest.prefix) and READER.accepts(rest.grammar, text[len(rest.prefix) :])


@pytest.mark.parametrize("name", FAMILIES)
def test_the_grammar_holds_inside_the_argument(name: str) -> None:
    model, given = FORMATS[name], tool(NOTES)
    grammar = forced(model, given)
    assert grammar.notes == ()
    for text in GOOD:
        call = written(model, text)
        events, _ = run(model.grammar, [given], [call])
        assert [json.loads(event.arguments) for event in events if isinstance(event, CallReady)] == [{"input": text}]
        assert fits(grammar, call), text
    for text in BAD:
        assert not fits(grammar, written(model, text)), text


@pytest.mark.parametrize("name", FAMILIES)
def test_a_call_that_has_begun_is_held_to_the_grammar(name: str) -> None:
    model, given = FORMATS[name], tool(NOTES)
    form = model.call_format
    assert form is not None
    call = written(model, GOOD[0]).removeprefix(form.lead)
    whole = call.removesuffix(form.block_close)
    header = call.index("write_notes")
    for size in range(1, header + len("write_notes") + 2):
        rest = force_argument(form, given, written=call[:size], budget_tokens=2000)
        assert rest is not None, call[:size]
        assert fits(rest, whole[size:])
        assert not READER.begins(rest.grammar, written(model, "Notes:\n* x\n").removeprefix(form.lead)[size + len(rest.prefix) :])
    later = force_argument(form, given, written=whole[len(form.block_open) : header + 3], budget_tokens=2000)
    assert later is not None and fits(later, whole[header + 3 :]), "a further call in its block"
    assert force_argument(form, given, written="no call", budget_tokens=2000) is None
    assert force_argument(form, given, written=call[: header + 3] + "x", budget_tokens=2000) is None


def test_the_value_may_have_begun_with_a_bracket() -> None:
    form = FORMATS["hermes"].call_format
    assert form is not None
    rest = force_argument(form, tool(NOTES), written='<tool_call>\n{"name": "write_notes", "arguments": {"inp', budget_tokens=900)
    assert rest is not None and rest.prefix == 'ut":'
    assert READER.accepts(rest.grammar, ' "Notes:\\n- x\\n"}}\n</tool_call>')


@pytest.mark.parametrize(
    ("definition", "good", "bad"),
    [
        ('start: "a"i..."b"', [], []),
        ('start: item ("," item)*\nitem: /[a-z]+/ | NUMBER\n%import common (NUMBER, WS)', ["a", "a,1.5,zz"], ["", "A", "a,"]),
        ('start: sum\nsum: sum "+" part | part\npart: "x" | "(" sum ")"', ["x", "x+x+x+x+x+x+x", "(x+x)+x"], ["x+", "(x", "+x"]),
        ('start: row\nrow: "a" row | "b"', ["b", "aaaaaaaab"], ["a", "ba"]),
        ('start: "a".."c" ~ 2..3 WORD?\nWORD: "x"i ("y" | "z") ~ 2', ["ab", "abcXyz", "aaxzz"], ["a", "abcd", "abxy"]),
        ('start: ["no"] "t\\t\\"\\\\"', ['t\t"\\', 'not\t"\\'], ["no"]),
        ('?start: a | b\n!a.2: "a"\nb: B\nB.1: /b{2,3}/i', ["a", "bb", "BBb"], ["b", "bbbb", "ab"]),
        ('start: "a" // one\n  | "b"\n\n  | "c" -> third\n', ["a", "b", "c"], ["", "ab"]),
    ],
)
def test_lark_grammars_are_read(definition: str, good: list[str], bad: list[str]) -> None:
    model, given = FORMATS["hermes"], tool(definition)
    grammar = forced(model, given)
    if not good:
        assert "not enforced" in grammar.notes[0]
        return
    assert grammar.notes == ()
    assert [text for text in good if not fits(grammar, written(model, text))] == []
    assert [text for text in bad if fits(grammar, written(model, text))] == []


@pytest.mark.parametrize(
    ("definition", "syntax", "reason"),
    [
        ('start: "a"\n%ignore " "', "lark", "%ignore"),
        ("start: missing", "lark", "missing"),
        ('start: two{"a"}\ntwo{x}: x x', "lark", "template"),
        ("start: /(?=a)b/", "lark", "look-around"),
        ("%import python.NAME\nstart: NAME", "lark", "import"),
        ("start: start", "lark", "no text"),
        ('start: ("a"', "lark", "bracket"),
        ("a(?!b)", "regex", "look-around"),
        (r"(a)\1", "regex", "escape"),
        ("a)", "regex", "bracket"),
    ],
)
def test_what_is_not_understood_is_free_and_said(definition: str, syntax: Any, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        freeform_tree(FreeformGrammar(syntax, definition))
    model, given = FORMATS["qwen3_coder"], tool(definition, syntax)
    grammar = forced(model, given)
    assert grammar.notes[0].startswith("tool write_notes: its ") and reason in grammar.notes[0]
    assert fits(grammar, written(model, "anything\nat all"))


def test_regular_expressions_are_whole_matches() -> None:
    model, given = FORMATS["deepseek_v4"], tool(r"^(GET|PUT) /[\w/.-]*$", "regex")
    grammar = forced(model, given)
    assert fits(grammar, written(model, "GET /a/b-c.txt"))
    assert not fits(grammar, written(model, "GET /a b")) and not fits(grammar, written(model, "POST /"))


def test_a_deep_grammar_is_unrolled_within_bounds() -> None:
    rules = 'start: value\nvalue: "n" | "[" value "]" | "(" value "," value ")"'
    model = FORMATS["hermes"]
    grammar = forced(model, tool(rules))
    assert grammar.notes == () and len(grammar.grammar) < 100_000
    assert fits(grammar, written(model, "[n]")) and fits(grammar, written(model, "(n,[n])"))
    assert not fits(grammar, written(model, "[n"))
