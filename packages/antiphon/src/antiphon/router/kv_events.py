"""The engines' KV events as plain data. Three wire forms are read: vLLM before and after June 2026 (events as arrays, as maps) and
SGLang (arrays, salt at index 7, where vLLM had the LoRA name, with the extra keys behind it). Source: measured vLLM 0.32 messages;
SGLang 0.5.23 source."""

from collections.abc import Sequence
from typing import Any

import msgspec

# Blocks in other places than the device are worth less to a prompt; what an engine calls its device differs.
DEVICE_MEDIUMS = frozenset({None, "GPU", "DEVICE", "NPU", "TPU", "XPU"})
HOST_MEDIUMS = frozenset({"CPU", "CPU_PINNED", "HOST"})


class BlockStored(msgspec.Struct, frozen=True):
    """Blocks that the engine can reuse now; hashes are the engine's own, integers or bytes. `token_ids` are theirs, concatenated."""

    hashes: tuple[int | bytes, ...]
    parent: int | bytes | None
    token_ids: Sequence[int]
    block_tokens: int
    medium: str | None = None
    salted: bool = False
    full_attention: bool = True


class BlockRemoved(msgspec.Struct, frozen=True):
    """Blocks that are gone from a medium."""

    hashes: tuple[int | bytes, ...]
    medium: str | None = None


class AllCleared(msgspec.Struct, frozen=True):
    """Everything is gone."""


KvEvent = BlockStored | BlockRemoved | AllCleared


class EventBatch(msgspec.Struct, frozen=True):
    """One message. `unknown` counts events of a kind that is not known here."""

    events: tuple[KvEvent, ...]
    rank: int
    unknown: int = 0


_ARRAY_STORED = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "scope", "extra_keys")
_ARRAY_REMOVED = ("block_hashes", "medium")


def read_batch(payload: bytes) -> EventBatch:
    """One message's payload. Raises ValueError for what is no batch of events at all."""
    try:
        batch = msgspec.msgpack.decode(payload)
    except msgspec.DecodeError as error:
        raise ValueError(f"not msgpack: {error}") from None
    if isinstance(batch, dict):
        events, rank = batch.get("events"), batch.get("data_parallel_rank", batch.get("attn_dp_rank"))
    elif isinstance(batch, list) and len(batch) >= 2:
        events, rank = batch[1], batch[2] if len(batch) > 2 else None
    else:
        events, rank = None, None
    if not isinstance(events, list):
        raise ValueError("no list of events")
    found = [_event(event) for event in events]
    known = tuple(event for event in found if event is not None)
    return EventBatch(known, rank if isinstance(rank, int) else 0, len(found) - len(known))


def _event(raw: Any) -> KvEvent | None:
    if isinstance(raw, dict):
        kind, fields = raw.get("type"), raw
    elif isinstance(raw, list) and raw and isinstance(raw[0], str):
        kind = raw[0]
        names = _ARRAY_STORED if kind == "BlockStored" else _ARRAY_REMOVED
        fields = dict(zip(names, raw[1:], strict=False))
    else:
        return None
    if kind == "AllBlocksCleared":
        return AllCleared()
    hashes = fields.get("block_hashes")
    if not isinstance(hashes, list) or not all(isinstance(block, int | bytes) for block in hashes):
        return None
    medium = fields.get("medium")
    medium = medium if isinstance(medium, str) else None
    if kind == "BlockRemoved":
        return BlockRemoved(tuple(hashes), medium)
    return _stored(tuple(hashes), fields, medium) if kind == "BlockStored" else None


def _stored(hashes: tuple[int | bytes, ...], fields: dict[str, Any], medium: str | None) -> BlockStored | None:
    tokens, size, parent = fields.get("token_ids"), fields.get("block_size"), fields.get("parent_block_hash")
    if not isinstance(tokens, list) or not isinstance(size, int) or size <= 0 or len(tokens) < size * len(hashes):
        return None
    extra = fields.get("extra_keys")
    salted = any(fields.get(name) for name in ("scope", "lora_name", "cache_salt")) or (
        any(extra) if isinstance(extra, list) else bool(extra)
    )
    kind = fields.get("kv_cache_spec_kind")
    return BlockStored(
        hashes,
        parent if isinstance(parent, int | bytes) else None,
        tokens,
        size,
        medium,
        salted=salted,
        full_attention=kind in (None, "full_attention"),
    )
