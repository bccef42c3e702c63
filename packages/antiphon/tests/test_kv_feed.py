"""One publisher's events in order, without sockets: gaps, replays, restarts, and names made ours."""

from typing import Any

import msgspec
import pytest

from antiphon.router.feed import FeedMark, FeedState, WorkerFeed
from antiphon.router.feed_blocks import DEVICE, DISK, HOST, FeedBlocks
from antiphon.router.hashing import extend, root_of
from antiphon.router.kv_events import EventBatch, read_batch

BLOCK = 4


def ids(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


def chain(tokens: list[int], salt: str = "") -> list[int]:
    return extend(tokens, root_of(salt), BLOCK)


def stored(first: int, tokens: list[int], parent: int | None = None, *, size: int = BLOCK, medium: str = "GPU") -> list[Any]:
    return ["BlockStored", [first + n for n in range(len(tokens) // size)], parent, tokens, size, None, medium]


def batch_of(*events: Any, at: float = 0.0) -> EventBatch:
    return read_batch(msgspec.msgpack.encode([at, list(events)]))


class Engine:
    """The messages an engine has made, one a block of one long prompt; and a feed that follows it."""

    def __init__(self, *, replays: bool = True, size: int | None = BLOCK, keeps: int = 10_000) -> None:
        self.said: list[str] = []
        self.feed = WorkerFeed("w", block_tokens=size, replays=replays, warn=self.said.append)
        self.keeps = keeps
        self.start(at=100.0)

    def start(self, *, at: float, tokens_from: int = 0) -> None:
        self.messages: list[EventBatch] = []
        self.began = at
        self.tokens_from = tokens_from

    def make(self, count: int = 1) -> None:
        for _ in range(count):
            n = len(self.messages)
            event = stored(100 + n, ids(4, start=self.tokens_from + 4 * n), parent=99 + n if n else None)
            self.messages.append(batch_of(event, at=self.began + n))

    def live(self, *numbers: int) -> None:
        for number in numbers:
            assert self.feed.wanted is None
            self.feed.receive(number, self.messages[number])

    def answer(self, *drops: int) -> list[int]:
        """Answers replays until none is wanted; what was asked for. The first answer loses the first of `drops`, and so on."""
        asked: list[int] = []
        while (start := self.feed.wanted) is not None:
            dropped = drops[len(asked)] if len(asked) < len(drops) else None
            asked.append(start)
            for number in range(max(start, len(self.messages) - self.keeps), len(self.messages)):
                if number != dropped:
                    self.feed.replayed(number, self.messages[number])
            self.feed.replay_ended()
        return asked

    def state(self) -> FeedState:
        return self.feed.state

    @property
    def depth(self) -> int:
        held = self.feed.blocks.held[DEVICE]
        hashes = chain(ids(400, start=self.tokens_from))
        return next(n for n, block in enumerate(hashes) if block not in held)


def test_engine_hashes_become_ours() -> None:
    engine = Engine()
    assert engine.state() == "silent"
    engine.make(3)
    engine.live(0, 1, 2)
    assert engine.depth == 3 and engine.state() == "fresh"
    engine.feed.receive(3, batch_of(["BlockRemoved", [102], "GPU"]))
    assert engine.depth == 2
    engine.feed.receive(4, batch_of(["AllBlocksCleared"]))
    assert engine.depth == 0 and engine.state() == "fresh"


def test_a_new_feed_asks_for_everything() -> None:
    engine = Engine()
    engine.make(5)
    engine.feed.audit()
    assert engine.answer() == [0]
    assert engine.depth == 5 and engine.state() == "fresh" and engine.feed.gaps == 0


def test_a_gap_is_replayed_from_the_last_known_message_on() -> None:
    engine = Engine()
    engine.make(6)
    engine.live(0, 1, 4)
    assert engine.state() == "gap" and engine.depth == 2
    assert engine.answer() == [1]
    assert engine.depth == 6 and engine.state() == "fresh" and engine.feed.gaps == 1 and engine.feed.lost == 0
    # What came live meanwhile was in the replay.
    engine.live(5)
    assert engine.depth == 6 and engine.feed.restarts == 0


def test_a_gap_at_the_end_shows_in_an_audit() -> None:
    engine = Engine()
    engine.make(6)
    engine.live(0, 1)
    engine.feed.audit()
    assert engine.answer() == [1]
    assert engine.depth == 6 and not engine.said


def test_a_replay_that_loses_messages_in_its_middle_is_asked_for_again() -> None:
    engine = Engine()
    engine.make(9)
    engine.live(0, 8)
    assert engine.answer(3, 6) == [0, 2, 5]
    assert engine.depth == 9 and engine.state() == "fresh"


def test_a_replay_that_never_gets_on_is_given_up() -> None:
    engine = Engine()
    engine.make(4)
    engine.live(0, 3)
    for _ in range(3):
        assert engine.feed.wanted == 0
        engine.feed.replayed(0, engine.messages[0])
        engine.feed.replayed(2, engine.messages[2])
        engine.feed.replay_ended()
    assert engine.feed.wanted is None and engine.state() == "stale"


@pytest.mark.parametrize("trouble", ["no replay socket", "no answer", "ring too short"])
def test_a_gap_that_cannot_be_filled_is_not_trusted(trouble: str) -> None:
    engine = Engine(replays=trouble != "no replay socket", keeps=2)
    engine.make(8)
    engine.live(0, 1, 2, 7)
    while trouble == "no answer" and engine.feed.wanted is not None:
        engine.feed.replay_failed()
    engine.answer()
    assert engine.state() == "stale" and engine.feed.lost >= 3
    assert len(engine.said) == 1 and "replay" in engine.said[0] and "worker w" in engine.said[0]
    assert engine.depth == 0 and not engine.feed.blocks.held[DEVICE]


def test_what_is_stored_later_proves_what_was_doubted() -> None:
    engine = Engine(replays=False)
    engine.make(4)
    engine.live(0, 1, 2)
    engine.feed.receive(5, batch_of(["BlockRemoved", [7777], "GPU"], at=200))
    assert engine.depth == 0
    engine.feed.receive(6, batch_of(stored(300, ids(4, start=8), parent=101), at=201))
    # The third block, and with it the two before.
    assert engine.depth == 3 and engine.state() == "stale"
    engine.feed.receive(7, batch_of(["AllBlocksCleared"], at=202))
    assert engine.state() == "fresh" and engine.depth == 0


@pytest.mark.parametrize("first", [0, 2])
def test_numbers_that_go_backwards_mean_a_restart(first: int) -> None:
    engine = Engine()
    engine.make(6)
    engine.live(*range(6))
    engine.start(at=500, tokens_from=1000)
    engine.make(3)
    engine.live(first)
    engine.answer()
    assert engine.feed.restarts == 1 and "restarted" in engine.said[0]
    assert engine.depth == (1 if first == 0 else 3) and engine.state() == "fresh"
    assert engine.feed.blocks.held[DEVICE].isdisjoint(chain(ids(24)))


@pytest.mark.parametrize("made", [0, 2, 5, 9])
def test_a_restart_in_silence_shows_in_an_audit(made: int) -> None:
    engine = Engine()
    engine.make(5)
    engine.live(*range(5))
    engine.start(at=500, tokens_from=1000)
    engine.make(made)
    engine.feed.audit()
    engine.answer()
    assert engine.feed.restarts == 1 and engine.depth == made
    assert len(engine.feed.blocks) == made


def test_a_restart_that_has_got_further_is_no_gap() -> None:
    engine = Engine()
    engine.make(3)
    engine.live(0, 1, 2)
    engine.start(at=500, tokens_from=1000)
    engine.make(10)
    engine.live(9)
    assert engine.answer() == [2, 0]
    assert engine.feed.restarts == 1 and engine.depth == 10


def test_a_restart_that_has_come_just_as_far_shows_in_its_new_connection() -> None:
    engine = Engine()
    engine.make(1)
    engine.live(0)
    engine.start(at=500, tokens_from=1000)
    engine.make(2)
    engine.feed.reconnected()
    assert engine.answer() == [0, 0] and engine.feed.restarts == 1
    engine.live(1)
    assert engine.depth == 2 and len(engine.feed.blocks) == 2


def test_a_new_connection_to_the_same_engine_changes_nothing() -> None:
    engine = Engine()
    engine.make(3)
    engine.live(0, 1)
    engine.feed.reconnected()
    assert engine.answer() == [1]
    assert engine.depth == 3 and engine.state() == "fresh" and not engine.said


def test_without_replays_a_new_connection_is_in_doubt() -> None:
    engine = Engine(replays=False)
    engine.feed.reconnected()
    assert engine.state() == "silent" and not engine.said
    engine.make(3)
    engine.live(0, 1)
    engine.feed.reconnected()
    assert engine.state() == "stale" and engine.depth == 0 and "no replay address" in engine.said[0]
    engine.live(2)
    assert engine.depth == 3


def test_a_new_connection_during_a_replay_has_it_asked_for_again() -> None:
    engine = Engine()
    engine.make(5)
    engine.feed.audit()
    engine.feed.replayed(0, engine.messages[0])
    engine.feed.reconnected()
    engine.feed.replayed(1, engine.messages[1])
    engine.feed.replay_ended()
    assert engine.answer() == [0] and engine.depth == 5


def test_a_new_incarnation_begins_anew() -> None:
    engine = Engine()
    engine.make(3)
    engine.live(0, 1, 2)
    engine.start(at=500, tokens_from=1000)
    engine.make(2)
    engine.feed.restart()
    assert engine.answer() == [0] and engine.depth == 2
    engine.make(1)
    engine.live(2)
    assert engine.depth == 3 and engine.state() == "fresh"


def test_a_feed_goes_on_from_a_snapshot() -> None:
    engine = Engine()
    engine.make(3)
    engine.live(0, 1, 2)
    later = WorkerFeed("w", block_tokens=BLOCK, replays=True, warn=engine.said.append)
    later.blocks.load([(name, *found) for name, found in engine.feed.blocks.known.items()], engine.feed.blocks.held)
    later.resume(engine.feed.mark, is_stale=False)
    engine.feed = later
    engine.make(2)
    later.audit()
    assert engine.answer() == [2] and engine.depth == 5 and later.restarts == 0
    later.resume(FeedMark(5, 1.0), is_stale=False)
    later.audit()
    assert engine.answer() == [4, 0] and later.restarts == 1 and engine.depth == 5


def test_a_block_without_its_beginning_is_left_out() -> None:
    blocks = FeedBlocks(BLOCK)
    blocks.apply(batch_of(stored(5, ids(4), parent=4), stored(9, ids(8))))
    assert blocks.held[DEVICE] == set(chain(ids(8))) and blocks.skipped == 1


def test_another_block_size_is_said_once_and_an_unknown_one_is_learnt() -> None:
    engine = Engine(size=8)
    engine.make(3)
    engine.live(0, 1, 2)
    assert engine.state() == "mismatch" and len(engine.said) == 1 and "4 tokens" in engine.said[0]
    engine = Engine(size=None)
    engine.make(3)
    engine.live(0, 1, 2)
    assert engine.feed.blocks.block_tokens == BLOCK and engine.depth == 3


def test_salted_blocks_have_hashes_of_their_salt() -> None:
    blocks = FeedBlocks(BLOCK)
    blocks.apply(batch_of([*stored(5, ids(8)), None, [["tenant"], None]], stored(7, ids(4, start=8), parent=6)))
    assert blocks.held[DEVICE] == set(chain(ids(12), "tenant")) and blocks.skipped == 0
    blocks.apply(batch_of([*stored(50, ids(8)), None, [None, ["picture"]]]))
    assert blocks.held[DEVICE] == {*chain(ids(12), "tenant"), *chain(ids(4))} and blocks.skipped == 1


def test_two_copies_of_a_block_are_gone_when_both_are() -> None:
    blocks = FeedBlocks(BLOCK)
    blocks.apply(batch_of(stored(1, ids(8)), stored(1, ids(8))))
    blocks.apply(batch_of(["BlockRemoved", [2], "GPU"]))
    assert blocks.held[DEVICE] == set(chain(ids(8)))
    blocks.apply(batch_of(["BlockRemoved", [2, 1, 3], "GPU"]))
    assert blocks.held[DEVICE] == set(chain(ids(4)))


def test_tiers_are_kept_apart() -> None:
    blocks = FeedBlocks(BLOCK)
    blocks.apply(batch_of(stored(1, ids(8))))
    blocks.apply(batch_of(stored(1, ids(4), medium="CPU"), ["BlockRemoved", [1, 2], "GPU"]))
    blocks.apply(batch_of(stored(2, ids(4, start=4), parent=1, medium="DISK")))
    first, second = chain(ids(8))
    assert (blocks.held[DEVICE], blocks.held[HOST], blocks.held[DISK]) == (set(), {first}, {second})


def test_changes_are_told_once_and_in_their_last_state() -> None:
    blocks = FeedBlocks(BLOCK)
    blocks.apply(batch_of(stored(1, ids(8)), ["BlockRemoved", [2], "GPU"]))
    (change,) = blocks.take_changes()
    first, second = chain(ids(8))
    assert (change.tier, change.cleared, change.stored, set(change.removed)) == (DEVICE, False, [first], {second})
    assert blocks.take_changes() == []
    blocks.apply(batch_of(["AllBlocksCleared"], stored(9, ids(4))))
    changes = blocks.take_changes()
    assert [change.cleared for change in changes] == [True] * 3 and changes[0].stored == [first]
