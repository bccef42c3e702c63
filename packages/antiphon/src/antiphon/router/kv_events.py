"""The engines' KV events as plain data. Three wire forms are read: vLLM before and after June 2026 (events as arrays, as maps) and
SGLang (arrays, salt at index 7, where vLLM had the LoRA name, with the extra keys behind it). Source: measured vLLM 0.32 messages;
SGLang 0.5.23 source."""

from collections.abc import Sequence
from typing import Any

import msgspec

# Blocks in other places than the device are worth less to a prompt; what an engine calls its device differs.
DEVICE_MEDIUMS = frozenset({None, "GPU", "DEVICE", "NPU", "TPU", "XPU"})
_HASH_TYPES = frozenset({int, bytes})
HOST_MEDIUMS = frozenset({"CPU", "CPU_PINNED", "HOST"})


class BlockStored(msgspec.Struct, frozen=True):
    """Blocks that the engine can reuse now; hashes are the engine's own, integers or bytes. `token_ids` are theirs, concatenated.
    `salt`: the cache salt of the prompt that they begin; blocks further on have it through their parent. `foreign`: how many of them,
    at the end, are keyed by more than tokens and salt (an adapter, a picture), so that no prompt of ours matches them."""

    hashes: tuple[int | bytes, ...]
    parent: int | bytes | None
    token_ids: Sequence[int]
    block_tokens: int
    medium: str | None = None
    salt: str = ""
    foreign: int = 0
    full_attention: bool = True


class BlockRemoved(msgspec.Struct, frozen=True):
    """Blocks that are gone from a medium."""

    hashes: tuple[int | bytes, ...]
    medium: str | None = None


class AllCleared(msgspec.Struct, frozen=True):
    """Everything is gone."""


KvEvent = BlockStored | BlockRemoved | AllCleared


class EventBatch(msgspec.Struct, frozen=True):
    """One message. `unknown` counts events of a kind that is not known here. `at`: when the engine made it, in its own Unix seconds."""

    events: tuple[KvEvent, ...]
    rank: int
    unknown: int = 0
    at: float = 0.0


_ARRAY_STORED = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "scope", "extra_keys")
_ARRAY_REMOVED = ("block_hashes", "medium")


def read_batch(payload: bytes) -> EventBatch:
    """One message's payload. Raises ValueError for what is no batch of events at all."""
    try:
        batch = msgspec.msgpack.decode(payload)
    except msgspec.DecodeError as error:
        raise ValueError(f"not msgpack: {error}") from None
    if isinstance(batch, dict):
        at, events, rank = batch.get("ts"), batch.get("events"), batch.get("data_parallel_rank", batch.get("attn_dp_rank"))
    elif isinstance(batch, list) and len(batch) >= 2:
        at, events, rank = batch[0], batch[1], batch[2] if len(batch) > 2 else None
    else:
        at, events, rank = None, None, None
    if not isinstance(events, list):
        raise ValueError("no list of events")
    found = [_event(event) for event in events]
    known = tuple(event for event in found if event is not None)
    when = float(at) if isinstance(at, float | int) else 0.0
    return EventBatch(known, rank if isinstance(rank, int) else 0, len(found) - len(known), when)


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
    if not isinstance(hashes, list) or not _HASH_TYPES.issuperset(map(type, hashes)):
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
    salt, foreign = _keys(fields, len(hashes))
    kind = fields.get("kv_cache_spec_kind")
    return BlockStored(
        hashes,
        parent if isinstance(parent, int | bytes) else None,
        tokens,
        size,
        medium,
        salt=salt,
        foreign=foreign,
        full_attention=kind in (None, "full_attention"),
    )


def _keys(fields: dict[str, Any], blocks: int) -> tuple[str, int]:
    """What the blocks are keyed by beside their tokens: the salt, and how many at the end are keyed by something else."""
    extra, scope = fields.get("extra_keys"), fields.get("cache_salt") or fields.get("scope")
    salt = scope if isinstance(scope, str) else ""
    if fields.get("lora_name") or fields.get("lora_id") is not None or (scope and not salt):
        return "", blocks
    if not extra:
        return salt, 0
    if not isinstance(extra, list):
        return salt, blocks
    if extra[0] and fields.get("parent_block_hash") is None:
        # The first block of a salted prompt is keyed by the salt alone; anything beside it is a picture or an adapter.
        keys = extra[0]
        if not isinstance(keys, list) or len(keys) != 1 or not isinstance(keys[0], str):
            return "", blocks
        salt, extra = keys[0], extra[1:]
        usable = 1 + next((place for place, key in enumerate(extra) if key), len(extra))
    else:
        usable = next((place for place, key in enumerate(extra) if key), len(extra))
    return salt, max(blocks - usable, 0) if usable < len(fields["extra_keys"]) else 0
