"""Which blocks each target holds, as its engine told: sets, because whole messages enter them at once."""

from collections.abc import Sequence

from antiphon.router.cost import Overlap
from antiphon.router.feed_blocks import DEVICE, DISK, HOST, TIERS
from antiphon.router.kv_pipe import Record

_CHECKS = 4


class TargetBlocks:
    """The blocks of one target by tier."""

    def __init__(self) -> None:
        self._tiers: tuple[set[int], ...] = tuple(set() for _ in TIERS)

    def __len__(self) -> int:
        return sum(map(len, self._tiers))

    def on_device(self) -> frozenset[int]:
        """A copy of the device's hashes."""
        return frozenset(self._tiers[DEVICE])

    def apply(self, record: Record) -> None:
        """One operation. Stores and removals of the same blocks change nothing the second time."""
        tier = self._tiers[record.tier]
        if record.operation == "store":
            tier.update(record.hashes)
        elif record.operation == "remove":
            tier.difference_update(record.hashes)
        else:
            tier.clear()

    def holds_all(self, hashes: Sequence[int]) -> bool:
        """Whether every block is somewhere."""
        return all(any(block in tier for tier in self._tiers) for block in hashes)

    def overlap(self, hashes: Sequence[int]) -> Overlap | None:
        """The cached beginning of a prompt: on the device, from there on in the host's memory, from there on on disk."""
        device = _reach(self._tiers[DEVICE], hashes, 0)
        host = _reach(self._tiers[HOST], hashes, device)
        disk = _reach(self._tiers[DISK], hashes, host)
        return Overlap(device=device, host=host - device, disk=disk - host) if disk else None


def _reach(held: set[int], hashes: Sequence[int], start: int) -> int:
    """How far `hashes` are held from `start` on.

    By halves, since a prefix is held without gaps but where an engine drops a block in the middle; a few places are checked for that, and
    where one is missing it is counted block by block."""
    if not held or start >= len(hashes) or hashes[start] not in held:
        return start
    low, high = start, len(hashes)
    while high - low > 1:
        middle = (low + high) // 2
        if hashes[middle] in held:
            low = middle
        else:
            high = middle
    step = max((high - start) // _CHECKS, 1)
    if all(hashes[place] in held for place in range(start, high, step)):
        return high
    return next(place for place in range(start, high) if hashes[place] not in held)
