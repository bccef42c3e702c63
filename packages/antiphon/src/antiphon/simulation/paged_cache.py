"""A prefix cache in pages, as GPU engines keep it: full blocks of tokens found again by chained hashes, shared between
sequences, evicted leaf first when room is needed. Accounting only: no block holds anything."""

import heapq
from array import array
from collections.abc import Callable, Iterator, Sequence

from antiphon.router.hashing import extend, root_of
from antiphon.simulation.cache_events import CacheEvent, Cleared, Removed, StoredRun
from antiphon.simulation.pins import Pins

# Entries of blocks that are no candidates any more are thrown out when they are most of the heap.
_STALE_SLACK = 1024


class Block:
    """One full block. A block with children stays: whoever holds the last block of a prefix holds all of it, so `refs` counts
    only the sequences that end here. `used` and `priority` of a block are those of its latest leaf once that is gone."""

    __slots__ = ("children", "hash", "parent", "pinned_until", "priority", "refs", "used")

    def __init__(self, block_hash: int, parent: "Block | None", priority: int) -> None:
        self.hash = block_hash
        self.parent = parent
        self.refs = 0
        self.children = 0
        self.priority = priority
        self.used = 0
        self.pinned_until = 0.0


class PagedCache:
    """`total_blocks` pages of `block_tokens` tokens; 0 pages hold nothing. `clock` gives seconds; only pins read it. With `record`
    events are collected until `take_events`. Not safe to share between threads."""

    def __init__(
        self, total_blocks: int, block_tokens: int, *, clock: Callable[[], float], pinned_share: float = 0.5, record: bool = True
    ) -> None:
        self.total_blocks = total_blocks
        self.block_tokens = block_tokens
        self._clock = clock
        self._held: dict[int, Block] = {}
        self._loose = 0
        self._tick = 0
        self._evictable: list[tuple[int, int, int]] = []
        self._pinned_leaves: list[tuple[float, tuple[int, int, int]]] = []
        self._record = record
        self._events: list[CacheEvent] = []
        self._run = StoredRun()
        self._pins = Pins(int(total_blocks * pinned_share))
        self.evicted = 0

    @property
    def used_blocks(self) -> int:
        """Blocks that hold tokens: findable ones and partly filled ones of running sequences."""
        return len(self._held) + self._loose

    def match(self, token_ids: Sequence[int], salt: str = "") -> int:
        """How many leading tokens of a prompt are held, in whole blocks."""
        return self._depth(self._chain(token_ids, salt)) * self.block_tokens

    def open(self, token_ids: Sequence[int], *, salt: str = "", priority: int = 0) -> "CachedSequence":
        """A sequence over this prompt; it holds the blocks that are there. What is missing is added as it is computed."""
        chain = self._chain(token_ids, salt)
        depth = self._depth(chain)
        return CachedSequence(self, salt, priority, self._held[chain[depth - 1]] if depth else None, depth)

    def now(self) -> float:
        """The time in seconds, as the cache sees it."""
        return self._clock()

    def pin(self, token_ids: Sequence[int], seconds: float, salt: str = "", *, owner: str = "") -> int:
        """Keeps the held blocks of a prefix from eviction for so long; the number of tokens kept. Pins never take more than their
        share of the cache: what comes too late is not pinned. `owner`: on whose behalf, for `unpin`."""
        now = self._clock()
        if self._pins.full:
            self._pins.expire(now)
        count = 0
        for block_hash in self._chain(token_ids, salt):
            block = self._held.get(block_hash)
            if block is None or not self._pins.hold(block_hash, now + seconds, owner):
                break
            block.pinned_until = max(block.pinned_until, now + seconds)
            count += 1
        return count * self.block_tokens

    def unpin(self, owner: str) -> None:
        """Takes back what was pinned on an owner's behalf; what others have pinned too stays as long as they want it."""
        for block_hash in self._pins.release(owner):
            if block_hash in self._held:
                self._held[block_hash].pinned_until = self._pins.until(block_hash)
        self._look_at_pinned_leaves()

    def drop_pins(self) -> bool:
        """Pins yield to a sequence that cannot run otherwise; False when there were none."""
        had = bool(len(self._pins))
        for block_hash in self._pins:
            if block_hash in self._held:
                self._held[block_hash].pinned_until = 0.0
        self._pins.clear()
        self._look_at_pinned_leaves()
        return had

    def clear(self) -> None:
        """Forgets every block that no sequence holds, pinned ones too."""
        kept: dict[int, Block] = {}
        for block in self._held.values():
            if block.refs:
                kept.update((one.hash, one) for one in _upwards(block))
        if len(kept) == len(self._held):
            return
        gone = tuple(block_hash for block_hash in self._held if block_hash not in kept)
        for block_hash in gone:
            parent = self._held[block_hash].parent
            if parent is not None:
                parent.children -= 1
        self._held = kept
        self.drop_pins()
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
        """A block that was taken is free again."""
        self._loose -= 1

    def store(self, tokens: "array[int]", last: Block | None, *, salt: str = "", priority: int = 0) -> tuple[Block | None, int]:
        """Whole blocks of tokens, full all at once, become findable behind `last`; the block that is last now, and how many found
        room. Those that another sequence has stored meanwhile are taken as they are."""
        size, held = self.block_tokens, self._held
        done = 0
        for block_hash in extend(tokens, last.hash if last is not None else root_of(salt), size):
            block = held.get(block_hash)
            if block is None:
                if len(held) + self._loose >= self.total_blocks and not self._evict_but(last):
                    break
                block = held[block_hash] = Block(block_hash, last, priority)
                if last is not None:
                    last.children += 1
                if self._record:
                    parent = last.hash if last is not None else None
                    self._run.add(block_hash, parent, tokens[done : done + size], salt=salt, events=self._events)
            last = block
            done += size
        return last, done // size

    def release(self, block: Block) -> None:
        """A sequence that ended here is gone."""
        block.refs -= 1
        self._tick += 1
        block.used = self._tick
        self._offer(block)

    def _look_at_pinned_leaves(self) -> None:
        """Some of them may be candidates again; those that are not go back when a victim is looked for."""
        self._evictable += [entry for _, entry in self._pinned_leaves]
        self._pinned_leaves.clear()
        heapq.heapify(self._evictable)

    def _say(self, event: CacheEvent) -> None:
        if self._record:
            self._run.end(self._events)
            self._events.append(event)

    def _offer(self, block: Block) -> None:
        if block.refs or block.children or block.hash not in self._held:
            return
        heapq.heappush(self._evictable, (block.priority, block.used, block.hash))
        if len(self._evictable) > 2 * len(self._held) + _STALE_SLACK:
            self._evictable = [entry for entry in self._evictable if self._candidate(entry) is not None]
            heapq.heapify(self._evictable)

    def _candidate(self, entry: tuple[int, int, int]) -> Block | None:
        """The block of an entry, if the entry still says the truth."""
        block = self._held.get(entry[2])
        if block is None or block.refs or block.children or block.used != entry[1]:
            return None
        return block

    def _victim(self) -> Block | None:
        """The block to go next: lowest priority, then longest unused; leaves only."""
        now = self._clock()
        while self._pinned_leaves and self._pinned_leaves[0][0] <= now:
            heapq.heappush(self._evictable, heapq.heappop(self._pinned_leaves)[1])
        while self._evictable:
            block = self._candidate(self._evictable[0])
            if block is not None and block.pinned_until <= now:
                return block
            entry = heapq.heappop(self._evictable)
            if block is not None:
                heapq.heappush(self._pinned_leaves, (block.pinned_until, entry))
        return None

    def _evict_but(self, spared: Block | None) -> bool:
        if spared is None:
            return self._evict()
        spared.refs += 1
        found = self._evict()
        spared.refs -= 1
        return found

    def _evict(self) -> bool:
        block = self._victim()
        if block is None:
            return False
        del self._held[block.hash]
        self.evicted += 1
        self._say(Removed((block.hash,)))
        parent = block.parent
        if parent is not None:
            parent.children -= 1
            parent.used = max(parent.used, block.used)
            parent.priority = max(parent.priority, block.priority)
            self._offer(parent)
        return True

    def _depth(self, chain: Sequence[int]) -> int:
        """How many blocks of a chain are held. Leaves go first, so the held ones are a beginning without gaps."""
        low, high = 0, len(chain)
        while low < high:
            middle = (low + high) // 2
            if chain[middle] in self._held:
                low = middle + 1
            else:
                high = middle
        return low

    def _chain(self, token_ids: Sequence[int], salt: str) -> list[int]:
        return extend(token_ids, root_of(salt), self.block_tokens)


def _upwards(block: Block) -> Iterator[Block]:
    """A block and all before it."""
    one: Block | None = block
    while one is not None:
        yield one
        one = one.parent


class CachedSequence:
    """The blocks of one running sequence, in order. `held_tokens` are in the cache: found at the start, or computed since."""

    def __init__(self, cache: PagedCache, salt: str, priority: int, last: Block | None, depth: int) -> None:
        self._cache = cache
        self._salt = salt
        self._priority = priority
        self._last: Block | None = None
        self._depth = depth
        self._filling: list[int] = []
        if last is not None:
            self._move(last)

    @property
    def held_tokens(self) -> int:
        """Tokens in whole blocks and in the one that is being filled."""
        return self._depth * self._cache.block_tokens + len(self._filling)

    def add(self, token_ids: Sequence[int]) -> int:
        """Computed tokens enter the cache; how many found room."""
        size = self._cache.block_tokens
        done = 0
        if self._filling:
            done = self._fill(token_ids[: size - len(self._filling)])
        if not self._filling and len(token_ids) - done >= size:
            whole = (len(token_ids) - done) // size * size
            added = self._add_whole(token_ids[done : done + whole])
            done += added
            if added < whole:
                return done
        if done < len(token_ids) and self._cache.take_loose():
            done += self._fill(token_ids[done:])
        return done

    def close(self) -> None:
        """The sequence ends; its whole blocks stay findable until they are evicted."""
        if self._filling:
            self._cache.drop_loose()
        if self._last is not None:
            self._cache.release(self._last)
        self._last, self._depth, self._filling = None, 0, []

    def _fill(self, token_ids: Sequence[int]) -> int:
        """Tokens enter the block that was taken for them; a full one becomes findable."""
        self._filling.extend(token_ids)
        if len(self._filling) == self._cache.block_tokens:
            tokens, self._filling = self._filling, []
            self._cache.drop_loose()
            self._add_whole(tokens)
        return len(token_ids)

    def _add_whole(self, token_ids: Sequence[int]) -> int:
        tokens = token_ids if isinstance(token_ids, array) else array("I", token_ids)
        last, blocks = self._cache.store(tokens, self._last, salt=self._salt, priority=self._priority)
        if last is not None and blocks:
            self._move(last)
        self._depth += blocks
        return blocks * self._cache.block_tokens

    def _move(self, block: Block) -> None:
        """The sequence ends at this block now; the one before is kept by its child."""
        block.refs += 1
        block.priority = max(block.priority, self._priority)
        if self._last is not None:
            self._last.refs -= 1
        self._last = block
