"""The frontend's end of the pipe: news in slices, none lost, the event loop never held for long."""

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.router.feed_blocks import Change
from antiphon.router.kv_blocks import TargetBlocks
from antiphon.router.kv_pipe import RECORD_HASHES, Frames, Record, Report, Warned, changes_frames, message_frame
from antiphon.router.kv_process import Inbox


def changes(*sizes: int) -> list[tuple[int, Change]]:
    dice = random.Random(3)
    return [(1, Change(0, False, [dice.getrandbits(64) for _ in range(size)], [])) for size in sizes]


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(1, 300), max_size=6), cleared=st.booleans())
def test_frames_come_whole_however_they_are_cut(*, cuts: list[int], cleared: bool) -> None:
    change = Change(2, cleared, [1, 2**64 - 1], [7])
    data = message_frame(Warned("one")) + b"".join(changes_frames([(5, change)])) + message_frame(Warned("two"))
    frames, found, place = Frames(), list[Record | Report](), 0
    for cut in [*cuts, len(data)]:
        frames.push(data[place : place + cut])
        place += cut
        found += frames.reports()
    records = [Record(5, 2, "clear", [])] if cleared else []
    assert found == [Warned("one"), *records, Record(5, 2, "store", [1, 2**64 - 1]), Record(5, 2, "remove", [7]), Warned("two")]
    assert frames.waiting_bytes == 0


def test_a_turn_of_the_loop_gives_the_index_one_slice() -> None:
    """The clock moves only while records are applied, so what a slice takes is what its records take."""

    async def run() -> None:
        now, slices, applied, turns = [0.0], list[float](), TargetBlocks(), [0]

        def apply(report: Record | Report) -> None:
            assert isinstance(report, Record) and len(report.hashes) <= RECORD_HASHES
            now[0] += 0.0003
            applied.apply(report)

        def after_slice() -> None:
            slices.append(now[0] - sum(slices))

        async def others() -> None:
            while len(applied) < 100_000:
                turns[0] += 1
                await asyncio.sleep(0)

        inbox = Inbox(apply, lambda: None, after_slice=after_slice, slice_seconds=0.001, clock=lambda: now[0])
        inbox.data_received(b"".join(changes_frames(changes(100_000))))
        await others()
        assert len(slices) == 25 and max(slices) <= 0.0013
        # Everything else on the loop had its turn between any two slices.
        assert turns[0] >= len(slices) - 1

    asyncio.run(run())


def test_news_that_come_between_slices_keep_their_order() -> None:
    async def run() -> None:
        seen = list[int]()
        now = [0.0]

        def apply(report: Record | Report) -> None:
            now[0] += 1
            assert isinstance(report, Record)
            seen.append(report.source)

        inbox = Inbox(apply, lambda: None, after_slice=lambda: None, slice_seconds=0.5, clock=lambda: now[0])
        for source in range(20):
            inbox.data_received(b"".join(changes_frames([(source, Change(0, False, [source], []))])))
        while len(seen) < 20:
            await asyncio.sleep(0)
        assert seen == list(range(20))

    asyncio.run(run())
