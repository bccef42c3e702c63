"""`tool_choice`: whether and what the model must call."""

from typing import Literal

from antiphon_protocols.body import invalid, refuse
from antiphon_protocols.responses import wire
from antiphon_protocols.responses.tools import Toolbox
from antiphon_turns.request import Tool, ToolChoice

_MODES: dict[str, Literal["auto", "none", "any"]] = {"auto": "auto", "none": "none", "required": "any"}
_NATIVE = ("local_shell", "shell", "apply_patch", "tool_search")


def read_choice(choice: str | wire.WireToolChoice | None, box: Toolbox, *, parallel: bool) -> tuple[tuple[Tool, ...], ToolChoice]:
    """The tools that stay and the choice among them. Raises InvalidRequest for tools that are not there, UnsupportedFeature for
    tools this server does not run."""
    tools = box.tools
    if choice is None:
        return tools, ToolChoice(parallel=parallel)
    if isinstance(choice, str):
        if choice not in _MODES:
            raise invalid("tool_choice", f"{choice[:80]!r} is not one of 'auto', 'none', 'required'")
        return tools, _mode(choice, tools, parallel=parallel)
    if choice.type == "allowed_tools":
        allowed = _allowed(choice, box)
        kept = tuple(tool for tool in tools if tool.name in allowed)
        if not kept and choice.mode == "auto":
            return tools, ToolChoice(mode="none", parallel=parallel)
        return kept, _mode(choice.mode, kept, parallel=parallel)
    return tools, ToolChoice(mode="named", name=_named(choice, box), parallel=parallel)


def _mode(name: str, tools: tuple[Tool, ...], *, parallel: bool) -> ToolChoice:
    if name == "required" and not tools:
        raise invalid("tool_choice", "'required' needs at least one tool that the model can call in tools")
    return ToolChoice(mode=_MODES[name], parallel=parallel)


def _named(choice: wire.WireToolChoice, box: Toolbox) -> str:
    if choice.type in _NATIVE:
        found = box.natives(choice.type)
    elif choice.type in ("function", "custom"):
        if not choice.name:
            raise invalid("tool_choice.name", "Field required")
        found = box.find(name=choice.name, namespace=choice.namespace)
    else:
        raise refuse("tool_choice", f"type {choice.type[:80]!r} is not supported: this server does not run that tool")
    what = repr((choice.name or choice.type)[:80])
    if not found:
        raise invalid("tool_choice.name" if choice.name else "tool_choice", f"no tool {what} is in tools")
    if len(found) > 1:
        raise invalid("tool_choice.name", f"several namespaces have a tool {what}; name the namespace as well")
    return found[0]


def _allowed(choice: wire.WireToolChoice, box: Toolbox) -> set[str]:
    names: set[str] = set()
    for tool in choice.tools:
        if tool.type == "namespace":
            names.update(box.members(tool.name or ""))
        elif tool.type in _NATIVE:
            names.update(box.natives(tool.type))
        else:
            names.update(box.find(name=tool.name or "", namespace=tool.namespace))
    return names
