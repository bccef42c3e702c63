"""What a request says beside its conversation: context management and the format of the answer."""

from typing import Any

from antiphon_protocols import body as wire_body
from antiphon_protocols.body import invalid, object_schema, refuse
from antiphon_protocols.messages import wire
from antiphon_turns.request import OutputFormat, ReplayWish

_DEFAULT_TURNS = 1


def read_replay(management: wire.ContextManagement | None) -> tuple[ReplayWish, tuple[str, ...]]:
    """How much past thinking to keep, and the names of edits that are accepted and not made."""
    wish = ReplayWish()
    ignored: list[str] = []
    for index, edit in enumerate((management and management.edits) or ()):
        if edit.type.startswith("clear_thinking_"):
            wish = ReplayWish(turns=_kept(edit.keep, f"context_management.edits.{index}.keep"))
        else:
            ignored.append(f"context_management.{edit.type}")
    return wish, wire_body.safe_names(ignored)


def _kept(keep: Any, path: str) -> Any:
    if keep is None:
        return _DEFAULT_TURNS
    if keep == "all" or (isinstance(keep, dict) and keep.get("type") == "all"):
        return "all"
    if isinstance(keep, dict) and keep.get("type") == "thinking_turns":
        value = keep.get("value")
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        raise invalid(f"{path}.value", "must be a whole number greater than 0")
    raise invalid(path, "must be 'all' or an object of type 'all' or 'thinking_turns'")


def read_output(request: wire.WireRequest) -> OutputFormat | None:
    """The form the visible text must have. `output_format` is the older place of `output_config.format`."""
    for path, wanted in (
        ("output_config.format", request.output_config.format if request.output_config else None),
        ("output_format", request.output_format),
    ):
        if wanted is None:
            continue
        if wanted.type != "json_schema":
            raise refuse(f"{path}.type", f"{wanted.type[:80]!r} is not supported, only 'json_schema' is")
        schema = object_schema(wanted.schema, f"{path}.schema")
        if schema is None:
            raise invalid(f"{path}.schema", "Field required")
        return OutputFormat(schema=schema)
    return None
