"""Types for untyped grammars: what a schema declares, and raw text as a JSON value of that type.

Order of attempts: null, integer, number, boolean, object or array, string. Spelling of numbers and containers is
kept; where no declared type fits, the text stays a string.
"""

import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Literal, cast

from antiphon_turns.json_scan import MAX_DEPTH, JsonScanner

JsonType = Literal["null", "integer", "number", "boolean", "object", "array", "string"]

_TYPES = frozenset(("null", "integer", "number", "boolean", "object", "array", "string"))
# Possessive repeats keep these linear.
_INTEGER = re.compile(r"([+-]?)0*+(\d*+)(\.0*+)?")
_NUMBER = re.compile(r"([+-]?)0*+(\d*+)(\.\d*+)?([eE][+-]?\d++)?")
_MAX_DIGITS = 1000
_MAX_REFS = 32


def json_string(text: str) -> str:
    """The inside of a JSON string that means `text`."""
    return encode_basestring(text)[1:-1]


def declared_types(schema: object, root: dict[str, object]) -> frozenset[JsonType]:
    """Every type the schema allows, through anyOf, oneOf, allOf, $ref, enum and const. Empty: it says nothing."""
    found: set[str] = set()
    for node in branches(schema, root):
        found.update(_own_types(node))
    return frozenset(cast("set[JsonType]", found & _TYPES))


def branches(schema: object, root: dict[str, object]) -> Iterator[dict[str, object]]:
    """The schema and all it is made of through anyOf, oneOf, allOf and $ref; bounded, for schemas that refer to themselves."""
    queue, steps = [schema], 0
    while queue and steps < _MAX_REFS * 8:
        steps += 1
        node = queue.pop()
        if not isinstance(node, dict):
            continue
        yield node
        for word in ("anyOf", "oneOf", "allOf"):
            parts = node.get(word)
            if isinstance(parts, list):
                queue.extend(parts[:_MAX_REFS])
        if isinstance(node.get("$ref"), str):
            queue.append(_follow(node["$ref"], root))


def _own_types(node: dict[str, object]) -> set[str]:
    declared = node.get("type")
    names = {declared} if isinstance(declared, str) else set()
    if isinstance(declared, list):
        names = {name for name in declared if isinstance(name, str)}
    if not names:
        values = node.get("enum")
        members = list(values) if isinstance(values, list) else []
        if "const" in node:
            members.append(node["const"])
        names = {_type_of(value) for value in members}
    if not names and "properties" in node:
        names = {"object"}
    if not names and "items" in node:
        names = {"array"}
    if node.get("nullable") is True:
        names = names | {"null"}
    return names


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "array"


def _follow(reference: str, root: dict[str, object]) -> object:
    """A local reference (`#/$defs/x`); None for any other."""
    if not reference.startswith("#"):
        return None
    node: object = root
    for step in reference[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        node = node.get(step) if isinstance(node, dict) else None
    return node


def coerce(text: str, types: frozenset[JsonType]) -> str:
    """`text` as JSON text of the first type that fits."""
    word = text.strip()
    if "null" in types and word == "null":
        return "null"
    if "integer" in types and (spelled := _integer(word)) is not None:
        return spelled
    if "number" in types and (spelled := _number(word)) is not None:
        return spelled
    if "boolean" in types and word.lower() in ("true", "false"):
        return word.lower()
    if types & {"object", "array"} and word[:1] in ("{", "[") and is_json(word):
        return word
    return f'"{json_string(text)}"'


def _integer(word: str) -> str | None:
    found = _INTEGER.fullmatch(word) if _is_numeric(word) else None
    if found is None:
        return None
    return word if is_json(word) else ("-" if found[1] == "-" else "") + (found[2] or "0")


def _number(word: str) -> str | None:
    found = _NUMBER.fullmatch(word) if _is_numeric(word) else None
    if found is None:
        return None
    if is_json(word):
        return word
    fraction = found[3] or ""
    sign = "-" if found[1] == "-" else ""
    return sign + (found[2] or "0") + (".0" if fraction == "." else fraction) + (found[4] or "")


def _is_numeric(word: str) -> bool:
    """Whether a digit stands where a number must have its first."""
    return len(word) <= _MAX_DIGITS and word.isascii() and word.lstrip("+-").lstrip(".")[:1].isdigit()


def is_json(word: str) -> bool:
    """Whether the text is one JSON value, without white space around it."""
    scanner = JsonScanner(max_depth=MAX_DEPTH - 1)
    if scanner.feed(word) < len(word):
        return False
    return scanner.done or (scanner.state == "number" and scanner.closing() == "")
