"""JSON schemas as shapes: the part of JSON Schema that a grammar can enforce, references resolved, as plain finite data.

A keyword that has no shape (not, if/then, dependencies, ...) is left out; a schema that says nothing usable is `Anything`.
Recursion is unrolled to `MAX_DEPTH` and then pruned where the schema allows it. Nothing here raises on client data.
"""

from collections.abc import Sequence
from math import inf, nextafter
from typing import Any, Literal, TypeGuard

from antiphon_parsers.forcing.pattern_reader import Unreadable, found_in
from antiphon_parsers.forcing.patterns import Tree, shortest
from antiphon_parsers.forcing.references import reference_target
from antiphon_parsers.forcing.shapes import Anything, Choice, Listing, Literals, Mapping, Member, Never, Number, Shape, Text, json_text

MAX_DEPTH = 8
MAX_NODES = 600
"""Shapes of one tool, counted while it is read: keeps branching recursive schemas small."""
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_IMPLIED = {
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_FORMS = frozenset({"date", "time", "date-time", "uuid"})
_MAX_PATTERN = 200


def arguments_shape(schema: dict[str, Any]) -> Mapping | Choice | Anything:
    """The shape of a tool's arguments, an object whatever the schema forgets to say."""
    shape = _Reader(schema).read(schema if "type" in schema else {**schema, "type": "object"}, 0, top=True)
    options = shape.options if isinstance(shape, Choice) else (shape,)
    objects = tuple(option for option in options if isinstance(option, Mapping))
    if not objects:
        return Anything(only_objects=True)
    return objects[0] if len(objects) == 1 else Choice(objects)


def value_shape(schema: object) -> Shape:
    """The shape of a whole value."""
    if not isinstance(schema, dict):
        return Anything()
    shape = _Reader(schema).read(schema, 0)
    return Anything() if isinstance(shape, Never) else shape


class _Reader:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def read(self, schema: object, depth: int, *, top: bool = False) -> Shape:
        self._nodes += 1
        if schema is False or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return Never()
        if not isinstance(schema, dict):
            return Anything()
        flat = self._flatten(schema)
        if flat is None:
            return Anything()
        for key in ("anyOf", "oneOf"):
            options = flat.get(key)
            if isinstance(options, list) and options:
                return self._alternatives({k: v for k, v in flat.items() if k != key}, options, depth, top=top)
        return self._plain(flat, depth, top=top)

    def _flatten(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        """The schema with its own $ref and allOf merged in; None when a reference leads nowhere."""
        seen = 0
        while "$ref" in schema or "allOf" in schema:
            seen += 1
            if seen > MAX_DEPTH:
                return None
            parts: list[object] = []
            if "$ref" in schema:
                target = reference_target(schema["$ref"], self._root)
                if target is None:
                    return None
                parts.append(target)
            extra = schema.get("allOf")
            parts += extra if isinstance(extra, list) else []
            merged = {k: v for k, v in schema.items() if k not in ("$ref", "allOf")}
            for part in parts:
                if isinstance(part, dict):
                    merged = _merge(part, merged)
            schema = merged
        return schema

    def _alternatives(self, base: dict[str, Any], options: list[object], depth: int, *, top: bool) -> Shape:
        shapes: list[Shape] = []
        for option in options:
            if isinstance(option, dict):
                flat = self._flatten(option)
                shapes.append(Anything() if flat is None else self.read(_merge(base, flat), depth + 1, top=top))
            elif option is not False:
                shapes.append(self._plain(base, depth, top=top))
        return _choice(shapes)

    def _plain(self, schema: dict[str, Any], depth: int, *, top: bool) -> Shape:
        if "const" in schema:
            return Literals((json_text(schema["const"]),))
        enum = schema.get("enum")
        if isinstance(enum, list):
            values = [value for value in enum if _has_type(value, schema.get("type"))]
            return Literals(tuple(dict.fromkeys(map(json_text, values)))) if values else Never()
        types = _types(schema)
        if not types:
            return Anything()
        return _choice([self._typed(schema, name, depth, top=top) for name in types])

    def _typed(self, schema: dict[str, Any], name: str, depth: int, *, top: bool) -> Shape:
        match name:
            case "string":
                return _text(schema)
            case "integer" | "number":
                return _number(schema, "integer" if name == "integer" else "number")
            case "boolean":
                return Literals(("true", "false"))
            case "null":
                return Literals(("null",))
            case "array":
                return self._sequence(schema, depth)
            case _:
                return self._mapping(schema, depth, top=top)

    def _sequence(self, schema: dict[str, Any], depth: int) -> Shape:
        low = _size(schema.get("minItems")) or 0
        high = _size(schema.get("maxItems"))
        listed = schema.get("prefixItems", schema.get("items"))
        first = tuple(self.read(item, depth + 1) for item in listed) if isinstance(listed, list) else ()
        rest_schema = schema.get("items" if "prefixItems" in schema else "additionalItems", True) if first else schema.get("items", True)
        rest = self.read(rest_schema, depth + 1)
        if any(isinstance(item, Never) for item in first):
            return Never()
        if isinstance(rest, Never):
            high = len(first) if high is None else min(high, len(first))
        if first and isinstance(rest, Anything):  # a tuple is meant, whatever the dialect says about the rest
            high = len(first) if high is None else min(high, max(low, len(first)))
        return Never() if high is not None and low > high else Listing(first, rest, low, high)

    def _mapping(self, schema: dict[str, Any], depth: int, *, top: bool) -> Shape:
        properties = schema.get("properties")
        declared = properties if isinstance(properties, dict) else {}
        listed = schema.get("required")
        required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
        members: list[Member] = []
        for key, value in {**declared, **{name: True for name in required if name not in declared}}.items():
            shape = self.read(value, depth + 1)
            if not isinstance(shape, Never):
                members.append(Member(key, shape, key in required))
            elif key in required:
                return Never()
        extra: Shape | None = None
        free = schema.get("additionalProperties", not (isinstance(properties, dict) or top))
        if free is not False and "patternProperties" not in schema:
            extra = self.read(free, depth + 1)
        extra = None if isinstance(extra, Never) else extra
        low = _size(schema.get("minProperties")) or 0
        return Mapping(_enough(members, low, _dependents(schema)), extra, low, _size(schema.get("maxProperties")))


def _enough(members: Sequence[Member], low: int, dependents: set[str]) -> tuple[Member, ...]:
    """The members with so many required that every object of them has `low` and no dependency is unmet: narrower than
    the schema, and always inside it."""
    chosen = {member.key for member in members if member.required or member.key in dependents}
    for member in members:
        if len(chosen) < low:
            chosen.add(member.key)
    return tuple(Member(member.key, member.shape, member.key in chosen) for member in members)


def _dependents(schema: dict[str, Any]) -> set[str]:
    """Names that other members require."""
    found: set[str] = set()
    for word in ("dependentRequired", "dependencies"):
        rules = schema.get(word)
        for names in rules.values() if isinstance(rules, dict) else ():
            found.update(name for name in (names if isinstance(names, list) else ()) if isinstance(name, str))
    return found


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Both schemas at once, as far as their keywords can be joined; elsewhere `over` wins."""
    merged = {**base, **over}
    for key in base.keys() & over.keys():
        left, right = base[key], over[key]
        if key == "properties" and isinstance(left, dict) and isinstance(right, dict):
            merged[key] = {**left, **{k: _both(left[k], v) if k in left else v for k, v in right.items()}}
        elif key == "required" and isinstance(left, list) and isinstance(right, list):
            merged[key] = [*left, *(name for name in right if name not in left)]
        elif key == "enum" and isinstance(left, list) and isinstance(right, list):
            merged[key] = [value for value in left if value in right]
        elif key in ("minimum", "minLength", "minItems") and _is_number(left) and _is_number(right):
            merged[key] = max(left, right)
        elif key in ("maximum", "maxLength", "maxItems") and _is_number(left) and _is_number(right):
            merged[key] = min(left, right)
        elif key == "additionalProperties" and left is False:
            merged[key] = False
    return merged


def _both(left: object, right: object) -> object:
    return {"allOf": [left, right]} if isinstance(left, dict) and isinstance(right, dict) else right


def _choice(shapes: Sequence[Shape]) -> Shape:
    flat: list[Shape] = []
    for shape in shapes:
        flat += shape.options if isinstance(shape, Choice) else [shape]
    kept = [shape for shape in dict.fromkeys(flat) if not isinstance(shape, Never)]
    if any(shape == Anything() for shape in kept):
        return Anything()
    if not kept:
        return Never()
    return kept[0] if len(kept) == 1 else Choice(tuple(kept))


def _types(schema: dict[str, Any]) -> list[str]:
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types = [name for name in names if isinstance(name, str) and name in _TYPES]
    if not types:
        types = [name for name, keys in _IMPLIED.items() if any(key in schema for key in keys)][:1]
    if types and schema.get("nullable") is True and "null" not in types:
        types.append("null")
    return list(dict.fromkeys(types))


def _has_type(value: object, declared: object) -> bool:
    names = declared if isinstance(declared, list) else [declared]
    kinds: dict[object, tuple[type, ...]] = {
        "string": (str,),
        "integer": (int, float),
        "number": (int, float),
        "boolean": (bool,),
        "null": (type(None),),
        "array": (list,),
        "object": (dict,),
    }
    known = [name for name in names if isinstance(name, str) and name in kinds]
    if not known:
        return True
    return any(isinstance(value, kinds[name]) and (name == "boolean" or not isinstance(value, bool)) for name in known)


def _text(schema: dict[str, Any]) -> Shape:
    low, high = _size(schema.get("minLength")) or 0, _size(schema.get("maxLength"))
    form, pattern = schema.get("format"), schema.get("pattern")
    if high is not None and low > high:
        return Never()
    tree = _tree(pattern) if isinstance(pattern, str) else None
    least = 0 if tree is None else shortest(tree)
    if least is None or (high is not None and least > high):
        tree = None
    return Text(low, high, tree, form if isinstance(form, str) and form in _FORMS and tree is None else None)


def _tree(pattern: str) -> Tree | None:
    """The pattern, where it is read alike by every dialect on the way."""
    if len(pattern) > _MAX_PATTERN or not pattern.isprintable() or not pattern.isascii():
        return None
    try:
        return found_in(pattern)
    except Unreadable:
        return None


def _number(schema: dict[str, Any], kind: Literal["integer", "number"]) -> Shape:
    low, high = schema.get("minimum"), schema.get("maximum")
    low = low if _is_number(low) else None
    high = high if _is_number(high) else None
    over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if over is True or under is True:  # the boolean form of draft 4
        over, under = (low if over is True else None), (high if under is True else None)
    step = 1 if kind == "integer" else 1e-6
    if _is_number(over):
        edge = (over // 1 + 1) if kind == "integer" else max(over + step, nextafter(over, inf))
        low = edge if low is None else max(low, edge)
    if _is_number(under):
        edge = -((-under) // 1) - 1 if kind == "integer" else min(under - step, nextafter(under, -inf))
        high = edge if high is None else min(high, edge)
    multiple = schema.get("multipleOf")
    whole = int(multiple) if _is_number(multiple) and multiple == int(multiple) and multiple > 0 else None
    if low is not None and high is not None and low > high:
        return Never()
    return Number(kind, low, high, whole)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18


def _size(value: Any) -> int | None:
    return int(value) if _is_number(value) and value >= 0 else None
