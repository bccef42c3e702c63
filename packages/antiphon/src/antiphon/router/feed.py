"""One engine's events in order: gaps, restarts, and the engine's hashes made ours. Sans-IO: messages go in, what shall be asked of the
replay socket and what has changed in the index come out."""

from collections.abc import Callable
from typing import Literal

import msgspec

from antiphon.router.feed_blocks import Change, FeedBlocks
from antiphon.router.kv_events import EventBatch

FeedState = Literal["silent", "fresh", "gap", "stale", "mismatch"]
"""silent: nothing has come yet. fresh: every message since the engine's start is in the index. gap: some are missing, and a replay of
them is under way. stale: some are missing for good; what was known before is not believed any more, and the index knows what has been
stored since. mismatch: the engine's blocks have another size than the router hashes, so its events say nothing."""

# How often a replay may end without a single new message before what is missing is given up.
_TRIES = 3


class FeedMark(msgspec.Struct, frozen=True):
    """How far a feed has come: the next number, and when the message before it was made, by which the engine is known again."""

    next_seq: int = 0
    last_at: float = 0.0


class WorkerFeed:
    """Follows one publisher. `block_tokens` None: learnt from the first event. `replays`: whether there is a replay socket to ask.

    `receive` takes live messages; when `wanted` is not None afterwards, a replay from that number on is to be asked for, and until
    `replay_ended` or `replay_failed` no further live message may be given (they wait in their socket)."""

    def __init__(self, name: str, *, block_tokens: int | None, replays: bool, warn: Callable[[str], None]) -> None:
        self.name = name
        self.blocks = FeedBlocks(block_tokens)
        self.mark = FeedMark()
        self.wanted: int | None = None
        self.messages = 0
        self.gaps = 0
        self.lost = 0
        self.restarts = 0
        self._replays = replays
        self._warn = warn
        self._stale = False
        self._pending: tuple[int, EventBatch] | None = None
        self._last_live = -1
        self._newest_at = 0.0
        self._in_reply = _Reply()
        self._tries = 0

    @property
    def state(self) -> FeedState:
        """See `FeedState`."""
        if self.blocks.mismatched is not None:
            return "mismatch"
        if self._pending is not None:
            return "gap"
        if self._stale:
            return "stale"
        return "fresh" if self.mark.next_seq else "silent"

    # -- live messages -----------------------------------------------------------------------------------------

    def receive(self, seq: int, batch: EventBatch) -> None:
        """A live message."""
        expected, last_live = self.mark.next_seq, self._last_live
        self._last_live = seq
        if seq == expected:
            self._apply(seq, batch)
        elif seq > expected:
            self.gaps += 1
            self._pending = seq, batch
            self._want_or_lose()
        elif seq > last_live and batch.at <= self._newest_at:
            # It was in a replay already.
            return
        else:
            # Numbers that go backwards mean a new engine behind the old address.
            self._restarted()
            self._last_live = seq
            if seq == 0:
                self._apply(seq, batch)
            else:
                self._pending = seq, batch
                self._want_or_lose()

    # -- replays -----------------------------------------------------------------------------------------------

    def audit(self) -> None:
        """Wants a replay from the last known message on: finds what was lost at the end of a burst, and restarts, while nothing comes
        live. Also the first thing to do with a new feed."""
        if self._replays and self.wanted is None:
            self._want()

    def replayed(self, seq: int, batch: EventBatch) -> None:
        """A message of the replay that was asked for."""
        reply, expected = self._in_reply, self.mark.next_seq
        is_first, reply.is_empty = reply.is_empty, False
        if reply.is_broken or (seq < expected and not is_first):
            return
        if is_first and seq == expected - 1:
            if batch.at != self.mark.last_at:
                self._restarted()
                reply.is_broken = True
            return
        if seq == expected:
            self._tries = 0
            self._apply(seq, batch)
        elif seq > expected and is_first:
            # The engine keeps no more than its latest messages.
            self._lose(seq)
            self._apply(seq, batch)
        elif seq > expected:
            # A replay socket that is full drops messages in the middle of an answer; they are still there to be asked for.
            reply.is_broken = True

    def replay_ended(self) -> None:
        """The replay is whole, as far as the engine has it. `wanted` afterwards: another one is needed."""
        reply, self.wanted = self._in_reply, None
        if reply.is_empty and self.mark.next_seq:
            # An engine that does not have our last message any more has not come so far: it is a new one.
            self._restarted()
            self._want()
            return
        if reply.is_broken and self._tries < _TRIES:
            self._want()
            return
        self._settle()

    def replay_failed(self) -> None:
        """Nobody answered in time."""
        self.wanted = None
        if self._pending is not None and self._tries < _TRIES:
            self._want()
        else:
            self._settle()

    # -- the rest ----------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """The worker is known to have started anew."""
        if self.mark.next_seq:
            self._restarted()
        self._pending, self.wanted = None, None
        self._last_live = -1
        self.audit()

    def resume(self, mark: FeedMark, *, is_stale: bool) -> None:
        """Goes on from a snapshot, whose blocks have been put into `blocks`."""
        self.mark = mark
        self._newest_at = mark.last_at
        self._stale = is_stale

    @property
    def is_stale(self) -> bool:
        """Whether messages are missing for good."""
        return self._stale

    def take_changes(self) -> list[Change]:
        """What has changed in the index since the last call."""
        return self.blocks.take_changes()

    def _want_or_lose(self) -> None:
        if self._replays:
            self._want()
        else:
            self._settle()

    def _want(self) -> None:
        self._tries += 1
        self._in_reply = _Reply()
        # From the last known message on: by it the engine is known to be the same.
        self.wanted = max(self.mark.next_seq - 1, 0)

    def _settle(self) -> None:
        """No replay will bring more: the message that showed the gap is taken."""
        self._tries = 0
        pending, self._pending = self._pending, None
        if pending is None:
            return
        seq, batch = pending
        if seq > self.mark.next_seq:
            self._lose(seq)
        if seq >= self.mark.next_seq:
            self._apply(seq, batch)

    def _lose(self, seq: int) -> None:
        missing = seq - self.mark.next_seq
        self.lost += missing
        self.blocks.doubt()
        if not self._stale:
            self._stale = True
            self._warn(
                f"worker {self.name}: {missing} KV event messages before number {seq} are lost and no replay has them; what it cached"
                " before is not counted on until it is stored again. Set a replay address, and a longer replay buffer, on the engine"
            )

    def _restarted(self) -> None:
        self.restarts += 1
        self.blocks.clear()
        self.mark, self._newest_at, self._stale = FeedMark(), 0.0, False
        self._warn(f"worker {self.name} has restarted; what it had cached is forgotten")

    def _apply(self, seq: int, batch: EventBatch) -> None:
        self.messages += 1
        self.mark = FeedMark(seq + 1, batch.at)
        if batch.at > self._newest_at:
            self._newest_at = batch.at
        before = self.blocks.mismatched
        if self.blocks.apply(batch):
            # Everything was cleared, so everything is known.
            self._stale = False
        after = self.blocks.mismatched
        if after is not None and before is None:
            self._warn(
                f"worker {self.name} has blocks of {after} tokens and the router counts in {self.blocks.block_tokens}; its KV events are"
                " not used. Tell the router the engine's block size"
            )


class _Reply:
    """One replay as it comes. `is_broken`: the rest of it cannot be used."""

    def __init__(self) -> None:
        self.is_empty = True
        self.is_broken = False
