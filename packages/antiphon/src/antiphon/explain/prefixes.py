"""Everything that tenants sent, as trees of blocks, to find the longest prefix that a prompt shares with any of it."""

from array import array
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from antiphon.router.hashing import extend, root_of

BLOCK_TOKENS = 256
_WIDTH = 4
# Beside its ids: a hash, a tuple, slots of two dictionaries, a list of its own.
_BLOCK_BYTES = 520


class SentPrefixes:
    """The ids of what was sent, each block once however many prompts begin with it. A tenant's tree hangs below the tenant's root, so
    that nobody meets another's prompts. Bounded by bytes; what was not sent for the longest time goes first, ends before
    beginnings. A prompt costs a look-up for each of its blocks, and memory for the new ones. Not safe to share between threads.

    A block's hash is chained: it stands for everything up to the block's end. The last block of a prompt may be short.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._blocks: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        # Below each hash what followed, in the order of bytes: the neighbours of any block are those that begin most like it.
        self._behind: dict[int, list[bytes]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def shared(self, tenant: str, ids: "array[int]", hashes: Sequence[int]) -> int:
        """How many ids from the beginning were sent before, in one row. `hashes` are those of the whole blocks."""
        held = next((number for number, block in enumerate(hashes) if block not in self._blocks), len(hashes))
        start = held * BLOCK_TOKENS
        rest = ids[start : start + BLOCK_TOKENS].tobytes()
        behind = self._behind.get(hashes[held - 1] if held else root_of(tenant), [])
        place = bisect_left(behind, rest)
        return start + max((_common(rest, other) for other in behind[max(place - 1, 0) : place + 1]), default=0)

    def add(self, tenant: str, ids: "array[int]", hashes: Sequence[int]) -> None:
        """Keeps a prompt, with what was sampled behind it; `hashes` as in `shared`."""
        parents = [root_of(tenant), *hashes]
        tail = ids[len(hashes) * BLOCK_TOKENS :].tobytes()
        path = list(hashes)
        if tail:
            path.append(xxh3_64_intdigest(tail, seed=parents[-1]))
        for number, block in enumerate(path):
            if block not in self._blocks:
                start = number * BLOCK_TOKENS
                path[number] = self._insert(block, parents[number], ids[start : start + BLOCK_TOKENS].tobytes())
        # The end is the oldest of a prompt, so that a prompt is forgotten from its end.
        for block in reversed(path):
            self._blocks.move_to_end(block)
        while self.bytes > self._max:
            self._forget(next(iter(self._blocks)))

    def _insert(self, block: int, parent: int, data: bytes) -> int:
        """Which block holds these ids now."""
        behind = self._behind.setdefault(parent, [])
        place = bisect_left(behind, data)
        if place < len(behind) and behind[place].startswith(data):
            return xxh3_64_intdigest(behind[place], seed=parent)
        if place and data.startswith(behind[place - 1]):
            # A conversation has grown: its short last block is the beginning of this one.
            self._forget(xxh3_64_intdigest(behind[place - 1], seed=parent))
            behind = self._behind.setdefault(parent, [])
        insort(behind, data)
        self._blocks[block] = parent, data
        self.bytes += len(data) + _BLOCK_BYTES
        return block

    def _forget(self, block: int) -> None:
        parent, data = self._blocks.pop(block)
        self.bytes -= len(data) + _BLOCK_BYTES
        behind = self._behind[parent]
        del behind[bisect_left(behind, data)]
        if not behind:
            del self._behind[parent]


def hashes_of(tenant: str, ids: Sequence[int], known: Sequence[int] = ()) -> list[int]:
    """Chained hashes of the whole blocks of a prompt; `known` are those of its beginning."""
    rest = ids[len(known) * BLOCK_TOKENS :]
    return [*known, *extend(rest, known[-1] if known else root_of(tenant), BLOCK_TOKENS)]


def _common(one: bytes, other: bytes) -> int:
    """How many ids two short rows of them share from the beginning."""
    low, high = 0, min(len(one), len(other)) // _WIDTH
    while low < high:
        middle = (low + high + 1) // 2
        if one[: middle * _WIDTH] == other[: middle * _WIDTH]:
            low = middle
        else:
            high = middle - 1
    return low
