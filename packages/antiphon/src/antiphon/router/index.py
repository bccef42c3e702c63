"""Who holds which block: hash -> set of workers, as bits of one integer."""

from collections.abc import Collection, Iterable, Sequence

from antiphon.router.bits import Holders, TargetBits, bits_of

_CHECKS = 4


class PrefixIndex:
    """Workers are named by text. `max_blocks` bounds the number of different hashes; beyond it the ones stored longest ago
    go first, since a worker that still holds them will say so again. `bits` are those of its groups. Not safe to share between threads."""

    def __init__(self, max_blocks: int = 4_000_000) -> None:
        self.bits = TargetBits()
        self._max = max_blocks
        self._holders: dict[int, int] = {}
        self._bits: dict[str, int] = {}
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._holders)

    @property
    def workers(self) -> tuple[str, ...]:
        """Workers that anything is known of."""
        return tuple(self._bits)

    def store(self, worker: str, hashes: Iterable[int]) -> None:
        """The worker holds these blocks now. Storing twice changes nothing."""
        bit = self._bit(worker)
        holders = self._holders
        for block in hashes:
            held = holders.get(block)
            # Most blocks have one holder; these share its number, which is a long one in a large fleet.
            holders[block] = bit if held is None else held | bit
        while len(holders) > self._max:
            del holders[next(iter(holders))]
            self.evicted += 1

    def remove(self, worker: str, hashes: Iterable[int]) -> None:
        """The worker holds these blocks no longer."""
        bit = self._bits.get(worker)
        if bit is None:
            return
        holders = self._holders
        for block in hashes:
            left = holders.get(block, 0) & ~bit
            if left:
                holders[block] = left
            else:
                holders.pop(block, None)

    def clear(self, worker: str) -> None:
        """The worker holds nothing."""
        bit = self._bits.pop(worker, None)
        if bit is None:
            return
        self._holders = {block: left for block, holders in self._holders.items() if (left := holders & ~bit)}
        self.bits.release(worker)

    def holds(self, worker: str, block: int) -> bool:
        """Whether the worker is known to hold this block."""
        return bool(self._holders.get(block, 0) & self._bits.get(worker, 0))

    def depths(self, hashes: Sequence[int]) -> dict[str, int]:
        """For each worker that holds a beginning of the prompt, how many of its blocks, from the first on."""
        return {name: depth for depth, mask in self._masks(hashes).items() for name in self.bits.names(mask)}

    def levels(self, hashes: Sequence[int]) -> list[tuple[int, Collection[str]]]:
        """The same the other way round: numbers of blocks, each with the workers that hold just so many. Costs nothing for each worker."""
        return [(depth, Holders(mask, self.bits)) for depth, mask in self._masks(hashes).items()]

    def dump(self) -> dict[str, list[int]]:
        """All hashes by worker, for a sibling that starts."""
        return {worker: [block for block, holders in self._holders.items() if holders & bit] for worker, bit in self._bits.items()}

    def _masks(self, hashes: Sequence[int]) -> dict[int, int]:
        """Workers by the number of blocks that they hold.

        Divide and conquer over all workers at once: a worker holds the blocks of a prefix without gaps, but for engines that
        drop a block in the middle; a few places are checked for that, and where one is missing the count is made block by block.
        """
        if not hashes:
            return {}
        get = self._holders.get
        found: dict[int, int] = {}
        todo = [(0, len(hashes), get(hashes[0], 0))]
        while todo:
            low, high, mask = todo.pop()
            # All workers of `mask` hold block `low`; none is known to hold block `high`.
            while mask and high - low > 1:
                middle = (low + high) // 2
                deeper = get(hashes[middle], 0) & mask
                if deeper == mask:
                    low = middle
                elif not deeper:
                    high = middle
                else:
                    todo.append((middle, high, deeper))
                    mask, high = mask & ~deeper, middle
            if mask:
                found[low + 1] = found.get(low + 1, 0) | mask
        return self._checked(hashes, found)

    def _checked(self, hashes: Sequence[int], found: dict[int, int]) -> dict[int, int]:
        get = self._holders.get
        out: dict[int, int] = {}
        for depth, mask in found.items():
            sound = mask
            for place in range(0, depth, max(depth // _CHECKS, 1)):
                sound &= get(hashes[place], 0)
            if sound:
                out[depth] = out.get(depth, 0) | sound
            for bit in bits_of(mask & ~sound):
                gap = next((place for place in range(depth) if not get(hashes[place], 0) & bit), depth)
                if gap:
                    out[gap] = out.get(gap, 0) | bit
        return out

    def _bit(self, worker: str) -> int:
        bit = self._bits.get(worker)
        if bit is None:
            bit = self._bits[worker] = self.bits.hold(worker)
        return bit
