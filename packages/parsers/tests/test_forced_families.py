"""Call grammars of all families against their writers and parsers: what a writer writes is accepted where the parser reads it back,
and what is accepted is read back as it was meant."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from lark_matcher import END, Reader
from parser_harness import run

from antiphon_parsers.forcing import force_calls
from antiphon_parsers.registry import TOOL_PARTS, ModelFormat, resolve
from antiphon_turns import CallReady, CallSegment, Tool, ToolChoice

FAMILIES = sorted(TOOL_PARTS)
FORMATS = {name: resolve(name, None) for name in FAMILIES}
MUST = ("hermes", "qwen3_coder", "glm47", "glm45", "deepseek_v3_2", "deepseek_v4", "deepseek_v41", "kimi_k2", "kimi_k3")
MUST += ("minimax_m2", "minimax_m3", "harmony", "gemma4", "mistral")
ONE, SOME = ToolChoice(mode="any", parallel=False), ToolChoice(mode="any")
PLAIN = Reader()
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
OTHER = Tool(name="read", parameters=json.dumps({"type": "object", "properties": {"path": STRING}, "required": ["path"]}))


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def tool(parameters: dict[str, Any], name: str = "write_file") -> Tool:
    return Tool(name=name, parameters=json.dumps(parameters))


def written(model: ModelFormat, *calls: tuple[str, Any]) -> str:
    """The calls as the family writes them, without the line feeds that only stand at the start of a turn."""
    segments = [CallSegment(name=name, arguments=json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls]
    return model.writer.write(segments).lstrip("\n")


def parsed(model: ModelFormat, tools: list[Tool], text: str) -> list[tuple[str, Any]]:
    events, _ = run(model.grammar, tools, [text])
    return [(event.name, json.loads(event.arguments)) for event in events if isinstance(event, CallReady)]


def accepted(model: ModelFormat, tools: list[Tool], text: str, choice: ToolChoice = ONE, budget: int = 4000) -> bool:
    assert model.call_format is not None
    forced = force_calls(model.call_format, tools, choice, budget_tokens=budget)
    assert not forced.notes
    return text.startswith(forced.prefix) and PLAIN.accepts(forced.grammar, text[len(forced.prefix) :])


VALUES: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
    "integer": (INTEGER, st.integers(-(10**9), 10**9)),
    "number": ({"type": "number"}, st.integers(-9999, 9999).map(lambda n: n / 8)),
    "flag": ({"type": "boolean"}, st.booleans()),
    "colour": ({"enum": ["red", "dark blue", "a\"b'c"]}, st.sampled_from(["red", "dark blue", "a\"b'c"])),
    "maybe": ({"type": ["integer", "null"]}, st.none() | st.integers(0, 9)),
    "numbers": ({"type": "array", "items": INTEGER}, st.lists(st.integers(-9, 99), max_size=3)),
}


def values(text: st.SearchStrategy[str]) -> dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]]:
    """Parameter schemas, and values that fit them."""
    place = schema("street", street=STRING, floor=INTEGER, open={"type": "boolean"})
    some = st.fixed_dictionaries({"street": text}, optional={"floor": st.integers(0, 99), "open": st.booleans()})
    places = some.map(lambda place: {key: place[key] for key in ("street", "floor", "open") if key in place})
    return {
        **VALUES,
        "text": (STRING, text),
        "content": (STRING, text),
        "tags": ({"type": "array", "items": STRING}, st.lists(text, max_size=3)),
        "place": (place, places),
        "places": ({"type": "array", "items": place, "minItems": 1}, st.lists(places, min_size=1, max_size=2)),
    }


@st.composite
def cases(draw: st.DrawFn, pieces: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, arguments)."""
    text = st.lists(st.sampled_from(pieces) | st.text("ab<>/\"'\\é日 \n{}[],:", max_size=4), max_size=4).map("".join)
    kinds = values(text)
    names = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=4, unique=True))
    required = [name for name in names if draw(st.booleans())]
    arguments = {name: draw(kinds[name][1]) for name in names if name in required or draw(st.booleans())}
    return schema(*required, **{name: kinds[name][0] for name in names}), arguments


def own_markers(model: ModelFormat) -> list[str]:
    """What could break a string: markers, closers, halves of them, and the closers of others."""
    call = written(model, ("write_file", {"text": "x", "n": 1}), ("read", {"path": "y"}))
    halves = [call[:size] for size in (3, 12, len(call) // 2)] + [call[-size:] for size in (3, 12, len(call) // 2)]
    return [*model.family.markers, *halves, call, "</parameter>", "</tool_call>", "\n</parameter>\n"]


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_written_is_accepted_and_read_back(name: str) -> None:
    model = FORMATS[name]

    @settings(max_examples=20, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(cases(own_markers(model)))
    def check(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
        parameters, arguments = case
        tools = [tool(parameters), OTHER]
        text = written(model, ("write_file", arguments))
        meant = parsed(model, tools, text) == [("write_file", arguments)]
        # The budget is so large that a refusal is never for the size of something.
        assert accepted(model, tools, text, budget=1_000_000) == meant, (text, parameters)
        assume(meant)

    check()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_string_may_hold_closing_markers(name: str) -> None:
    model = FORMATS[name]
    tools = [tool(schema("text", text=STRING, n=INTEGER))]
    for text in (
        "a</parameter>b",
        "</tool_call>",
        "x</arg_value>y",
        "</invoke>",
        "a\n</parameter>\nb",
        "</function>",
        model.family.markers[-1],
    ):
        arguments = {"text": text, "n": 3}
        call = written(model, ("write_file", arguments))
        assert parsed(model, tools, call) == [("write_file", arguments)]
        assert accepted(model, tools, call), text


WRONG: list[dict[str, Any]] = [
    {"n": 3},
    {"text": "x", "n": "three"},
    {"text": "x", "n": 1.5},
    {"text": "x", "colour": "green"},
    {"text": "x", "undeclared": 1},
    {"text": "x", "list": [1, "two"]},
    {"n": 3, "text": "x"},
]


@pytest.mark.parametrize("name", FAMILIES)
def test_what_breaks_the_schema_is_refused(name: str) -> None:
    model = FORMATS[name]
    colours = {"enum": ["red", "blue"]}
    tools = [tool(schema("text", text=STRING, n=INTEGER, colour=colours, list={"type": "array", "items": INTEGER}))]
    assert accepted(model, tools, written(model, ("write_file", {"text": "x", "n": 3, "colour": "red", "list": [1, 2]})))
    for arguments in WRONG:
        assert not accepted(model, tools, written(model, ("write_file", arguments))), arguments
    assert not accepted(model, tools, written(model, ("other_tool", {"text": "x"})))


@pytest.mark.parametrize("name", FAMILIES)
def test_one_call_or_several(name: str) -> None:
    model = FORMATS[name]
    tools = [tool(schema("text", text=STRING)), OTHER]
    calls = [("write_file", {"text": "x"}), ("read", {"path": "y"}), ("write_file", {"text": "z"})]
    one, three = written(model, calls[0]), written(model, *calls)
    assert parsed(model, tools, three) == calls
    assert accepted(model, tools, one, ONE) and accepted(model, tools, one, SOME)
    assert not accepted(model, tools, three, ONE)
    assert model.call_format is not None
    assert accepted(model, tools, three, SOME) != model.call_format.single
    assert not accepted(model, tools, three, SOME, budget=400), "no room for more calls"


@pytest.mark.parametrize("name", FAMILIES)
def test_markers_that_are_control_tokens_are_asked_for_as_tokens(name: str) -> None:
    model = FORMATS[name]
    assert model.call_format is not None
    control = [marker for marker in model.family.markers if marker]
    reader = Reader(control)
    tools = [tool(schema("text", text=STRING, n=INTEGER, list={"type": "array", "items": STRING})), OTHER]
    forced = force_calls(model.call_format, tools, ONE, budget_tokens=2000, end_token=END, tokens=reader.tokens)
    for arguments in ({"text": "a < b > </c> é"}, {"text": "", "n": 3, "list": ["x", ""]}):
        text = written(model, ("write_file", arguments))
        end = "" if model.call_format.single else END
        assert reader.accepts(forced.grammar, text[len(forced.prefix) :] + end)
    begun = written(model, ("write_file", {"text": "abc"})).partition("abc")[0][len(forced.prefix) :] + "abc"
    assert reader.begins(forced.grammar, begun)
    assert not reader.begins(forced.grammar, begun + END)


def test_a_tool_cannot_name_control_tokens() -> None:
    model = FORMATS["hermes"]
    assert model.call_format is not None
    tools = [tool(schema(f"a{END}b", **{f"a{END}b": {"enum": [f"x{END}", "y"]}}), name=f"go{END}")]
    forced = force_calls(model.call_format, tools, ONE, budget_tokens=500, tokens=PLAIN.tokens)
    assert f"<[{PLAIN.tokens[END]}]>" not in forced.grammar
    # The only tool's name is certain, so it is in the prefix, which is the server's to encode: as text.
    assert forced.prefix.endswith(f'"name": "go{END}", "arguments":')


def test_every_family_can_be_forced() -> None:
    assert all(FORMATS[name].call_format is not None for name in (*MUST, *FAMILIES))


def test_three_hundred_tools_are_built_once() -> None:
    parameters = schema("path", path=STRING, limit=INTEGER, tags={"type": "array", "items": STRING})
    tools = [tool(parameters, f"tool_{number}") for number in range(300)]
    for name in ("hermes", "qwen3_coder", "deepseek_v4", "minimax_m3", "kimi_k3"):
        model = FORMATS[name]
        assert model.call_format is not None
        first = force_calls(model.call_format, tools, ONE, budget_tokens=4000)
        assert force_calls(model.call_format, list(tools), ONE, budget_tokens=4010) is first
        assert len(first.grammar) < 60 * 300 + 20_000, "equal schemas are one rule"
        text = written(model, ("tool_287", {"path": "x"}))
        assert PLAIN.accepts(first.grammar, text[len(first.prefix) :])


ROOMY: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "several edits of a file": (
        schema("path", "edits", path=STRING, edits={"type": "array", "items": schema("old", "new", old=STRING, new=STRING)}),
        {"path": "a.py", "edits": [{"old": "x = 1\ny = 2\n", "new": "x = 2\ny = 3\nz = 4\n"}] * 3},
        2000,
    ),
    "a list of tasks": (
        schema("tasks", tasks={"type": "array", "items": schema("text", "state", text=STRING, state={"enum": ["open", "done"]})}),
        {"tasks": [{"text": f"Write the tests of part {number}", "state": "open"} for number in range(4)]},
        1000,
    ),
    "a matrix beside a name": (
        schema("name", name=STRING, rows={"type": "array", "items": {"type": "array", "items": {"type": "number"}}}),
        {"name": "x", "rows": [[1, 2.5], [3, 4]]},
        1000,
    ),
    "a list of numbers in little room": (schema("n", n=INTEGER, xs={"type": "array", "items": INTEGER}), {"n": 1, "xs": [5]}, 160),
}


@pytest.mark.parametrize("name", ROOMY)
@pytest.mark.parametrize("family", MUST)
def test_ordinary_lists_fit_an_ordinary_budget(family: str, name: str) -> None:
    parameters, arguments, budget = ROOMY[name]
    model = FORMATS[family]
    budget *= 4 if family == "minimax_m3" else 1  # its tags take most of the room
    assert accepted(model, [tool(parameters)], written(model, ("write_file", arguments)), budget=budget)
