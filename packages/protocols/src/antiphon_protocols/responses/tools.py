"""Tools of all types as functions the model may call, and back: which item a call of each becomes."""

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from antiphon_protocols.body import invalid, object_schema, safe_names
from antiphon_protocols.responses import wire
from antiphon_protocols.responses.native import NATIVE, NativeTool
from antiphon_turns.request import FreeformGrammar, Tool

Kind = Literal["function", "custom", "native", "tool_search"]

INPUT = "input"
"""The one parameter of a tool that takes free text."""

_NO_PARAMETERS = '{"type": "object", "properties": {}}'
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_FREEFORM_PARAMETERS = (
    '{"type":"object","properties":{"input":{"type":"string","description":"The whole input of the tool, as plain text."}},\
"required":["input"],"additionalProperties":false}'
)
_SEARCH_PARAMETERS = '{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}'


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What the client declared, for a function the model sees. `native` is the tool's type where `kind` is "native"."""

    kind: Kind
    name: str
    namespace: str | None = None
    native: str | None = None

    @property
    def native_tool(self) -> NativeTool | None:
        """The description of a native tool, None for all others."""
        return NATIVE.get(self.native or "")


class ToolMap(msgspec.Struct, frozen=True):
    """Function names the model sees -> what the client declared."""

    targets: dict[str, Target] = {}

    def target(self, name: str) -> Target:
        """What a call of `name` is a call of. A model may leave a namespace out: the name alone will do where only one tool has it.
        A name nobody declared is a plain function's."""
        found = self.targets.get(name)
        if found is None:
            members = [target for target in self.targets.values() if target.namespace is not None and target.name == name]
            found = members[0] if len(members) == 1 else Target(kind="function", name=name)
        return found


def joined_name(namespace: str, name: str) -> str:
    """One function name for a tool in a namespace."""
    return _UNFIT.sub("_", f"{namespace.removesuffix('__')}__{name}")


class Toolbox:
    """Collects the tools of a request and of its history. `ignored` names those that are accepted and not offered."""

    def __init__(self, declared: Iterable[wire.WireTool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._targets: dict[str, Target] = {}
        self._by_target: dict[Target, str] = {}
        self._searches = False
        self.ignored: list[str] = []
        tools = list(declared)
        # A plain function keeps its name whatever a namespace's members are called.
        self._taken = {tool.name for tool in tools if tool.type in ("function", "custom") and tool.name}
        self._searches = any(_client_searches(tool) for tool in tools)
        for index, tool in enumerate(tools):
            self._declare(tool, f"tools.{index}")

    def load(self, tools: Iterable[wire.WireTool], path: str, *, deferred: bool) -> list[Tool]:
        """Tools that the history brings in. One that is there already stays as it is: histories repeat their items."""
        before = set(self._tools)
        loaded: list[str] = []
        for index, tool in enumerate(tools):
            loaded += self._add(tool, f"{path}.tools.{index}", deferred=deferred)
        if deferred and not before:
            # Without any tool in its head a prompt does not teach the model how to call.
            self._tools = {name: msgspec.structs.replace(tool, deferred=False) for name, tool in self._tools.items()}
        return [self._tools[name] for name in dict.fromkeys(loaded)]

    def name_of(self, target: Target) -> str:
        """The function name the model sees for a declared tool, or would see."""
        found = self._by_target.get(target)
        if found is None:
            found = joined_name(target.namespace, target.name) if target.namespace else target.name
        return found

    def find(self, *, name: str, namespace: str | None = None, kinds: tuple[Kind, ...] = ("function", "custom")) -> list[str]:
        """Functions that a client means by `name`: the declared name, or the name the model sees."""
        exact = self._targets.get(name)
        if exact is not None and namespace is None and exact.kind in kinds:
            return [name]
        return [
            seen
            for seen, target in self._targets.items()
            if target.kind in kinds and target.name == name and (namespace is None or target.namespace == namespace)
        ]

    def members(self, namespace: str) -> list[str]:
        """Functions of a namespace."""
        return [seen for seen, target in self._targets.items() if target.namespace == namespace]

    def natives(self, kind: str) -> list[str]:
        """Functions that stand for a native tool of this type."""
        return [seen for seen, target in self._targets.items() if target.native == kind or (kind == target.kind == "tool_search")]

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, in the order in which they came."""
        return tuple(self._tools.values())

    @property
    def tool_map(self) -> ToolMap:
        """The way back."""
        return ToolMap(dict(self._targets))

    def _declare(self, tool: wire.WireTool, path: str) -> None:
        if tool.type in ("function", "custom") and tool.name and tool.name in self._tools:
            raise invalid(f"{path}.name", f"tool names must be unique, {tool.name[:80]!r} is there twice")
        self._add(tool, path, deferred=bool(tool.defer_loading) and self._searches)

    def _add(self, tool: wire.WireTool, path: str, *, deferred: bool) -> list[str]:
        """Names of the functions that this tool is, new or not."""
        if tool.type == "namespace":
            return self._add_namespace(tool, path, deferred=deferred)
        if tool.type in ("function", "custom"):
            return [self._put(_plain(tool, path), _target(tool, path), deferred=deferred)]
        native = NATIVE.get(tool.type)
        if native is not None and _runs_at_the_client(tool):
            target = Target(kind="native", name=native.name, native=tool.type)
            return [
                self._put(Tool(name=native.name, description=native.description, parameters=native.parameters), target, deferred=deferred)
            ]
        if _client_searches(tool):
            schema = _parameters(tool, path) if isinstance(tool.parameters, msgspec.Raw) else _SEARCH_PARAMETERS
            search = Tool(name="tool_search", description=tool.description, parameters=schema)
            return [self._put(search, Target(kind="tool_search", name="tool_search"), deferred=deferred)]
        self.ignored += safe_names([f"{path}.{tool.type}"])
        return []

    def _add_namespace(self, tool: wire.WireTool, path: str, *, deferred: bool) -> list[str]:
        if not tool.name:
            raise invalid(f"{path}.name", "Field required")
        names: list[str] = []
        for index, member in enumerate(tool.tools or ()):
            place = f"{path}.tools.{index}"
            if member.type not in ("function", "custom"):
                self.ignored += safe_names([f"{place}.{member.type}"])
                continue
            plain = _plain(member, place)
            if index == 0 and tool.description:
                # What a namespace is for is said once, where the model meets its first member.
                about = f"({tool.name}: {tool.description})"
                plain = msgspec.structs.replace(plain, description=f"{plain.description}\n{about}" if plain.description else about)
            later = deferred or (bool(member.defer_loading) and self._searches)
            names.append(self._put(plain, _target(member, place, tool.name), deferred=later))
        return names

    def _put(self, tool: Tool, target: Target, *, deferred: bool) -> str:
        known = self._by_target.get(target)
        if known is not None:
            return known
        name = joined_name(target.namespace, target.name) if target.namespace else tool.name
        reserved = self._taken if target.namespace or target.kind in ("native", "tool_search") else set()
        if name in reserved or name in self._tools:
            name = next(
                free for free in (f"{name}_{n}" for n in range(2, 1_000_000)) if free not in self._tools and free not in self._taken
            )
        self._tools[name] = msgspec.structs.replace(tool, name=name, deferred=deferred)
        self._targets[name] = target
        self._by_target[target] = name
        return name


def definition(tool: Tool) -> str:
    """A tool as text, for the place in a history where it was loaded."""
    shown = {"name": tool.name, "description": tool.description or "", "parameters": msgspec.Raw(tool.parameters.encode())}
    return msgspec.json.encode(shown).decode()


def _client_searches(tool: wire.WireTool) -> bool:
    """A search that the server would have to run is not offered, and then nothing may wait to be found."""
    return tool.type == "tool_search" and tool.execution == "client"


def _runs_at_the_client(tool: wire.WireTool) -> bool:
    environment = tool.environment
    return environment is None or (isinstance(environment, wire.Environment) and environment.type in (None, "local"))


def _target(tool: wire.WireTool, path: str, namespace: str | None = None) -> Target:
    return Target(kind="custom" if tool.type == "custom" else "function", name=_name(tool, path), namespace=namespace)


def _name(tool: wire.WireTool, path: str) -> str:
    if tool.name is None:
        raise invalid(f"{path}.name", "Field required")
    if not tool.name:
        raise invalid(f"{path}.name", "must not be empty")
    return tool.name


def _plain(tool: wire.WireTool, path: str) -> Tool:
    name = _name(tool, path)
    if tool.type != "custom":
        return Tool(name=name, description=tool.description, parameters=_parameters(tool, path), strict=bool(tool.strict))
    spec = tool.format or wire.FormatSpec()
    if spec.type != "grammar":
        return Tool(name=name, description=tool.description, parameters=_FREEFORM_PARAMETERS)
    language = "Lark grammar" if spec.syntax == "lark" else "regular expression"
    # The grammar is shown as well, because not every engine can enforce it.
    shown = f"The input must match this {language}:\n{spec.definition}"
    return Tool(
        name=name,
        description=f"{tool.description}\n\n{shown}" if tool.description else shown,
        parameters=_FREEFORM_PARAMETERS,
        freeform=FreeformGrammar(spec.syntax, spec.definition),
    )


def _parameters(tool: wire.WireTool, path: str) -> str:
    return object_schema(tool.parameters, f"{path}.parameters") or _NO_PARAMETERS
