"""The blocks of one engine: its hashes made ours, and what of them lies where."""

from collections.abc import Iterable, Sequence

import msgspec

from antiphon.router.hashing import extend, root_of
from antiphon.router.kv_events import DEVICE_MEDIUMS, HOST_MEDIUMS, AllCleared, BlockRemoved, BlockStored, EventBatch

EngineHash = int | bytes
DEVICE, HOST, DISK = TIERS = (0, 1, 2)
# More than any engine has: beyond it events were lost that nobody noticed.
MAX_BLOCKS = 4_000_000


class Change(msgspec.Struct, frozen=True):
    """What is different in one tier, in our hashes. `cleared`: everything that was there before is gone."""

    tier: int
    cleared: bool
    stored: list[int]
    removed: list[int]


def tier_of(medium: str | None) -> int:
    """Where blocks lie, by the engine's word for it."""
    if medium in DEVICE_MEDIUMS:
        return DEVICE
    return HOST if medium in HOST_MEDIUMS else DISK


class FeedBlocks:
    """`block_tokens` None: learnt from the first event. `mismatched`: another size that the engine uses. `skipped` counts blocks that no
    prompt can be matched with, because their beginning is unknown or they are keyed by more than their tokens."""

    def __init__(self, block_tokens: int | None) -> None:
        self.block_tokens = block_tokens
        self.mismatched: int | None = None
        self.skipped = 0
        # Our hash, and the engine's hash of the block before.
        self.known: dict[EngineHash, tuple[int, EngineHash | None]] = {}
        self.held: tuple[set[int], ...] = tuple(set() for _ in TIERS)
        self._copies: dict[int, int] = {}
        self._touched: tuple[list[int], ...] = tuple([] for _ in TIERS)
        self._cleared = False

    def __len__(self) -> int:
        return len(self.held[DEVICE])

    def apply(self, batch: EventBatch) -> bool:
        """The events of one message; True when everything was cleared by it."""
        cleared = False
        for event in batch.events:
            if isinstance(event, BlockStored):
                self._stored(event)
            elif isinstance(event, BlockRemoved):
                self._removed(event)
            elif isinstance(event, AllCleared):
                self.clear()
                cleared = True
        if len(self.known) > MAX_BLOCKS:
            self.clear()
        return cleared

    def clear(self) -> None:
        """Nothing is held, and no name is known."""
        self.known.clear()
        self.doubt()

    def doubt(self) -> None:
        """What is held is not known any more. Names stay: they say what blocks contain, not where they are."""
        for held, touched in zip(self.held, self._touched, strict=True):
            held.clear()
            touched.clear()
        self._copies.clear()
        self._cleared = True

    def take_changes(self) -> list[Change]:
        """What has changed since the last call."""
        changes = []
        for tier, (held, touched) in enumerate(zip(self.held, self._touched, strict=True)):
            if touched or self._cleared:
                stored = held.intersection(touched)
                removed = set(touched).difference(stored)
                changes.append(Change(tier, self._cleared, list(stored), list(removed)))
                touched.clear()
        self._cleared = False
        return changes

    def load(self, known: Iterable[tuple[EngineHash, int, EngineHash | None]], held: Sequence[Iterable[int]]) -> None:
        """The blocks of a snapshot: each engine hash with ours and the engine hash before it, and ours by tier."""
        self.clear()
        self.known.update((engine, (ours, before)) for engine, ours, before in known)
        for mine, touched, blocks in zip(self.held, self._touched, held, strict=True):
            mine.update(blocks)
            touched.extend(mine)

    def _stored(self, event: BlockStored) -> None:
        if self.block_tokens is None:
            self.block_tokens = event.block_tokens
        if event.block_tokens != self.block_tokens:
            self.mismatched = event.block_tokens
            return
        hashes = event.hashes[: len(event.hashes) - event.foreign] if event.foreign else event.hashes
        parent = self._parent(event)
        if parent is None or not event.full_attention:
            self.skipped += len(event.hashes)
            return
        self.skipped += event.foreign
        ours = extend(event.token_ids, parent, self.block_tokens)[: len(hashes)]
        self.known.update(zip(hashes, zip(ours, (event.parent, *hashes[:-1]), strict=False), strict=False))
        tier = tier_of(event.medium)
        held = self.held[tier]
        if event.parent is not None and parent not in held and tier == DEVICE:
            self._revive(event.parent)
        if tier == DEVICE and not held.isdisjoint(ours):
            # Two sequences computed the same block: each copy is told when it goes.
            for block in ours:
                if block in held:
                    self._copies[block] = self._copies.get(block, 0) + 1
        held.update(ours)
        self._touched[tier].extend(ours)

    def _parent(self, event: BlockStored) -> int | None:
        """Our hash before the first block; None where that was stored before this feed began."""
        if event.parent is None:
            return root_of(event.salt)
        found = self.known.get(event.parent)
        return found[0] if found is not None else None

    def _revive(self, block: EngineHash | None) -> None:
        """A block that is stored proves that the engine holds all before it, whatever was lost of them."""
        held, touched = self.held[DEVICE], self._touched[DEVICE]
        while block is not None:
            found = self.known.get(block)
            if found is None or found[0] in held:
                return
            held.add(found[0])
            touched.append(found[0])
            block = found[1]

    def _removed(self, event: BlockRemoved) -> None:
        tier = tier_of(event.medium)
        held, touched, copies = self.held[tier], self._touched[tier], self._copies
        others = [other for other in TIERS if other != tier and self.held[other]]
        if not copies and not others:
            # How it nearly always is, without a Python line for each block.
            pop = self.known.pop
            gone = [found[0] for engine_hash in event.hashes if (found := pop(engine_hash, None)) is not None]
            held.difference_update(gone)
            touched += gone
            return
        for engine_hash in event.hashes:
            found = self.known.get(engine_hash)
            if found is None:
                continue
            block = found[0]
            if block in copies and tier == DEVICE:
                copies[block] -= 1
                if not copies[block]:
                    del copies[block]
                continue
            held.discard(block)
            touched.append(block)
            if not any(block in self.held[other] for other in others):
                del self.known[engine_hash]
