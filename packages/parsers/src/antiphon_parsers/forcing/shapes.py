"""What a value may be: JSON schemas as plain finite shapes, the part that a grammar can enforce."""

import json
from typing import Literal

import msgspec

from antiphon_parsers.forcing.patterns import Tree


class Never(msgspec.Struct, frozen=True):
    """No value fits (or the schema is nested too deeply to say)."""


class Anything(msgspec.Struct, frozen=True):
    """Any JSON value; with `only_objects` any JSON object. `nesting` levels of containers."""

    only_objects: bool = False
    nesting: int = 2


class Literals(msgspec.Struct, frozen=True):
    """One of these values, given as JSON text in the spelling of a family that writes ", " and ": "."""

    texts: tuple[str, ...]


class Text(msgspec.Struct, frozen=True):
    """A string of so many characters that matches `tree`; `form` is a known format."""

    low: int = 0
    high: int | None = None
    tree: Tree | None = None
    form: str | None = None


class Number(msgspec.Struct, frozen=True):
    """A number within inclusive bounds; open bounds were moved to the next integer for integers."""

    kind: Literal["integer", "number"]
    low: float | int | None = None
    high: float | int | None = None
    multiple: int | None = None


class Listing(msgspec.Struct, frozen=True):
    """An array: the `first` items by position, then `rest` ones; `low`..`high` items in all."""

    first: "tuple[Shape, ...]"
    rest: "Shape"
    low: int = 0
    high: int | None = None


class Member(msgspec.Struct, frozen=True):
    """A declared property."""

    key: str
    shape: "Shape"
    required: bool


class Mapping(msgspec.Struct, frozen=True):
    """An object: declared members in schema order, then up to `high_extra` undeclared ones of shape `extra` (None: not allowed)."""

    members: tuple[Member, ...] = ()
    extra: "Shape | None" = None
    low: int = 0
    high: int | None = None


class Choice(msgspec.Struct, frozen=True):
    """One of several shapes."""

    options: "tuple[Shape, ...]"


Shape = Never | Anything | Literals | Text | Number | Listing | Mapping | Choice


def json_text(value: object) -> str:
    """A value as families write it in JSON: ", " and ": " between, characters as they are."""
    return json.dumps(value, ensure_ascii=False)


def bare_text(text: str) -> str:
    """A literal as formats with untyped values write it: a string without its quotes, any other value as JSON."""
    value = json.loads(text)
    return value if isinstance(value, str) else text
