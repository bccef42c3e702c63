"""Ids of items. To us they are labels: made for clients that page or refer by them, never looked up to understand an item."""

import msgspec

from antiphon_protocols.body import decode_part, invalid

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_NOTHING = (b"null", b'""')
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
    fields = {
        name: raw for name, raw in decode_part(_FIELDS, item, path).items() if name not in ("id", "type") or bytes(raw) not in _NOTHING
    }
    if "id" in fields and "type" in fields:
        return item
    if "type" in fields:
        kind = decode_part(_TEXT, fields["type"], f"{path}.type")
    elif "role" in fields:
        kind = "message"
    elif "id" in fields:
        kind = "item_reference"
    else:
        raise invalid(f"{path}.type", "Field required")
    head = {"type": kind, "id": fields.get("id", item_id(kind, label))}
    return msgspec.Raw(msgspec.json.encode({**head, **{name: raw for name, raw in fields.items() if name not in head}}))
