"""Ids of items. To us they are labels: made for clients that page or refer by them, never looked up to understand an item."""

import msgspec

from antiphon_protocols.body import decode_part, invalid
from antiphon_protocols.responses import wire

_HEAD = msgspec.json.Decoder(wire.ItemHead)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "local_shell_call": "lsh",
    "shell_call": "sh",
    "apply_patch_call": "apc",
    "tool_search_call": "ts",
    "tool_search_output": "tso",
    "compaction": "cmp",
}


def item_id(kind: str, label: str) -> str:
    """The id of an item of ours: the vendor's prefix for its kind, and what makes it unique."""
    return f"{_PREFIXES.get(kind, 'item')}_{label}"


def labelled(item: msgspec.Raw, path: str, label: str) -> msgspec.Raw:
    """The item with an id and a type, the rest as it came. Raises InvalidRequest for what is no item."""
    head = decode_part(_HEAD, item, path)
    if head.id and head.type:
        return item
    if head.type:
        kind = head.type
    elif head.role is not None:
        kind = "message"
    elif head.id:
        kind = "item_reference"
    else:
        raise invalid(f"{path}.type", "Field required")
    named = {"type": kind, "id": head.id or item_id(kind, label)}
    rest = {name: raw for name, raw in decode_part(_FIELDS, item, path).items() if name not in named}
    return msgspec.Raw(msgspec.json.encode({**named, **rest}))
