"""What workers will hold once the prompts sent to them are computed: entries that expire, until the engine's own events come. For
engines without events they are the only index there is."""

from collections import OrderedDict
from collections.abc import Callable, Sequence


class PredictedIndex:
    """`seconds` is the life of an entry: a few where events follow, minutes where none do. `clock` gives seconds."""

    def __init__(self, seconds: float, *, clock: Callable[[], float], max_blocks: int = 1_000_000) -> None:
        self._seconds = seconds
        self._clock = clock
        self._max = max_blocks
        self._until: dict[str, OrderedDict[int, float]] = {}

    def store(self, worker: str, hashes: Sequence[int]) -> None:
        """A prompt with these blocks was sent to the worker."""
        until = self._clock() + self._seconds
        entries = self._until.setdefault(worker, OrderedDict())
        for block in hashes:
            entries[block] = until
            entries.move_to_end(block)
        while len(entries) > self._max:
            entries.popitem(last=False)

    def clear(self, worker: str) -> None:
        """The worker has lost everything, or is gone."""
        self._until.pop(worker, None)

    def depths(self, hashes: Sequence[int]) -> dict[str, int]:
        """As `PrefixIndex.depths`."""
        now = self._clock()
        found = {}
        for worker, entries in self._until.items():
            while entries and next(iter(entries.values())) <= now:
                entries.popitem(last=False)
            depth = _depth(entries, hashes)
            if depth:
                found[worker] = depth
        return found


def _depth(entries: "OrderedDict[int, float]", hashes: Sequence[int]) -> int:
    low, high = 0, len(hashes)
    while low < high:
        middle = (low + high) // 2
        if hashes[middle] in entries:
            low = middle + 1
        else:
            high = middle
    return low
