"""The contents of slots as blocks, for whoever routes by them: what can be found from now on, and what is gone."""

from collections import Counter

from antiphon.engines.tokens import Tokens
from antiphon.router.hashing import extend, root_of
from antiphon.simulation.cache_events import CacheEvent, Cleared, Removed, StoredRun


class SlotBlocks:
    """Blocks of `block_tokens` tokens, counted over all slots: one that two slots hold is gone when the second has lost it.
    `total_blocks` is how many there can be. Events are collected until `take_events`, if `record` says so."""

    def __init__(self, slots: int, slot_tokens: int, *, block_tokens: int, record: bool) -> None:
        self.block_tokens = block_tokens
        self.total_blocks = slots * (slot_tokens // block_tokens)
        self._record = record
        self._chains: list[list[int]] = [[] for _ in range(slots)]
        self._holders: Counter[int] = Counter()
        self._events: list[CacheEvent] = []

    @property
    def used_blocks(self) -> int:
        """Different blocks that are held."""
        return len(self._holders)

    def hold(self, slot: int, tokens: Tokens, salt: str, *, same: int) -> None:
        """A slot's content; the first `same` tokens are what it held before, under the same salt."""
        if not self._record:
            return
        size = self.block_tokens
        chain = self._chains[slot]
        kept = min(same // size, len(chain))
        gone = chain[kept:]
        parent = chain[kept - 1] if kept else None
        new = extend(tokens[kept * size :], root_of(salt) if parent is None else parent, size)
        # What is stored goes first: a block that is lost and found again never seems to be gone.
        run = StoredRun()
        for number, block_hash in enumerate(new, start=kept):
            if not self._holders[block_hash]:
                run.add(block_hash, parent, tokens[number * size : (number + 1) * size], salt=salt, events=self._events)
            self._holders[block_hash] += 1
            parent = block_hash
        run.end(self._events)
        self._chains[slot] = chain[:kept] + new
        self._lose(gone)

    def clear(self) -> None:
        """All slots are empty: the engine has started anew."""
        held = bool(self._holders)
        self._chains = [[] for _ in self._chains]
        self._holders.clear()
        if held:
            self._events.append(Cleared())

    def take_events(self) -> list[CacheEvent]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def _lose(self, hashes: list[int]) -> None:
        removed = []
        for block_hash in hashes:
            self._holders[block_hash] -= 1
            if not self._holders[block_hash]:
                del self._holders[block_hash]
                removed.append(block_hash)
        if removed:
            self._events.append(Removed(tuple(removed)))
