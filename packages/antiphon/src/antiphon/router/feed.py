"""One worker's events, in order: gaps are seen, restarts are seen, and the engine's hashes become ours."""

from collections.abc import Callable
from typing import Literal

import msgspec

from antiphon.router.hashing import extend, root_of
from antiphon.router.index import PrefixIndex
from antiphon.router.kv_events import DEVICE_MEDIUMS, AllCleared, BlockRemoved, BlockStored, EventBatch, KvEvent

FeedState = Literal["silent", "fresh", "gap", "mismatch"]
"""silent: nothing has come yet. fresh: every message since the beginning, or since a snapshot, is in the index. gap: some are missing
and must be replayed. mismatch: the engine's blocks have another size than the router hashes, so its events say nothing."""


class FeedReport(msgspec.Struct, frozen=True):
    """What a message asks for: a replay from `replay_from` on, or nothing."""

    replay_from: int | None = None
    restarted: bool = False


class WorkerFeed:
    """Applies the events of one worker to the device and host index."""

    def __init__(
        self, worker: str, *, block_tokens: int, device: PrefixIndex, host: PrefixIndex, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        self.worker = worker
        self.state: FeedState = "silent"
        self.next_seq = 0
        self._block = block_tokens
        self._device = device
        self._host = host
        self._warn = warn
        self._ours: dict[int | bytes, int] = {}
        self.skipped = 0

    def receive(self, seq: int, batch: EventBatch) -> FeedReport:
        """A live message. One that comes early is not applied: everything from the first missing one on is replayed, in order."""
        if seq < self.next_seq:
            # Numbers that go backwards mean a new engine behind the old address.
            self.reset()
            self._warn(f"worker {self.worker} has restarted; what it held is forgotten")
            report = FeedReport(restarted=True, replay_from=0 if seq else None)
            if seq:
                self.state = "gap"
                return report
            self._apply(seq, batch)
            return report
        if seq > self.next_seq:
            self.state = "gap"
            return FeedReport(replay_from=self.next_seq)
        self._apply(seq, batch)
        return FeedReport()

    def replayed(self, seq: int, batch: EventBatch) -> None:
        """A message of a replay: older ones than those applied are left out; a beginning that the engine no longer has is accepted,
        since blocks whose parent is unknown are left out by themselves."""
        if seq >= self.next_seq:
            self._apply(seq, batch)

    def reset(self) -> None:
        """The worker holds nothing that is known here."""
        self._device.clear(self.worker)
        self._host.clear(self.worker)
        self._ours.clear()
        self.next_seq = 0
        self.state = "silent"

    def _apply(self, seq: int, batch: EventBatch) -> None:
        self.next_seq = seq + 1
        if self.state != "mismatch":
            self.state = "fresh"
        for event in batch.events:
            self._event(event)

    def _event(self, event: KvEvent) -> None:
        if isinstance(event, AllCleared):
            self._device.clear(self.worker)
            self._host.clear(self.worker)
            self._ours.clear()
        elif isinstance(event, BlockRemoved):
            known = [self._ours[block] for block in event.hashes if block in self._ours]
            on_device = event.medium in DEVICE_MEDIUMS
            (self._device if on_device else self._host).remove(self.worker, known)
            if on_device:
                # A copy in host memory keeps its name; one that lies nowhere has none to keep.
                for block in event.hashes:
                    if block in self._ours and not self._host.holds(self.worker, self._ours[block]):
                        del self._ours[block]
        else:
            self._stored(event)

    def _stored(self, event: BlockStored) -> None:
        if event.block_tokens != self._block:
            if self.state != "mismatch":
                self.state = "mismatch"
                self._warn(
                    f"worker {self.worker} has blocks of {event.block_tokens} tokens and the router counts in {self._block}; its events"
                    " are not used. Set --router-block-size to the engine's block size"
                )
            return
        if event.salted or not event.full_attention:
            self.skipped += len(event.hashes)
            return
        parent = root_of("") if event.parent is None else self._ours.get(event.parent)
        if parent is None:
            # Its beginning was stored before this feed began: no prompt can be matched against it.
            self.skipped += len(event.hashes)
            return
        ours = extend(event.token_ids, parent, self._block)[: len(event.hashes)]
        self._ours.update(zip(event.hashes, ours, strict=False))
        (self._device if event.medium in DEVICE_MEDIUMS else self._host).store(self.worker, ours)
