"""Typing of raw values by the declared schema."""

from typing import Any

import pytest

from antiphon_parsers.coercion import coerce, declared_types

TYPES = [
    ({"type": "string"}, {"string"}),
    ({"type": ["string", "null"]}, {"string", "null"}),
    ({"type": "string", "nullable": True}, {"string", "null"}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"integer", "null"}),
    ({"oneOf": [{"type": "boolean"}, {"$ref": "#/$defs/list"}]}, {"boolean", "array"}),
    ({"allOf": [{"$ref": "#/$defs/loop"}]}, set()),
    ({"$ref": "#/$defs/a~1b"}, {"number"}),
    ({"$ref": "http://elsewhere/x"}, set()),
    ({"enum": ["a", 1, None, True, 1.5]}, {"string", "integer", "null", "boolean", "number"}),
    ({"const": 3}, {"integer"}),
    ({"type": "string", "enum": ["1"]}, {"string"}),
    ({"properties": {}}, {"object"}),
    ({"items": {}}, {"array"}),
    ({"type": 5}, set()),
    ({}, set()),
    (True, set()),
    (None, set()),
]
ROOT: dict[str, Any] = {"$defs": {"list": {"items": {}}, "loop": {"$ref": "#/$defs/loop"}, "a/b": {"type": "number"}}}


@pytest.mark.parametrize(("schema", "types"), TYPES)
def test_declared_types(schema: object, types: set[str]) -> None:
    assert declared_types(schema, ROOT) == types


VALUES = [
    ("null", "null", "null"),
    ("null", "string null", "null"),
    ("null", "string", '"null"'),
    ("None", "string null", '"None"'),
    ("42", "integer", "42"),
    (" 42 ", "integer", "42"),
    ("12345678901234567890", "integer", "12345678901234567890"),
    ("007", "integer", "7"),
    ("+7", "integer", "7"),
    ("-0", "integer", "-0"),
    ("5.0", "integer", "5.0"),
    ("5.5", "integer", '"5.5"'),
    ("1_000", "integer", '"1_000"'),
    ("٣", "integer", '"٣"'),
    ("", "integer", '""'),
    ("-", "integer number", '"-"'),
    ("42", "string integer", "42"),
    ("4x", "string integer", '"4x"'),
    ("1.10", "number", "1.10"),
    ("1e5", "number", "1e5"),
    ("5.", "number", "5.0"),
    (".5", "number", "0.5"),
    ("-.5e3", "number", "-0.5e3"),
    (".", "number", '"."'),
    ("e5", "number", '"e5"'),
    ("NaN", "number", '"NaN"'),
    ("inf", "number", '"inf"'),
    ("TRUE", "boolean", "true"),
    ("False", "boolean", "false"),
    ("yes", "boolean", '"yes"'),
    ("true", "string", '"true"'),
    ('{"a":  1.10}', "object", '{"a":  1.10}'),
    ("[1, 2]", "array", "[1, 2]"),
    ("[1,", "array", '"[1,"'),
    ("a, b", "array", '"a, b"'),
    ('"x"', "object", '"\\"x\\""'),
    ("[" * 300 + "]" * 300, "array", '"' + "[" * 300 + "]" * 300 + '"'),
]


@pytest.mark.parametrize(("text", "types", "json_text"), VALUES)
def test_coerce(text: str, types: str, json_text: str) -> None:
    assert coerce(text, frozenset(types.split())) == json_text  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0" * 300_000 + "x", "1" * 300_000, "." * 300_000, "[" * 300_000])
def test_long_nonsense_is_text(text: str) -> None:
    assert coerce(text, frozenset(("integer", "number", "array"))) == f'"{text}"'
