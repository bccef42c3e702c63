"""The declared tools, as the states ask for them."""

import re
from collections.abc import Iterable

import msgspec

from antiphon_parsers.coercion import JsonType, branches
from antiphon_parsers.shapes import Shape
from antiphon_turns import Tool

NAME_SLACK = 64
"""Characters by which a name may be longer than the longest declared one (I7)."""

_NAME = re.compile(r"""[^\s<>"'=\ud800-\udfff]+""")
# What may be a name where quotes set it off: anything but markup and control characters.
_QUOTED_NAME = re.compile(r"(?! )[^<>\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+(?<! )")


class Parameters:
    """The declared parameters of the tool `name`; everything is undeclared for an unknown one."""

    def __init__(self, name: str, tool: Tool | None) -> None:
        self.name = name
        self._schema = _schema(tool)
        self._properties: dict[str, list[object]] = {}
        self._others: list[object] = []
        for node in branches(self._schema, self._schema):
            self._declare(node)
        self.longest = max(map(len, self._properties), default=0)
        self._odd = tuple(name for name in self._properties if name and _NAME.fullmatch(name) is None)

    def _declare(self, node: dict[str, object]) -> None:
        properties, patterns = node.get("properties"), node.get("patternProperties")
        for name, schema in properties.items() if isinstance(properties, dict) else ():
            self._properties.setdefault(name, []).append(schema)
        self._others.append(node.get("additionalProperties"))
        self._others += patterns.values() if isinstance(patterns, dict) else ()

    def key_end(self, text: str, at: int) -> int:
        """Where the parameter name that begins at `at` ends, as far as it is there; `at` when none does. A declared name
        may hold what other names may not, spaces for instance."""
        for name in self._odd:
            piece = text[at : at + len(name) + 1]
            if f"{name}>".startswith(piece) and (len(piece) > len(name) or at + len(piece) == len(text)):
                return at + min(len(piece), len(name))
        return name_end(text, at)

    @property
    def any_declared(self) -> bool:
        """Whether the tool declares parameters at all."""
        return bool(self._properties)

    def declares(self, name: str) -> bool:
        """Whether the schema lists the parameter."""
        return name in self._properties

    def types(self, name: str) -> frozenset[JsonType]:
        """The JSON types the schema allows for it; empty when it says nothing."""
        return self.shape(name).types

    def shape(self, name: str) -> Shape:
        """What the schema says about it."""
        return Shape(tuple(self._properties.get(name, self._others)), self._schema)


class ToolTable:
    """Tools by name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.longest = max(map(len, self._tools), default=0)

    @property
    def declared(self) -> tuple[Tool, ...]:
        """The tools."""
        return tuple(self._tools.values())

    def knows(self, name: str) -> bool:
        """Whether a tool of that name is declared."""
        return name in self._tools

    def knows_prefix(self, prefix: str) -> bool:
        """Whether a declared name begins so."""
        return any(name.startswith(prefix) for name in self._tools)

    def accepts(self, name: str, *, only_known: bool) -> bool:
        """Whether this may be the name of a call: a declared one or, unless `only_known`, any plausible one."""
        if name in self._tools:
            return True
        return not only_known and len(name) <= self.longest + NAME_SLACK and _QUOTED_NAME.fullmatch(name) is not None

    def parameters(self, name: str) -> Parameters:
        """The parameters of a tool."""
        return Parameters(name, self._tools.get(name))


def name_end(text: str, at: int) -> int:
    """Where a name that begins at `at` ends; `at` when none does."""
    found = _NAME.match(text, at)
    return found.end() if found else at


def _schema(tool: Tool | None) -> dict[str, object]:
    if tool is None:
        return {}
    try:
        return tool.schema
    except (msgspec.MsgspecError, RecursionError):
        return {}
