"""A prefix cache in pages, as GPU engines keep it: full blocks of tokens found again by chained hashes, shared between
sequences, evicted leaf first when room is needed. Accounting only: no block holds anything."""

import heapq
from collections.abc import Callable, Sequence

import msgspec

from antiphon.router.hashing import extend, root_of


class Stored(msgspec.Struct, frozen=True):
    """Blocks that can be found from now on, in order; `parent` is the hash before the first. `token_ids` are theirs, concatenated."""

    hashes: tuple[int, ...]
    parent: int | None
    token_ids: tuple[int, ...]


class Removed(msgspec.Struct, frozen=True):
    """Blocks that are gone."""

    hashes: tuple[int, ...]


class Cleared(msgspec.Struct, frozen=True):
    """All blocks are gone."""


CacheEvent = Stored | Removed | Cleared


class _Block:
    __slots__ = ("children", "hash", "parent", "pinned_until", "priority", "refs", "used")

    def __init__(self, block_hash: int, parent: "_Block | None", priority: int) -> None:
        self.hash = block_hash
        self.parent = parent
        self.refs = 0
        self.children = 0
        self.priority = priority
        self.used = 0
        self.pinned_until = 0.0


class PagedCache:
    """`total_blocks` pages of `block_tokens` tokens. `clock` gives seconds; only pins read it. Events are collected until
    `take_events`. Not safe to share between threads."""

    def __init__(self, total_blocks: int, block_tokens: int, *, clock: Callable[[], float], pinned_share: float = 0.5) -> None:
        self.total_blocks = total_blocks
        self.block_tokens = block_tokens
        self._clock = clock
        self._held: dict[int, _Block] = {}
        self._loose = 0
        self._tick = 0
        self._evictable: list[tuple[int, int, int]] = []
        self._events: list[CacheEvent] = []
        self._run = _StoredRun()
        self._pin_room = int(total_blocks * pinned_share)
        self._pinned: dict[int, float] = {}
        self.evicted = 0

    @property
    def used_blocks(self) -> int:
        """Blocks that hold tokens: findable ones and partly filled ones of running sequences."""
        return len(self._held) + self._loose

    def match(self, token_ids: Sequence[int], salt: str = "") -> int:
        """How many leading tokens of a prompt are held, in whole blocks."""
        count = 0
        for block_hash in self._chain(token_ids, salt):
            if block_hash not in self._held:
                break
            count += 1
        return count * self.block_tokens

    def open(self, token_ids: Sequence[int], *, salt: str = "", priority: int = 0) -> "CachedSequence":
        """A sequence over this prompt; it holds the blocks that are there. What is missing is added as it is computed."""
        sequence = CachedSequence(self, salt, priority)
        for block_hash in self._chain(token_ids, salt):
            block = self._held.get(block_hash)
            if block is None:
                break
            sequence.adopt(block)
        return sequence

    def pin(self, token_ids: Sequence[int], seconds: float, salt: str = "") -> int:
        """Keeps the held blocks of a prefix from eviction for so long; the number of tokens kept. Pins never take more than their
        share of the cache: what comes too late is not pinned."""
        now = self._clock()
        self._pinned = {block_hash: until for block_hash, until in self._pinned.items() if until > now}
        count = 0
        for block_hash in self._chain(token_ids, salt):
            block = self._held.get(block_hash)
            if block is None or (block_hash not in self._pinned and len(self._pinned) >= self._pin_room):
                break
            block.pinned_until = self._pinned[block_hash] = max(block.pinned_until, now + seconds)
            count += 1
        return count * self.block_tokens

    def clear(self) -> None:
        """Forgets every block no sequence holds."""
        kept = {block_hash: block for block_hash, block in self._held.items() if block.refs}
        if len(kept) == len(self._held):
            return
        gone = tuple(block_hash for block_hash in self._held if block_hash not in kept)
        self._held = kept
        self._evictable = []
        self._say(Removed(gone) if kept else Cleared())

    def take_events(self) -> list[CacheEvent]:
        """The events since the last call."""
        self._run.end(self._events)
        events, self._events = self._events, []
        return events

    def room(self) -> bool:
        """Whether one more block can be had, by eviction if need be."""
        return self.used_blocks < self.total_blocks or self._victim() is not None

    # -- for sequences -----------------------------------------------------------------------------------------

    def take_loose(self) -> bool:
        """A block to be filled; False when every block is held by a sequence or a pin."""
        if self.used_blocks >= self.total_blocks and not self._evict():
            return False
        self._loose += 1
        return True

    def drop_loose(self) -> None:
        """A block that was never filled is free again."""
        self._loose -= 1

    def store(self, tokens: Sequence[int], parent: _Block | None, salt: str, priority: int) -> _Block:
        """A filled block becomes findable; another sequence may have stored the same one."""
        (block_hash,) = extend(tokens, parent.hash if parent is not None else root_of(salt), self.block_tokens)
        self._loose -= 1
        block = self._held.get(block_hash)
        if block is None:
            block = self._held[block_hash] = _Block(block_hash, parent, priority)
            if parent is not None:
                parent.children += 1
            self._run.add(block_hash, parent.hash if parent is not None else None, tokens, self._events)
        self.hold(block, priority)
        return block

    def hold(self, block: _Block, priority: int) -> None:
        """One more sequence holds the block."""
        block.refs += 1
        block.priority = max(block.priority, priority)

    def release(self, block: _Block) -> None:
        """One sequence fewer. The last block of a sequence is released first, so that leaves are the oldest."""
        block.refs -= 1
        self._tick += 1
        block.used = self._tick
        self._offer(block)

    def _say(self, event: CacheEvent) -> None:
        self._run.end(self._events)
        self._events.append(event)

    def _offer(self, block: _Block) -> None:
        if block.refs == 0 and block.children == 0 and block.hash in self._held:
            heapq.heappush(self._evictable, (block.priority, block.used, block.hash))

    def _victim(self) -> _Block | None:
        """The block to go next: lowest priority, then longest unused; leaves only."""
        now = self._clock()
        pinned: list[tuple[int, int, int]] = []
        found = None
        while self._evictable:
            entry = self._evictable[0]
            block = self._held.get(entry[2])
            if block is None or block.refs or block.children or block.used != entry[1]:
                heapq.heappop(self._evictable)
            elif block.pinned_until > now:
                pinned.append(heapq.heappop(self._evictable))
            else:
                found = block
                break
        for entry in pinned:
            heapq.heappush(self._evictable, entry)
        return found

    def _evict(self) -> bool:
        block = self._victim()
        if block is None:
            return False
        del self._held[block.hash]
        self.evicted += 1
        self._say(Removed((block.hash,)))
        if block.parent is not None:
            block.parent.children -= 1
            self._offer(block.parent)
        return True

    def _chain(self, token_ids: Sequence[int], salt: str) -> list[int]:
        return extend(token_ids, root_of(salt), self.block_tokens)


class _StoredRun:
    """Blocks that were stored one behind the other, on their way to one event."""

    def __init__(self) -> None:
        self._hashes: list[int] = []
        self._tokens: list[int] = []
        self._parent: int | None = None

    def add(self, block_hash: int, parent: int | None, tokens: Sequence[int], events: list[CacheEvent]) -> None:
        if self._hashes and self._hashes[-1] != parent:
            self.end(events)
        if not self._hashes:
            self._parent = parent
        self._hashes.append(block_hash)
        self._tokens.extend(tokens)

    def end(self, events: list[CacheEvent]) -> None:
        if self._hashes:
            events.append(Stored(tuple(self._hashes), self._parent, tuple(self._tokens)))
            self._hashes, self._tokens = [], []


class CachedSequence:
    """The blocks of one running sequence, in order. `held_tokens` are in the cache: found at the start, or computed since."""

    def __init__(self, cache: PagedCache, salt: str, priority: int) -> None:
        self._cache = cache
        self._salt = salt
        self._priority = priority
        self._blocks: list[_Block] = []
        self._filling: list[int] = []
        self._has_loose = False

    @property
    def held_tokens(self) -> int:
        """Tokens in whole blocks and in the one that is being filled."""
        return len(self._blocks) * self._cache.block_tokens + len(self._filling)

    def adopt(self, block: _Block) -> None:
        """Takes a block that is there already as the next one."""
        self._cache.hold(block, self._priority)
        self._blocks.append(block)

    def add(self, token_ids: Sequence[int]) -> int:
        """Computed tokens enter the cache; how many found room."""
        size = self._cache.block_tokens
        done = 0
        while done < len(token_ids):
            if not self._has_loose and not self._cache.take_loose():
                break
            self._has_loose = True
            part = token_ids[done : done + size - len(self._filling)]
            self._filling.extend(part)
            done += len(part)
            if len(self._filling) == size:
                parent = self._blocks[-1] if self._blocks else None
                self._blocks.append(self._cache.store(self._filling, parent, self._salt, self._priority))
                self._filling, self._has_loose = [], False
        return done

    def close(self) -> None:
        """The sequence ends; its whole blocks stay findable until they are evicted."""
        if self._has_loose:
            self._cache.drop_loose()
        for block in reversed(self._blocks):
            self._cache.release(block)
        self._blocks, self._filling, self._has_loose = [], [], False
