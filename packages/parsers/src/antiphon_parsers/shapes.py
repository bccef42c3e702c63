"""What a schema says about a value and the values in it, and trees of untyped text as JSON of that shape."""

from collections.abc import Iterator, Sequence

import msgspec

from antiphon_parsers.coercion import JsonType, branches, coerce, declared_types, json_string


class Shape(msgspec.Struct, frozen=True):
    """The schemas that hold for one value, any of which may; `root` is what references are resolved in."""

    schemas: tuple[object, ...]
    root: dict[str, object]

    @property
    def types(self) -> frozenset[JsonType]:
        """Every type allowed; empty when nothing is said."""
        return frozenset[JsonType]().union(*(declared_types(schema, self.root) for schema in self.schemas))

    @property
    def items(self) -> "Shape":
        """Of the elements, if this is a list."""
        return Shape(tuple(node["items"] for node in self._nodes() if "items" in node), self.root)

    def member(self, name: str) -> "Shape":
        """Of a member, if this is an object."""
        found: list[object] = []
        for node in self._nodes():
            properties = node.get("properties")
            declared = properties.get(name) if isinstance(properties, dict) else None
            found += [schema for schema in (declared, node.get("additionalProperties") if declared is None else None) if schema is not None]
        return Shape(tuple(found), self.root)

    def _nodes(self) -> Iterator[dict[str, object]]:
        for schema in self.schemas:
            yield from branches(schema, self.root)


class Element:
    """A node of a tree: text with elements in it."""

    __slots__ = ("children", "name", "parts")

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: list[str] = []
        self.children: list[Element] = []


def json_of(elements: Sequence[Element], shape: Shape) -> str:
    """Sibling elements of one name as one JSON value: several are a list, unless each is one already."""
    if len(elements) == 1:
        return _one(elements[0], shape)
    inner = shape.items if "array" in shape.types else shape
    return _list(_one(element, inner) for element in elements)


def _one(element: Element, shape: Shape) -> str:
    types, text = shape.types, "".join(element.parts)
    if not element.children:
        if not text.strip() and "string" not in types and types & {"array", "object"}:
            return "[]" if "array" in types else "{}"
        return coerce(text, types)
    named_items = all(child.name == "item" for child in element.children)
    if "array" in types or ("object" not in types and named_items):
        return _list(_one(child, shape.items) for child in element.children)
    groups: dict[str, list[Element]] = {}
    for child in element.children:
        groups.setdefault(child.name, []).append(child)
    found = [(name, json_of(group, shape.member(name))) for name, group in groups.items()]
    if text.strip():
        found.append(("$text", f'"{json_string(text.strip())}"'))
    return "{" + ", ".join(f'"{json_string(name)}": {value}' for name, value in found) + "}"


def _list(items: Iterator[str]) -> str:
    return f"[{', '.join(items)}]"
