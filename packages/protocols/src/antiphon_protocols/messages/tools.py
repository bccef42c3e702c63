"""Tools and tool choice of a Messages request."""

import msgspec

from antiphon_protocols import body as wire_body
from antiphon_protocols.body import invalid, object_schema
from antiphon_protocols.messages import wire
from antiphon_protocols.messages.client_tools import client_tool
from antiphon_turns.request import Tool, ToolChoice


def read_tools(tools: list[wire.WireTool]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Tools in client order, and the names of those the vendor's servers would run: they are accepted and not offered."""
    offered: list[Tool] = []
    not_offered: list[str] = []
    seen: set[str] = set()
    # Where the vendor's own search loads deferred tools, nothing here would ever load them: they are offered at once.
    searched = any((tool.type or "").startswith("tool_search_tool_") for tool in tools)
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        if tool.name is not None or tool.type in (None, "custom"):
            _check_name(tool.name, path, seen)
        found = _read(tool, path)
        if found is None:
            not_offered.append(f"{path}.{tool.type}")
        else:
            offered.append(msgspec.structs.replace(found, deferred=False) if searched else found)
    return tuple(offered), wire_body.safe_names(not_offered)


def _check_name(name: str | None, path: str, seen: set[str]) -> None:
    if name is None:
        raise invalid(f"{path}.name", "Field required")
    if not name:
        raise invalid(f"{path}.name", "must not be empty")
    if name in seen:
        raise invalid(f"{path}.name", f"tool names must be unique, {name[:80]!r} is there twice")
    seen.add(name)


def _read(tool: wire.WireTool, path: str) -> Tool | None:
    schema = object_schema(tool.input_schema, f"{path}.input_schema")
    if schema is not None and tool.name:
        return Tool(
            name=tool.name,
            description=tool.description,
            parameters=schema,
            deferred=bool(tool.defer_loading),
            strict=bool(tool.strict),
        )
    if tool.type in (None, "custom"):
        raise invalid(f"{path}.input_schema", "Field required")
    return client_tool(tool, tool.name) if tool.name else None


def read_tool_choice(choice: wire.WireToolChoice | None, tools: tuple[Tool, ...]) -> ToolChoice:
    """Raises InvalidRequest for a choice that the tools cannot meet."""
    if choice is None:
        return ToolChoice()
    parallel = not choice.disable_parallel_tool_use
    if choice.type == "tool":
        if choice.name is None:
            raise invalid("tool_choice.name", "Field required")
        if all(tool.name != choice.name for tool in tools):
            raise invalid("tool_choice.name", f"no function tool named {choice.name[:80]!r} is in tools")
        return ToolChoice(mode="named", name=choice.name, parallel=parallel)
    if choice.type == "any" and not tools:
        raise invalid("tool_choice", "type 'any' needs at least one function tool in tools")
    return ToolChoice(mode=choice.type, parallel=parallel)
