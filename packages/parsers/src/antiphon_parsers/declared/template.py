"""A `response_template` as data. Source of the format: "Response Parsing" in the documentation of transformers 5.

::

    {"version": 1, "defaults": {...}, "start_anchor": ..., "fields": {NAME: FIELD}}
    FIELD = {"open" | "open_pattern", "close" | "close_pattern", "content", "content_args", "transform", ...}

Reading refuses what the format does not know and what a turn of ours has no place for, each by name.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon_turns.errors import ConfigError

TEXT_FIELDS = ("content",)
REASONING_FIELDS = ("thinking", "reasoning_content", "reasoning")
CALL_FIELDS = ("tool_calls",)
_TEMPLATE_KEYS = frozenset(("version", "defaults", "start_anchor", "start_anchor_pattern", "fields"))


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One region of the output, as declared. Strings of patterns are regular expressions. `repeats`, `join` and `optional` say
    how a message is put together; a turn keeps its segments in order whatever they say."""

    open: str | tuple[str, ...] = ()
    open_pattern: str = ""
    close: str | tuple[str, ...] = ()
    close_pattern: str = ""
    content: str = "text"
    content_args: dict[str, Any] = {}
    transform: Any = None
    transform_each: bool = False
    repeats: bool = False
    join: str | None = None
    optional: bool = True

    @property
    def openers(self) -> tuple[str, ...]:
        """The literal opening markers."""
        return (self.open,) if isinstance(self.open, str) else self.open

    @property
    def closers(self) -> tuple[str, ...]:
        """The literal closing markers."""
        return (self.close,) if isinstance(self.close, str) else self.close

    @property
    def is_implicit(self) -> bool:
        """Whether it takes what no other region takes."""
        return not self.openers and not self.open_pattern


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A declaration whose fields are known by what they hold. `anchors` are what a turn begins behind; `reasoning_name` is the
    declared name."""

    anchors: tuple[str, ...]
    text: Field | None
    reasoning: Field | None
    reasoning_name: str
    calls: Field | None


def refuse(where: str, why: str) -> ConfigError:
    """The error for a declaration that is not read."""
    return ConfigError(f"response_template: {where}: {why}; name a parser by hand with --tool-call-parser and --reasoning-parser")


def read_template(declaration: Mapping[str, Any]) -> Template:
    """The declaration as data. Raises ConfigError that names what is refused, and why."""
    unknown = sorted(set(declaration) - _TEMPLATE_KEYS)
    if unknown:
        raise refuse(", ".join(unknown), "the format has no such key")
    if declaration.get("version", 1) != 1:
        raise refuse("version", f"{declaration['version']} is not known, only 1 is")
    _check_defaults(declaration.get("defaults", {}))
    fields = declaration.get("fields")
    if not isinstance(fields, dict) or not fields:
        raise refuse("fields", "there are none")
    read = {name: _read_field(name, field) for name, field in fields.items()}
    implicit = [name for name, field in read.items() if field.is_implicit and name not in TEXT_FIELDS]
    if implicit:
        raise refuse(", ".join(implicit), "only the text may have no opening marker")
    _, text = _only(read, TEXT_FIELDS)
    reasoning_name, reasoning = _only(read, REASONING_FIELDS)
    _, calls = _only(read, CALL_FIELDS)
    return Template(anchors=_anchors(declaration), text=text, reasoning=reasoning, reasoning_name=reasoning_name, calls=calls)


def _read_field(name: str, raw: object) -> Field:
    if name not in (*TEXT_FIELDS, *REASONING_FIELDS, *CALL_FIELDS):
        raise refuse(name, "a turn holds text, reasoning and calls, and no other kind of region")
    try:
        field = msgspec.convert(raw, Field)
    except msgspec.ValidationError as error:
        raise refuse(name, str(error)) from error
    for literal, pattern, what in ((field.openers, field.open_pattern, "open"), (field.closers, field.close_pattern, "close")):
        if literal and pattern:
            raise refuse(name, f"both {what} and {what}_pattern are given")
        if any(len(marker.strip()) < 2 for marker in literal):
            raise refuse(name, f"{what} must be a marker of two characters or more, or prose cannot be told from it")
    if name not in CALL_FIELDS and field.content != "text":
        raise refuse(name, f"content {field.content!r} is not text")
    return field


def _only(fields: Mapping[str, Field], names: tuple[str, ...]) -> tuple[str, Field | None]:
    found = [name for name in names if name in fields]
    if len(found) > 1:
        raise refuse(" and ".join(found), "both are the same kind of region")
    return (found[0], fields[found[0]]) if found else ("", None)


def _check_defaults(defaults: object) -> None:
    filled = sorted(key for key, value in defaults.items() if value and key != "role") if isinstance(defaults, dict) else ["defaults"]
    if filled:
        raise refuse("defaults", f"{', '.join(filled)}: a turn holds only what the model wrote")


def _anchors(declaration: Mapping[str, Any]) -> tuple[str, ...]:
    anchor = declaration.get("start_anchor")
    if "start_anchor_pattern" in declaration:
        raise refuse("start_anchor_pattern", "where a turn begins must be a literal, to be found in a rendered prompt")
    anchors = [anchor] if isinstance(anchor, str) else anchor
    if not isinstance(anchors, list) or not anchors or not all(isinstance(item, str) and item.strip() for item in anchors):
        raise refuse("start_anchor", "it must be a string or a list of strings")
    return tuple(anchors)
