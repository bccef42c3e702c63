"""An index packed for a sibling."""

import random
import struct

import msgspec
import pytest

from antiphon.router import kv_snapshot
from antiphon.router.feed import FeedMark
from antiphon.router.feed_blocks import DEVICE, HOST, EngineHash, FeedBlocks
from antiphon.router.hashing import extend, root_of
from antiphon.router.kv_events import BlockStored, EventBatch

BLOCK = 4
TOKENS = list(range(40))
OURS = extend(TOKENS, root_of(""), BLOCK)


def blocks_named(names: list[EngineHash]) -> FeedBlocks:
    blocks = FeedBlocks(BLOCK)
    blocks.apply(EventBatch((BlockStored(tuple(names), None, TOKENS, BLOCK),), 0))
    blocks.apply(EventBatch((BlockStored(tuple(names[:3]), None, TOKENS[:12], BLOCK, "CPU"),), 0))
    return blocks


def taken(blocks: FeedBlocks) -> kv_snapshot.SourceSnapshot:
    return kv_snapshot.take(blocks, target="w/1", incarnation="abc", mark=FeedMark(7, 1.5), is_stale=False)


@pytest.mark.parametrize(
    "names",
    [OURS, list(range(10)), list(range(-5, 5)), [bytes([n]) * 32 for n in range(10)], [2**64 - 1, *range(-9, 0)]],
    ids=["ours", "numbers", "signed", "bytes", "mixed signs"],
)
def test_a_snapshot_comes_back_whole(names: list[EngineHash]) -> None:
    before = blocks_named(names)
    (found,) = kv_snapshot.unpack(kv_snapshot.pack([taken(before)]))
    assert (found.target, found.incarnation, found.mark) == ("w/1", "abc", FeedMark(7, 1.5))
    after = FeedBlocks(None)
    kv_snapshot.load(found, after)
    assert after.known == before.known and after.held == before.held and after.block_tokens == BLOCK
    assert len(after.held[DEVICE]) == 10 and len(after.held[HOST]) == 3


def test_a_loaded_snapshot_is_news_for_the_index() -> None:
    after = FeedBlocks(None)
    kv_snapshot.load(taken(blocks_named(list(range(10)))), after)
    device, host, _ = after.take_changes()
    assert device.cleared and set(device.stored) == set(OURS) and set(host.stored) == set(OURS[:3])


def test_200_000_blocks_are_about_4_megabytes() -> None:
    dice = random.Random(1)
    blocks = FeedBlocks(BLOCK)
    names = [dice.getrandbits(64) for _ in range(200_000)]
    blocks.load(((name, dice.getrandbits(64), before) for name, before in zip(names, [None, *names], strict=False)), [names, [], []])
    assert len(kv_snapshot.pack([taken(blocks)])) < 22 * len(names)


def test_what_is_damaged_is_refused() -> None:
    whole = taken(blocks_named(list(range(10))))
    with pytest.raises(ValueError, match="no snapshot"):
        kv_snapshot.unpack(b"nothing")
    with pytest.raises(ValueError, match="damaged"):
        kv_snapshot.unpack(kv_snapshot.pack([whole])[:-9])
    for change in (
        {"tiers": b""},
        {"ours": whole.ours[8:]},
        {"ours": whole.ours[1:]},
        {"engine": b"12345678"},
        {"before": struct.pack("<10I", *[77] * 10)},
    ):
        with pytest.raises(ValueError, match=r"damaged|length"):
            kv_snapshot.load(msgspec.structs.replace(whole, **change), FeedBlocks(None))
