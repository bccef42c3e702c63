"""The vendor's client-side tools: the model gets each as a function, and its call comes back as the item that the client runs."""

from collections.abc import Callable
from typing import Any

import msgspec

from antiphon_protocols.history import input_text, respaced

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class NativeTool(msgspec.Struct, frozen=True, kw_only=True):
    """One such tool. `field` is the part of its call item that `action` makes from a call's arguments (None: they do not say what to do);
    `arguments` is the inverse, for calls of the history."""

    name: str
    call_type: str
    field: str
    description: str
    parameters: str
    action: Callable[[dict[str, Any]], dict[str, Any] | None]
    arguments: Callable[[dict[str, Any]], dict[str, Any]]


def read_action(tool: NativeTool, arguments: str) -> dict[str, Any] | None:
    """The value of the call item's field; None if the arguments hold nothing to do."""
    try:
        return tool.action(_OBJECT.decode(arguments))
    except msgspec.DecodeError:
        return None


def write_arguments(tool: NativeTool, raw: bytes) -> str:
    """Arguments of a past call, from the field of its item."""
    try:
        arguments = tool.arguments(_OBJECT.decode(raw))
    except msgspec.DecodeError:
        return input_text(raw)
    return respaced(msgspec.json.encode(arguments).decode())


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _given(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names if values.get(name) is not None}


def _local_shell(arguments: dict[str, Any]) -> dict[str, Any] | None:
    command = arguments.get("command")
    words = ["bash", "-lc", command] if isinstance(command, str) and command else _strings(command)
    if not words:
        return None
    return {
        "type": "exec",
        "command": words,
        "env": arguments.get("env") or {},
        **_given(arguments, "timeout_ms", "working_directory", "user"),
    }


def _local_shell_arguments(action: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": action.get("command"),
        **{name: value for name, value in _given(action, "env", "timeout_ms", "working_directory").items() if value},
    }


def _shell(arguments: dict[str, Any]) -> dict[str, Any] | None:
    commands = arguments.get("commands")
    lines = [commands] if isinstance(commands, str) and commands else _strings(commands)
    return (
        {"commands": lines, "timeout_ms": None, "max_output_length": None, **_given(arguments, "timeout_ms", "max_output_length")}
        if lines
        else None
    )


def _shell_arguments(action: dict[str, Any]) -> dict[str, Any]:
    return {"commands": action.get("commands"), **_given(action, "timeout_ms", "max_output_length")}


_OPERATIONS = {"create_file": ("path", "diff"), "update_file": ("path", "diff"), "delete_file": ("path",)}


def _patch(arguments: dict[str, Any]) -> dict[str, Any] | None:
    fields = _OPERATIONS.get(str(arguments.get("type")), ())
    if not fields or not all(isinstance(arguments.get(name), str) for name in fields):
        return None
    return {"type": arguments["type"], **{name: arguments[name] for name in fields}}


def _patch_arguments(operation: dict[str, Any]) -> dict[str, Any]:
    return _given(operation, "type", "path", "diff")


def _schema(required: list[str], **properties: dict[str, Any]) -> str:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return msgspec.json.encode(schema).decode()


_WORDS = {"type": "array", "items": {"type": "string"}}
_MILLISECONDS = {"type": "integer", "description": "How long the command may run, in milliseconds."}

LOCAL_SHELL = NativeTool(
    name="local_shell",
    call_type="local_shell_call",
    field="action",
    description="Runs one command on the user's machine and returns what it prints.",
    parameters=_schema(
        ["command"],
        command={**_WORDS, "description": 'The program and its arguments, one string each, e.g. ["bash", "-lc", "ls"].'},
        working_directory={"type": "string", "description": "Where to run it."},
        timeout_ms=_MILLISECONDS,
        env={"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables to set."},
    ),
    action=_local_shell,
    arguments=_local_shell_arguments,
)
SHELL = NativeTool(
    name="shell",
    call_type="shell_call",
    field="action",
    description="Runs shell commands on the user's machine, each in a shell of its own, and returns what they print.",
    parameters=_schema(
        ["commands"],
        commands={**_WORDS, "description": "The command lines."},
        timeout_ms=_MILLISECONDS,
        max_output_length={"type": "integer", "description": "How many characters of output to return."},
    ),
    action=_shell,
    arguments=_shell_arguments,
)
APPLY_PATCH = NativeTool(
    name="apply_patch",
    call_type="apply_patch_call",
    field="operation",
    description="Creates, changes or deletes one file. The lines of a diff begin with ' ' (kept), '-' (removed) or '+' (added).",
    parameters=_schema(
        ["type", "path"],
        type={"type": "string", "enum": list(_OPERATIONS)},
        path={"type": "string", "description": "The file."},
        diff={"type": "string", "description": "What changes; for a new file every line begins with '+'. Not for delete_file."},
    ),
    action=_patch,
    arguments=_patch_arguments,
)

NATIVE: dict[str, NativeTool] = {tool.name: tool for tool in (LOCAL_SHELL, SHELL, APPLY_PATCH)}
"""By the type of the tool in a request."""

CALL_ITEMS: dict[str, NativeTool] = {tool.call_type: tool for tool in NATIVE.values()}
"""By the type of the item of a call."""
