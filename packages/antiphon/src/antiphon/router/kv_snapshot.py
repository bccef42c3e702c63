"""What a frontend knows of the engines' caches, packed for a sibling that starts: about 21 bytes a block, 13 where the engine's hashes are
ours. With it come the marks from which the sibling goes on by itself."""

from array import array
from collections.abc import Iterable

import msgspec

from antiphon.router.feed import FeedMark
from antiphon.router.feed_blocks import TIERS, EngineHash, FeedBlocks

_MAGIC = b"antiphon-kv-1\n"
_NONE = 0xFFFFFFFF


class SourceSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One publisher. Blocks are columns: `ours` 64-bit hashes, `before` the row of the block before each, `tiers` a bit for each tier that
    holds it. `engine`: the engine's hashes, empty where they are ours; integers as 64 bits, else as they are."""

    target: str
    incarnation: str
    block_tokens: int
    mark: FeedMark
    is_stale: bool
    ours: bytes
    before: bytes
    tiers: bytes
    engine: bytes | tuple[EngineHash, ...] = b""
    signed: bool = False


def pack(sources: Iterable[SourceSnapshot]) -> bytes:
    """The body of a snapshot."""
    return _MAGIC + msgspec.msgpack.encode(list(sources))


def unpack(body: bytes) -> list[SourceSnapshot]:
    """Raises ValueError for what is no snapshot."""
    if not body.startswith(_MAGIC):
        raise ValueError("this is no snapshot of a KV index")
    try:
        return msgspec.msgpack.decode(memoryview(body)[len(_MAGIC) :], type=list[SourceSnapshot])
    except msgspec.MsgspecError as error:
        raise ValueError(f"a damaged snapshot: {error}") from None


def take(blocks: FeedBlocks, *, target: str, incarnation: str, mark: FeedMark, is_stale: bool) -> SourceSnapshot:
    """The snapshot of one source, whose block size is known."""
    engine = list(blocks.known)
    rows = {name: row for row, name in enumerate(engine)}
    ours = [found[0] for found in blocks.known.values()]
    before = [_NONE if found[1] is None else rows.get(found[1], _NONE) for found in blocks.known.values()]
    held = [(1 << tier, blocks.held[tier]) for tier in TIERS if blocks.held[tier]]
    tiers = bytes(sum(bit for bit, there in held if block in there) for block in ours)
    signed, packed = _pack_engine(engine, ours)
    return SourceSnapshot(
        target=target,
        incarnation=incarnation,
        block_tokens=blocks.block_tokens or 0,
        mark=mark,
        is_stale=is_stale,
        ours=array("Q", ours).tobytes(),
        before=array("I", before).tobytes(),
        tiers=tiers,
        engine=packed,
        signed=signed,
    )


def load(snapshot: SourceSnapshot, blocks: FeedBlocks) -> None:
    """Puts the blocks of a snapshot into a feed's. Raises ValueError when its columns do not fit together."""
    ours, before = array("Q", snapshot.ours), array("I", snapshot.before)
    engine = _unpack_engine(snapshot, ours)
    if not len(ours) == len(before) == len(snapshot.tiers) == len(engine) or any(len(ours) <= row < _NONE for row in before):
        raise ValueError(f"a damaged snapshot of {snapshot.target}")
    known = zip(engine, ours, (None if row == _NONE else engine[row] for row in before), strict=True)
    held = [[block for block, bits in zip(ours, snapshot.tiers, strict=True) if bits >> tier & 1] for tier in TIERS]
    blocks.block_tokens = snapshot.block_tokens or None
    blocks.load(known, held)


def _pack_engine(engine: list[EngineHash], ours: list[int]) -> tuple[bool, bytes | tuple[EngineHash, ...]]:
    if engine == ours:
        return False, b""
    numbers = [name for name in engine if isinstance(name, int)]
    if len(numbers) < len(engine):
        return False, tuple(engine)
    signed = any(number < 0 for number in numbers)
    try:
        return signed, array("q" if signed else "Q", numbers).tobytes()
    except OverflowError:
        return False, tuple(engine)


def _unpack_engine(snapshot: SourceSnapshot, ours: "array[int]") -> list[EngineHash]:
    if not isinstance(snapshot.engine, bytes):
        return list(snapshot.engine)
    return list(array("q" if snapshot.signed else "Q", snapshot.engine)) if snapshot.engine else list(ours)
