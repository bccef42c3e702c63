"""Structured output: grammars of whole values, checked with a JSON schema validator in both directions."""

import json
from typing import Any

import jsonschema
import pytest
from lark_matcher import END, Reader

from antiphon_parsers.forcing import force_output
from antiphon_turns.request import OutputFormat

READER = Reader()


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def fits(given: Any, text: str, budget: int = 3000) -> bool:
    output = OutputFormat(schema=None if given is None else json.dumps(given))
    return READER.accepts(force_output(output, budget_tokens=budget).grammar, text)


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
TREE = schema("value", value=INTEGER, children={"type": "array", "items": {"$ref": "#/$defs/Tree"}})
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "object": (schema("a", a=INTEGER, b=STRING), [{"a": 1}, {"a": -5, "b": 'x</b>\n"é'}], [{}, {"a": "1"}, {"a": 1, "c": 2}, [], 1]),
    "array root": ({"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 3}, [[1], [1, 2, 3]], [[], [1, 2, 3, 4], ["x"]]),
    "scalar root": ({"type": ["string", "null"], "maxLength": 3}, ["abc", None, ""], ["abcd", 1]),
    "enum": ({"enum": ["x", 1, None, {"a": [1]}]}, ["x", 1, None, {"a": [1]}], ["y", 2, {}]),
    "const": ({"const": "only"}, ["only"], ["other", None]),
    "any of": ({"anyOf": [INTEGER, schema("k", k={"const": "v"})]}, [3, {"k": "v"}], ["x", {"k": "w"}, {}]),
    "one of with a base": (
        {"type": "object", "properties": {"kind": STRING}, "required": ["kind"], "oneOf": [schema("a", a=INTEGER), schema("b", b=STRING)]},
        [{"kind": "x", "a": 1}, {"kind": "y", "b": "z"}],
        [{"kind": "x"}, {"a": 1}],
    ),
    "all of": (
        {
            "allOf": [
                schema("a", a={"type": "integer", "minimum": 3}),
                {"properties": {"a": {"maximum": 5}, "b": STRING}, "required": ["b"]},
            ]
        },
        [{"a": 4, "b": ""}],
        [{"a": 6, "b": ""}, {"a": 2, "b": ""}, {"a": 4}],
    ),
    "references": (schema("t", t={"$ref": "#/$defs/Tree"}) | {"$defs": {"Tree": TREE}}, [{"t": {"value": 1}}], [{"t": {}}, {"t": 1}]),
    "recursion": (
        {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}},
        [{"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}, {"value": 4}]}],
        [{"value": 1, "children": [{"children": []}]}],
    ),
    "definitions": ({"$ref": "#/definitions/K", "definitions": {"K": {"enum": ["red", "blue"]}}}, ["red"], ["green"]),
    "pattern": ({"type": "string", "pattern": "^[A-Z]{2,3}-\\d+$"}, ["AB-1", "ABC-42"], ["A-1", "AB-", "xAB-1"]),
    "pattern found inside": ({"type": "string", "pattern": '"\\\\|/'}, ['a"\\b', "/"], ["ab", "\\"]),
    "formats": (schema("d", d={"type": "string", "format": "date"}), [{"d": "2026-11-28"}], [{"d": "28.11.2026"}]),
    "bounds": ({"type": "number", "minimum": 0, "exclusiveMaximum": 1}, [0, 0.5, 0.999], [-1, 1, 1.5]),
    "open": ({"type": "object", "additionalProperties": INTEGER}, [{}, {"x": 1, "y_2": 2}], [{"x": "1"}]),
    "tuple": ({"type": "array", "prefixItems": [INTEGER, STRING], "items": False, "minItems": 2}, [[1, "a"]], [[1], ["a", 1]]),
    "nullable": (schema("a", a={"type": "integer", "nullable": True}), [{"a": None}, {"a": 2}], [{"a": "x"}]),
}


@pytest.mark.parametrize("name", CASES)
def test_schemas_are_enforced(name: str) -> None:
    given, good, bad = CASES[name]
    for value in good:
        if name != "nullable":
            jsonschema.validate(value, given)
        assert fits(given, json.dumps(value, ensure_ascii=False)), value
    for value in bad:
        assert not fits(given, json.dumps(value, ensure_ascii=False)), value


@pytest.mark.parametrize(
    "given",
    [
        {"$ref": "#/$defs/none"},
        {"$ref": "https://elsewhere.example/schema.json"},
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
    ],
)
def test_references_that_lead_nowhere_leave_the_value_free(given: dict[str, Any]) -> None:
    forced = force_output(OutputFormat(schema=json.dumps(schema("x", x=given) | {"$defs": given.get("$defs", {})})), budget_tokens=2000)
    assert READER.accepts(forced.grammar, '{"x": {"any": [1, "thing"]}}') and not READER.accepts(forced.grammar, '{"y": 1}')
    assert forced.notes and forced.notes[0].startswith("the reference ")


def test_no_schema_is_any_object() -> None:
    for value in ({}, {"a": 1}, {"a": {"b": [1, "x", None, True, 0.5]}, "c d"[:1]: "y"}):
        assert fits(None, json.dumps(value))
    for text in ("[]", "1", '"x"', '{"a": }', '{"a": 1} {"b": 2}', "{} "):
        assert not fits(None, text)


def test_text_that_is_no_schema_is_said() -> None:
    for text in ("not json", "[" * 100_000):
        forced = force_output(OutputFormat(schema=text), budget_tokens=500)
        assert forced.prefix == "" and forced.notes == ("the output schema is no JSON schema",)
        assert READER.accepts(forced.grammar, "1")
    assert READER.accepts(force_output(OutputFormat(schema="true"), budget_tokens=500).grammar, '[1, "a"]')


def test_the_end_of_the_turn_follows_the_value() -> None:
    forced = force_output(OutputFormat(schema='{"type": "integer"}'), budget_tokens=50, end_token=END, tokens=READER.tokens)
    assert READER.accepts(forced.grammar, f"12{END}") and not READER.accepts(forced.grammar, "12")


def test_values_keep_within_the_budget() -> None:
    given = schema("a", "b", a=STRING, b={"type": "array", "items": STRING})
    for budget in (60, 200, 1000):
        text = force_output(OutputFormat(schema=json.dumps(given)), budget_tokens=budget).grammar
        assert READER.begins(text, '{"a": "x') and not READER.begins(text, '{"a": "' + "x" * budget)
