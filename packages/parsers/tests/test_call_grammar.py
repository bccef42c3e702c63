"""Forced calls without an engine: prefixes, the text of grammars, and a small matcher that reads their terminals as regular expressions."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_parsers.families import hermes, qwen3_coder
from antiphon_parsers.forcing import CallFormat, Forced, force_calls
from antiphon_parsers.forcing.cost import least, most, shares
from antiphon_parsers.forcing.nodes import Exact, Rules, Run
from antiphon_parsers.forcing.numbers import integer_regex, number_regex
from antiphon_parsers.forcing.pattern_reader import Unreadable, found_in, read
from antiphon_parsers.forcing.patterns import regex_text
from antiphon_parsers.forcing.schema_reader import arguments_shape
from antiphon_parsers.forcing.shapes import Anything, Choice, Listing, Literals, Mapping, Number, Text
from antiphon_parsers.forcing.values import ValueLowering
from antiphon_turns import Tool, ToolChoice

ANY = ToolChoice(mode="any", parallel=False)
HERMES, QWEN = hermes.CALL_FORMAT, qwen3_coder.CALL_FORMAT


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def tool(name: str, parameters: dict[str, Any]) -> Tool:
    return Tool(name=name, parameters=json.dumps(parameters))


WEATHER = tool("get_weather", schema("city", city={"type": "string"}, unit={"enum": ["c", "f"]}))
NOW = tool("now", schema())


def bounds(grammar: str) -> list[int]:
    """The upper bounds of the repetitions of strings in a grammar."""
    return [int(high) for high in re.findall(r"\)\{\d+,(\d+)\}/ & /\(\(", grammar)]


def named(name: str) -> ToolChoice:
    return ToolChoice(mode="named", name=name, parallel=False)


@pytest.mark.parametrize(
    ("call_format", "tools", "choice", "prefix", "start"),
    [
        (HERMES, [NOW], ANY, '<tool_call>\n{"name": "now", "arguments":', 'start: " {" "}}'),
        (HERMES, [NOW, WEATHER], named("get_weather"), '<tool_call>\n{"name": "get_weather", "arguments":', 'start: " {'),
        (HERMES, [NOW, WEATHER], ANY, '<tool_call>\n{"name":', "start: r"),
        (QWEN, [NOW], ANY, "<tool_call>\n<function=now>\n", 'start: "<" "/function>\\n<" "/tool_call>"'),
        (QWEN, [NOW, WEATHER], ANY, "<tool_call>\n<function=", "start: r"),
    ],
)
def test_the_prefix_is_what_is_certain(call_format: CallFormat, tools: list[Tool], choice: ToolChoice, prefix: str, start: str) -> None:
    forced = force_calls(call_format, tools, choice, budget_tokens=200)
    assert forced.prefix == prefix
    assert forced.grammar.startswith("%llguidance {}\n" + start)


def test_an_end_token_closes_the_turn() -> None:
    grammar = force_calls(HERMES, [NOW], ANY, budget_tokens=99, end_token="<|im_end|>").grammar
    assert grammar.splitlines()[1].endswith('}\\n<" "/tool_call>" <|im_end|>')


def test_no_tool_is_the_callers_error() -> None:
    with pytest.raises(ValueError, match="no tool"):
        force_calls(HERMES, [NOW], named("other"), budget_tokens=99)


def test_names_with_json_and_lark_characters_are_quoted() -> None:
    forced = force_calls(HERMES, [tool('a"b\\c', schema()), NOW], ANY, budget_tokens=99)
    quoted = json.dumps(' "a\\"b\\\\c", ')
    assert quoted in forced.grammar


@pytest.mark.parametrize("call_format", [HERMES, QWEN])
def test_a_large_budget_leaves_room_for_a_large_file(call_format: CallFormat) -> None:
    write = tool("write_file", schema("path", "content", path={"type": "string"}, content={"type": "string"}))
    sizes = bounds(force_calls(call_format, [write], ANY, budget_tokens=32_000).grammar)
    assert max(sizes) >= 20_000
    assert min(sizes) >= 1_000


@pytest.mark.parametrize("budget", [120, 300, 1000, 8000])
def test_strings_keep_within_the_budget(budget: int) -> None:
    names = [f"s{k}" for k in range(5)]
    grammar = force_calls(
        HERMES, [tool("t", schema(*names, **{name: {"type": "string"} for name in names}))], ANY, budget_tokens=budget
    ).grammar
    ordinary, big = min(bounds(grammar)), max(bounds(grammar))
    assert ordinary >= 1
    assert (ordinary * 4 + big) * 11 // 8 <= budget


def test_optional_arguments_may_be_skipped_and_required_ones_not() -> None:
    grammar = force_calls(HERMES, [WEATHER], ANY, budget_tokens=99).grammar
    (after_city,) = [line for line in grammar.splitlines() if '", " "\\"unit\\": "' in line and "| " in line]
    assert after_city.endswith('| "}}\\n<" "/tool_call>"')
    assert '"{}' not in grammar


SHAPES: list[tuple[Any, Any]] = [
    ({"type": "string", "maxLength": 3}, Text(0, 3)),
    ({"type": ["integer", "null"], "minimum": 1}, Choice((Number("integer", 1), Literals(("null",))))),
    ({"type": "integer", "nullable": True}, Choice((Number("integer"), Literals(("null",))))),
    ({"exclusiveMinimum": 0, "type": "integer"}, Number("integer", 1)),
    ({"exclusiveMinimum": True, "minimum": 3, "type": "integer"}, Number("integer", 4)),
    ({"enum": ["a", 1, None], "type": "string"}, Literals(('"a"',))),
    ({"const": {"a": [1]}}, Literals(('{"a": [1]}',))),
    ({"anyOf": [{"type": "boolean"}, {"const": 3}]}, Choice((Literals(("true", "false")), Literals(("3",))))),
    ({"$ref": "#/$defs/K"}, Literals(('"red"', '"blue"'))),
    ({"$ref": "#/$defs/missing"}, Anything()),
    ({"$ref": "http://elsewhere/x.json"}, Anything()),
    ({"$ref": "#/$defs/Loop"}, Anything()),
    ({"allOf": [{"type": "string", "minLength": 2}, {"maxLength": 4}]}, Text(2, 4)),
    ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, Listing((), Number("integer"), 0, 2)),
    ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, Listing((Number("integer"),), Anything(), 0, 1)),
    ({"type": "object"}, Mapping((), Anything())),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, Mapping((), Number("integer"))),
    ({"type": "object", "properties": {}}, Mapping()),
    ({"type": "string", "pattern": "(?=a)b"}, Text()),
    ({"type": "string", "pattern": "^[a-z]+$"}, Text(tree=read("[a-z]+"))),
    ({}, Anything()),
    (True, Anything()),
    ({"type": "nonsense"}, Anything()),
    ({"not": {"type": "string"}}, Anything()),
]


@pytest.mark.parametrize(("given_schema", "shape"), SHAPES, ids=[json.dumps(given) for given, _ in SHAPES])
def test_shapes(given_schema: Any, shape: Any) -> None:
    definitions = {"K": {"enum": ["red", "blue"]}, "Loop": {"$ref": "#/$defs/Loop"}}
    read = arguments_shape(schema("x", x=given_schema) | {"$defs": definitions})
    assert isinstance(read, Mapping)
    found = read.members[0].shape
    if isinstance(found, Listing) and found.high == 1:
        found = Listing(found.first, Anything(), found.low, found.high)
    assert found == shape


def test_recursion_ends_where_the_schema_allows_it() -> None:
    tree = schema("v", v={"type": "integer"}, of={"type": "array", "items": {"$ref": "#/$defs/T"}})
    shape = arguments_shape(schema("t", t={"$ref": "#/$defs/T"}) | {"$defs": {"T": tree}})
    assert "Never" not in repr(shape).replace("rest=Never()", "")
    assert least(shape) < 100
    endless = schema("t", t=schema("t", t={"$ref": "#/$defs/T"}))
    assert arguments_shape(endless | {"$defs": {"T": endless}}) == Anything(only_objects=True)


def test_branching_recursion_stays_small() -> None:
    node = schema(**{f"k{n}": {"$ref": "#/$defs/N"} for n in range(8)})
    forced = force_calls(HERMES, [tool("t", node | {"$defs": {"N": node}})], ANY, budget_tokens=4000)
    assert len(forced.grammar) < 200_000


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text('ab"\\/<é😀\n', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('abé<"', max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYWORDS = [
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "allOf",
    "enum",
    "const",
    "$ref",
    "additionalProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "format",
    "multipleOf",
    "nullable",
    "exclusiveMinimum",
    "minProperties",
    "maxProperties",
]
WILD = st.recursive(
    JSON_VALUES | st.sampled_from(["string", "object", "array", "integer", "#", "#/properties/a", "^a+$", "date"]),
    lambda inner: st.dictionaries(
        st.sampled_from(KEYWORDS), inner | st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner), max_size=4
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYWORDS), WILD, max_size=5), st.integers(0, 3000), st.sampled_from([HERMES, QWEN]))
def test_no_schema_is_an_error(wild: dict[str, Any], budget: int, call_format: CallFormat) -> None:
    forced = force_calls(call_format, [tool("t", wild), NOW], ANY, budget_tokens=budget)
    names = set(re.findall(r"^([rTs]\d+)(?:\[.*?\])?: ", forced.grammar, re.M))
    unquoted = re.sub(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)+/|%json .*', "", forced.grammar)
    assert set(re.findall(r"\b[rTs]\d+\b", unquoted)) <= names
    assert "{0,0}" not in re.sub(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)+/', "", forced.grammar)


@settings(max_examples=60, deadline=None)
@given(st.none() | st.integers(-400, 400), st.none() | st.integers(0, 300), st.integers(1, 4))
def test_integers_keep_their_bounds(low: int | None, width: int | None, digits: int) -> None:
    high = None if width is None else (low or 0) + width
    pattern = re.compile(integer_regex(low, high, digits=digits))
    matched = [n for n in range(-1200, 1201) if pattern.fullmatch(str(n))]
    assert matched
    assert all((low is None or n >= low) and (high is None or n <= high) for n in matched)
    if low is not None and high is not None:
        assert matched == list(range(low, high + 1))
    assert not pattern.fullmatch("00") and not pattern.fullmatch("-0")


@settings(max_examples=100, deadline=None)
@given(st.integers(-4000, 4000), st.integers(0, 4000), st.sampled_from([1, 10, 100]), st.data())
def test_numbers_keep_their_bounds(low: int, width: int, scale: int, data: st.DataObject) -> None:
    least_value, most_value = low / scale, (low + width) / scale
    pattern = re.compile(number_regex(least_value, most_value, digits=9))
    value = data.draw(st.decimals(-50, 50, places=data.draw(st.integers(0, 3))))
    if pattern.fullmatch(f"{value:f}"):
        assert least_value <= float(value) <= most_value
    assert pattern.fullmatch(f"{low / scale:.2f}") or pattern.fullmatch(f"{low // scale}")


def test_multiples_are_listed() -> None:
    pattern = re.compile(integer_regex(7, 31, digits=3, multiple=5))
    assert [n for n in range(100) if pattern.fullmatch(str(n))] == [10, 15, 20, 25, 30]


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("^a+$", ["a", "aa"], ["", "ab"]),
        ("a/b", ["a/b", "xa/by"], ["ab"]),
        ("^x", ["x", "xy"], ["yx"]),
        ("x\\$", ["x$", "ax$b"], ["x"]),
        ("^a|b$", ["a", "b", "az", "zb"], ["za"]),
        (r"^\d{2}-\w?[^a-c\n]$", ["12-xd", "12-é"], ["1-d", "12-a"]),
        (r"^(?:a|\u00e9){1,2}[\]-]$", ["a]", "éa-"], ["a"]),
        (r"^[\^.]\.*?$", ["^", "...", "^.."], ["a"]),
    ],
)
def test_patterns_are_found(pattern: str, inside: list[str], outside: list[str]) -> None:
    rust = re.compile(re.sub(r"\\u\{([0-9A-F]+)\}", lambda code: re.escape(chr(int(code[1], 16))), regex_text(found_in(pattern))))
    assert [text for text in inside if not rust.fullmatch(text) or not re.search(pattern, text)] == []
    assert [text for text in outside if rust.fullmatch(text)] == []


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "a$b", "*a", "a{20000}", r"\p{L}", r"\bx", "(a", "[b-a]", "[[:alpha:]]", r"\ud800", "a++", "(?i)a"]
)
def test_patterns_that_dialects_read_differently_are_refused(pattern: str) -> None:
    with pytest.raises(Unreadable):
        found_in(pattern)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5000), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000), st.integers(1, 4)), max_size=6))
def test_shares_never_exceed_the_room_nor_the_claims(room: int, claims: list[tuple[int, int, int]]) -> None:
    given_rooms = shares(room, claims)
    assert sum(given_rooms) <= max(room, sum(low for low, _, _ in claims))
    assert all(low <= got <= max(low, high) for got, (low, high, _) in zip(given_rooms, claims, strict=True))


def test_a_small_room_drops_optional_members() -> None:
    shape = arguments_shape(schema("a", a={"type": "string"}, b={"type": "string", "format": "uuid"}))
    rules = Rules()
    ValueLowering(rules).value(shape, 30)
    written = "".join(part.text for body in rules.bodies if isinstance(body, Run) for part in body.parts if isinstance(part, Exact))
    assert '"a"' in written and '"b"' not in written
    assert most(shape) > 30 > least(shape)


def test_equal_requests_give_equal_grammars() -> None:
    first, second = (force_calls(QWEN, [WEATHER, NOW], ANY, budget_tokens=500) for _ in range(2))
    assert isinstance(first, Forced) and first == second


@pytest.mark.parametrize(
    ("bounds_of", "inside", "outside"),
    [
        ({"exclusiveMinimum": 0.5, "exclusiveMaximum": 0.75}, ("0.6", "0.74"), ("0.5", "0.50", "0.75", "1")),
        ({"exclusiveMinimum": 0, "maximum": 1}, ("0.1", "1"), ("0", "0.0")),
        ({"minimum": 0.1, "exclusiveMaximum": 0.3}, ("0.1", "0.2"), ("0.3", "0.09")),
        ({"exclusiveMinimum": 1e15}, ("1000000000000001",), ("1000000000000000",)),
    ],
)
def test_exclusive_bounds_of_numbers_exclude(bounds_of: dict[str, float], inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    shape = arguments_shape({"properties": {"n": {"type": "number", **bounds_of}}, "required": ["n"]})
    assert isinstance(shape, Mapping)
    number = shape.members[0].shape
    assert isinstance(number, Number)
    pattern = re.compile(number_regex(number.low, number.high, digits=15))
    assert all(pattern.fullmatch(text) for text in inside)
    assert not any(pattern.fullmatch(text) for text in outside)


@pytest.mark.parametrize(
    ("words", "required"),
    [
        ({"minProperties": 2}, [True, True, False]),
        ({"minProperties": 2, "required": ["c"]}, [True, False, True]),
        ({"dependentRequired": {"a": ["b"]}}, [False, True, False]),
        ({"dependencies": {"a": ["c"], "b": {"required": ["a"]}}}, [False, False, True]),
        ({"minProperties": 9}, [True, True, True]),
        ({}, [False, False, False]),
    ],
)
def test_members_that_other_keywords_ask_for_are_required(words: dict[str, Any], required: list[bool]) -> None:
    shape = arguments_shape({"type": "object", "properties": {key: {"type": "string"} for key in "abc"}, **words})
    assert isinstance(shape, Mapping)
    assert [member.required for member in shape.members] == required
