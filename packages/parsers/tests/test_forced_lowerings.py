"""The same call grammars in the other dialects: GBNF, read by a matcher of the tests' own, and structural tags."""

import json
from typing import Any

import pytest
from gbnf_matcher import Gbnf
from parser_harness import run

from antiphon_parsers.forcing import call_grammar, lower_gbnf, output_grammar
from antiphon_parsers.forcing.structural_tag import closed_schema, lower_structural_tag, output_structural_tag
from antiphon_parsers.registry import TOOL_PARTS, ModelFormat, resolve
from antiphon_turns import CallReady, CallSegment, Tool, ToolChoice
from antiphon_turns.request import OutputFormat

FAMILIES = sorted(TOOL_PARTS)
FORMATS = {name: resolve(name, None) for name in FAMILIES}
ONE, SOME = ToolChoice(mode="any", parallel=False), ToolChoice(mode="any")
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PARAMETERS = {
    "type": "object",
    "properties": {
        "text": STRING,
        "mode": {"enum": ["a", "b"]},
        "n": {"type": "integer", "minimum": 2, "maximum": 40},
        "list": {"type": "array", "items": STRING},
        "day": {"type": "string", "format": "date"},
    },
    "required": ["text"],
}
TOOLS = [
    Tool(name="write_file", parameters=json.dumps(PARAMETERS)),
    Tool(name="read", parameters=json.dumps({"type": "object", "properties": {}})),
]
GOOD: list[dict[str, Any]] = [
    {"text": "a</parameter>b"},
    {
        "text": "x </tool_call> <é日> \"quoted\" 'it' \\ \n</arg_value> y",
        "mode": "b",
        "n": 17,
        "list": ["x", "</invoke>"],
        "day": "2026-11-28",
    },
    {"text": "", "list": []},
]
BAD: list[dict[str, Any]] = [
    {},
    {"text": "x", "mode": "c"},
    {"text": "x", "n": 41},
    {"text": "x", "day": "tomorrow"},
    {"text": "x", "more": 1},
]


def written(model: ModelFormat, *calls: tuple[str, Any]) -> str:
    return model.writer.write([CallSegment(name=name, arguments=json.dumps(value, ensure_ascii=False)) for name, value in calls]).lstrip(
        "\n"
    )


def gbnf(model: ModelFormat, choice: ToolChoice, budget: int = 3000) -> tuple[str, Gbnf]:
    assert model.call_format is not None
    grammar = call_grammar(model.call_format, TOOLS, choice, budget_tokens=budget)
    return grammar.prefix, Gbnf(lower_gbnf(grammar))


@pytest.mark.parametrize("name", FAMILIES)
def test_gbnf_takes_what_fits_and_nothing_else(name: str) -> None:
    model = FORMATS[name]
    prefix, matcher = gbnf(model, ONE)
    for arguments in GOOD:
        text = written(model, ("write_file", arguments))
        events, _ = run(model.grammar, TOOLS, [text])
        assert [json.loads(event.arguments) for event in events if isinstance(event, CallReady)] == [arguments]
        assert matcher.accepts(text[len(prefix) :]), text
    assert matcher.accepts(written(model, ("read", {}))[len(prefix) :])
    for arguments in BAD:
        assert not matcher.accepts(written(model, ("write_file", arguments))[len(prefix) :]), arguments
    two = written(model, ("write_file", {"text": "x"}), ("read", {}))
    assert not matcher.accepts(two[len(prefix) :])
    assert model.call_format is not None
    assert gbnf(model, SOME)[1].accepts(two[len(prefix) :]) != model.call_format.single


def test_gbnf_ends_a_raw_value_only_where_the_parser_does() -> None:
    model = FORMATS["qwen3_coder"]
    prefix, matcher = gbnf(model, ONE)
    text = written(model, ("write_file", {"text": "x\n</parameter>\n<parameter=mode>\nz"}))
    assert not matcher.accepts(text[len(prefix) :]), "the parser reads a second parameter there"


def test_gbnf_has_keys_that_are_not_declared() -> None:
    schema = {"type": "object", "properties": {"ab": INTEGER, "abc": INTEGER}, "additionalProperties": INTEGER}
    matcher = Gbnf(lower_gbnf(output_grammar(OutputFormat(schema=json.dumps(schema)), budget_tokens=2000)))
    for text in ('{"ab": 1}', '{"a": 1}', '{"abd": 1, "x": 2}', '{"ab": 1, "abcd": 3}', "{}"):
        assert matcher.accepts(text), text
    for text in ('{"ab": 1, "abc": "x"}', '{"ab": 1, "ab": 2}', '{"x": 1, "abc": 2}', '{"": 1}'):
        assert not matcher.accepts(text), text


def test_long_repetitions_are_left_open() -> None:
    text = lower_gbnf(output_grammar(OutputFormat(schema='{"type": "string"}'), budget_tokens=50_000))
    assert "{0,}" in text
    assert "{0,100}" in lower_gbnf(output_grammar(OutputFormat(schema='{"type": "string", "maxLength": 100}'), budget_tokens=50_000))


def kinds(value: Any) -> set[str]:
    """The kinds of formats in a structural tag."""
    if isinstance(value, list):
        return set().union(*map(kinds, value))
    if not isinstance(value, dict):
        return set()
    own = {value["type"]} if isinstance(value.get("type"), str) else set()
    return own | set().union(*(kinds(inner) for key, inner in value.items() if key != "json_schema"))


def texts(value: Any) -> str:
    """All constant text of a structural tag in order."""
    if isinstance(value, list):
        return "".join(map(texts, value))
    if not isinstance(value, dict):
        return ""
    return value["value"] if value.get("type") == "const_string" else "".join(map(texts, value.values()))


@pytest.mark.parametrize("name", FAMILIES)
def test_structural_tags_hold_the_call(name: str) -> None:
    model = FORMATS[name]
    form = model.call_format
    assert form is not None
    prefix, tag = lower_structural_tag(form, TOOLS, ToolChoice(mode="named", name="write_file", parallel=False), budget_tokens=3000)
    assert json.loads(json.dumps(tag)) == tag
    assert tag["type"] == "structural_tag"
    assert kinds(tag["format"]) <= {"sequence", "const_string", "json_schema", "grammar", "regex", "or"}
    assert "write_file" in prefix and form.block_close in texts(tag)
    many, tags = lower_structural_tag(form, TOOLS, SOME, budget_tokens=3000)
    assert prefix.startswith(many.rstrip()) and ("repeat" in kinds(tags["format"])) != form.single
    with pytest.raises(ValueError, match="no tool"):
        lower_structural_tag(form, [], ONE, budget_tokens=3000)


def test_schemas_are_closed_and_bad_references_dropped() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "bad": {"$ref": "#/$defs/none"}}}
    closed = closed_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node, "Open": {"type": "object", "additionalProperties": True}}})
    assert closed["$defs"]["Node"]["additionalProperties"] is False
    assert closed["$defs"]["Node"]["properties"] == {"next": {"$ref": "#/$defs/Node"}, "bad": {}}
    assert closed["$defs"]["Open"]["additionalProperties"] is True
    assert closed_schema({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}})["$defs"]["A"] == {}


def test_structured_output_is_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": INTEGER}}
    assert output_structural_tag(OutputFormat(schema="x"), schema)["format"]["json_schema"] == {**schema, "additionalProperties": False}
    assert output_structural_tag(OutputFormat(), None)["format"]["json_schema"] == {"type": "object"}
