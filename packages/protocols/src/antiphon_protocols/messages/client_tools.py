"""The vendor's typed tools that the client itself runs: bash, text editor, memory and computer. They come without a schema, because
the vendor's models know it; the models served here are told. Parameters: the vendor's tool reference; wording: our own."""

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon_protocols.messages.wire import WireTool
from antiphon_turns.request import Tool

_PLACE = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}


def client_tool(tool: WireTool, name: str) -> Tool | None:
    """The tool as a function, None if it is not one that clients run."""
    kind, _, version = (tool.type or "").rpartition("_")
    build = {"bash": _bash, "text_editor": _text_editor, "memory": _memory, "computer": _computer}.get(kind)
    if build is None or not version.isdecimal():
        return None
    description, properties, required = build(tool, version)
    schema = {"type": "object", "properties": properties, "required": required}
    return Tool(
        name=name,
        description=tool.description or description,
        parameters=msgspec.json.encode(schema).decode(),
        deferred=bool(tool.defer_loading),
    )


_Form = tuple[str, Mapping[str, Any], list[str]]


def _bash(tool: WireTool, version: str) -> _Form:
    return (
        "Runs a command in a bash session that lives on between calls, and returns its output.",
        {
            "command": _text("The command line to run. Not needed with restart."),
            "restart": {"type": "boolean", "description": "true starts the session anew."},
        },
        [],
    )


def _text_editor(tool: WireTool, version: str) -> _Form:
    commands = ["view", "create", "str_replace", "insert"]
    old = version < "20250429"
    inserted = "new_str" if old else "insert_text"
    properties = _file_properties([*commands, "undo_edit"] if old else commands)
    if not old:
        properties["insert_text"] = _text("Text to insert, for insert.")
    properties["new_str"] = _text(
        "Text to put in place of old_str, for str_replace" + (", or to insert, for insert." if inserted == "new_str" else ".")
    )
    return "Shows, creates and edits text files.", properties, ["command", "path"]


def _memory(tool: WireTool, version: str) -> _Form:
    properties = _file_properties(["view", "create", "str_replace", "insert", "delete", "rename"])
    properties |= {
        "new_str": _text("Text to put in place of old_str, for str_replace."),
        "insert_text": _text("Text to insert, for insert."),
        "old_path": _text("Present path, for rename."),
        "new_path": _text("New path, for rename."),
    }
    return "Reads and writes the files under /memories, which are kept from one conversation to the next.", properties, ["command"]


def _file_properties(commands: list[str]) -> dict[str, Any]:
    return {
        "command": {"type": "string", "enum": commands, "description": "What to do."},
        "path": _text("Absolute path of the file or folder."),
        "view_range": {**_PLACE, "description": "First and last line to show, counted from 1; -1 as the last means to the end. For view."},
        "file_text": _text("Whole content of the new file, for create."),
        "old_str": _text("Text to replace; it must stand in the file exactly once. For str_replace."),
        "insert_line": {"type": "integer", "description": "Line behind which to insert, 0 for the beginning. For insert."},
    }


_ACTIONS = ["key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click"]
_ACTIONS += ["screenshot", "cursor_position"]
_LATER_ACTIONS = ["left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click"]


def _computer(tool: WireTool, version: str) -> _Form:
    later = version >= "20250124"
    zoom = version >= "20251124"
    actions = [*_ACTIONS, *(_LATER_ACTIONS if later else []), *(["zoom"] if zoom else [])]
    properties: dict[str, Any] = {
        "action": {"type": "string", "enum": actions, "description": "What to do."},
        "coordinate": {**_PLACE, "description": "x and y in pixels, where the mouse goes."},
        "text": _text("Text to type, or keys to press as in ctrl+s."),
    }
    if later:
        properties |= {
            "start_coordinate": {**_PLACE, "description": "Where a drag begins."},
            "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
            "scroll_amount": {"type": "integer", "description": "Wheel clicks to scroll."},
            "duration": {"type": "number", "description": "Seconds, for hold_key and wait."},
        }
    if zoom:
        corners = {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4}
        properties["region"] = {**corners, "description": "Left, top, right and bottom of the part to enlarge, for zoom."}
    size = f" The screen is {tool.display_width_px} by {tool.display_height_px} pixels." if tool.display_width_px else ""
    return f"Controls mouse and keyboard of a computer and takes screenshots.{size}", properties, ["action"]


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}
