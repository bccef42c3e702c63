"""A cache's events as engines publish them. Sources: measured vLLM 0.32 messages (events as maps), vLLM before June 2026
(events as arrays), SGLang 0.5.23 source (arrays, salt at index 7). `router/kv_events.py` reads all three."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from antiphon.simulation.cache_events import CacheEvent, Removed, Stored

WireForm = Literal["maps", "arrays", "sglang"]
MEDIUM = "GPU"

_encode = msgspec.msgpack.Encoder().encode


def encode_batch(events: Sequence[CacheEvent], *, block_tokens: int, at: float, rank: int = 0, form: WireForm = "maps") -> bytes:
    """One message's payload: [`at` in Unix seconds, events, data-parallel rank]."""
    shape = _as_map if form == "maps" else _as_array
    return _encode([at, [shape(event, block_tokens, form) for event in events], rank])


def _as_map(event: CacheEvent, block_tokens: int, _form: WireForm) -> dict[str, Any]:
    if isinstance(event, Stored):
        return {
            "type": "BlockStored",
            "block_hashes": event.hashes,
            "parent_block_hash": event.parent,
            "token_ids": event.token_ids,
            "block_size": block_tokens,
            "lora_id": None,
            "medium": MEDIUM,
            "lora_name": None,
            "extra_keys": _extra_keys(event),
            "group_idx": 0,
            "kv_cache_spec_kind": "full_attention",
        }
    if isinstance(event, Removed):
        return {"type": "BlockRemoved", "block_hashes": event.hashes, "medium": MEDIUM, "group_idx": 0}
    return {"type": "AllBlocksCleared"}


def _as_array(event: CacheEvent, block_tokens: int, form: WireForm) -> list[Any]:
    if isinstance(event, Stored):
        fields: list[Any] = ["BlockStored", event.hashes, event.parent, event.token_ids, block_tokens, None, MEDIUM]
        if form == "sglang":
            return [*fields, event.salt] if event.salt else fields
        return [*fields, None, _extra_keys(event)]
    return ["BlockRemoved", event.hashes, MEDIUM] if isinstance(event, Removed) else ["AllBlocksCleared"]


def _extra_keys(event: Stored) -> list[tuple[str] | None]:
    """The salt is a key of the first block of a prompt; the others have it through their parent's hash."""
    first = (event.salt,) if event.salt and event.parent is None else None
    return [first, *[None] * (len(event.hashes) - 1)]
