"""What workers will hold once the prompts sent to them are computed: entries that expire, until the engine's own events come. For
engines without events they are the only index there is."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from antiphon.router.bits import Holders, TargetBits

# A sweep costs as much as everything that is held, so it waits for as many new blocks as it left, and for at least these.
_SWEEP_BLOCKS = 65_536


class _Node:
    """A run of block hashes that follow each other, and until when each worker is believed to hold all of it; the prompt that came last
    is the last one there. `mask` has the bits of all these workers, and may have more."""

    __slots__ = ("children", "mask", "run", "until")

    def __init__(self, run: list[int], until: dict[int, float], mask: int) -> None:
        self.run = run
        self.until = until
        self.mask = mask
        self.children: dict[int, _Node] = {}


class PredictedIndex:
    """A tree of runs. Hashes are chained, so an equal hash means an equal beginning, and a run is compared by binary search.
    `seconds` is the life of an entry where `store` says no other; `clock` gives seconds; `bits` are those of its groups."""

    def __init__(self, seconds: float, *, clock: Callable[[], float], max_blocks: int = 1_000_000, bits: TargetBits | None = None) -> None:
        self._bits = TargetBits() if bits is None else bits
        self._seconds = seconds
        self._clock = clock
        self._max = max_blocks
        self._root = _Node([], {}, 0)
        # A worker that is cleared gets another number, and what is known of the old one counts no longer.
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._given = 0
        self._blocks = 0
        self._sweep_at = min(_SWEEP_BLOCKS, max_blocks)

    def __len__(self) -> int:
        return self._blocks

    def store(self, worker: str, hashes: Sequence[int], *, seconds: float | None = None) -> None:
        """A prompt with these blocks was sent to the worker."""
        until = self._clock() + (self._seconds if seconds is None else seconds)
        number, bit = self._number(worker), self._bits.of(worker)
        node, at, end = self._root, 0, len(hashes)
        while at < end:
            child = node.children.get(hashes[at])
            if child is None:
                self._grow(node, hashes, at, number, until, bit)
                break
            same = _shared(child.run, hashes, at)
            if same < len(child.run):
                _split(child, same)
            child.until[number] = max(until, child.until.pop(number, 0.0))
            child.mask |= bit
            at += same
            node = child
        if self._blocks > self._sweep_at:
            self._sweep()

    def clear(self, worker: str) -> None:
        """The worker has lost everything, or is gone."""
        number = self._numbers.pop(worker, None)
        if number is not None:
            del self._names[number]
            self._bits.release(worker)

    def close(self) -> None:
        """Nothing is known of anybody, and no bit is held."""
        for worker in list(self._numbers):
            self.clear(worker)

    def depths(self, hashes: Sequence[int]) -> dict[str, int]:
        """As `PrefixIndex.depths`."""
        return {name: depth for depth, holders in self.levels(hashes) for name in holders}

    def levels(self, hashes: Sequence[int]) -> list[tuple[int, Collection[str]]]:
        """Growing numbers of blocks, each with the workers that are believed to hold so many or more."""
        now = self._clock()
        found: list[tuple[int, Collection[str]]] = []
        node, at, end = self._root, 0, len(hashes)
        while at < end:
            child = node.children.get(hashes[at])
            if child is None:
                break
            same = _shared(child.run, hashes, at)
            at += same
            self._expire(child, now)
            found.append((at, _Believed(child, now, self._numbers, self._names, self._bits)))
            if same < len(child.run):
                break
            node = child
        return found

    def _number(self, worker: str) -> int:
        number = self._numbers.get(worker)
        if number is None:
            self._given += 1
            number = self._numbers[worker] = self._given
            self._names[number] = worker
            self._bits.hold(worker)
        return number

    def _grow(self, node: _Node, hashes: Sequence[int], at: int, number: int, until: float, bit: int) -> None:
        rest = list(hashes[at:])
        if node is not self._root and not node.children and node.until == {number: until}:
            # One session on one worker stays one run, however many turns it has.
            node.run += rest
        else:
            node.children[rest[0]] = _Node(rest, {number: until}, bit)
        self._blocks += len(rest)

    def _expire(self, node: _Node, now: float) -> None:
        # Entries that live as long as each other expire in the order in which they came, so each is looked at once. One that lives longer
        # keeps those behind it, which count for nothing.
        until = node.until
        while until:
            number = next(iter(until))
            if until[number] > now:
                break
            del until[number]
            node.mask &= ~self._bits.of(self._names.get(number))

    def _sweep(self) -> None:
        """Forgets what has expired; if that does not make room, what would expire soonest."""
        cutoff = self._clock()
        while True:
            self._drop(cutoff)
            if self._blocks <= self._max * 3 // 4:
                break
            ends = sorted(max(node.until.values(), default=0.0) for node in self._walk())
            cutoff = ends[len(ends) // 3]
        self._sweep_at = min(max(2 * self._blocks, _SWEEP_BLOCKS), self._max)

    def _drop(self, cutoff: float) -> None:
        todo = [self._root]
        blocks = 0
        while todo:
            node = todo.pop()
            for first, child in list(node.children.items()):
                child.until = {number: until for number, until in child.until.items() if until > cutoff and number in self._names}
                child.mask = self._bits.mask(self._names[number] for number in child.until)
                if child.until:
                    blocks += len(child.run)
                    todo.append(child)
                else:
                    # Whatever lies behind it was stored together with it, and goes too.
                    del node.children[first]
        self._blocks = blocks

    def _walk(self) -> Iterator[_Node]:
        todo = list(self._root.children.values())
        while todo:
            node = todo.pop()
            yield node
            todo += node.children.values()


class _Believed(Holders):
    """The workers of a node that have not expired. Their number is an upper bound, as the mask is."""

    def __init__(self, node: _Node, now: float, numbers: Mapping[str, int], names: Mapping[int, str], bits: TargetBits) -> None:
        super().__init__(node.mask, bits)
        self._until = node.until
        self._now = now
        self._numbers = numbers
        self._names = names

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, name: object) -> bool:
        number = self._numbers.get(name)  # type: ignore[call-overload]
        return number is not None and self._until.get(number, 0.0) > self._now

    def __iter__(self) -> Iterator[str]:
        return (self._names[number] for number, until in self._until.items() if until > self._now and number in self._names)


def _shared(run: list[int], hashes: Sequence[int], at: int) -> int:
    """How many blocks of the run stand in `hashes` from `at` on; the first does."""
    high = min(len(run), len(hashes) - at)
    if run[high - 1] == hashes[at + high - 1]:
        return high
    low = 1
    while high - low > 1:
        middle = (low + high) // 2
        if run[middle - 1] == hashes[at + middle - 1]:
            low = middle
        else:
            high = middle
    return low


def _split(node: _Node, length: int) -> None:
    """Makes what is behind the first `length` blocks of a run a run of its own."""
    rest = _Node(node.run[length:], dict(node.until), node.mask)
    rest.children = node.children
    node.run = node.run[:length]
    node.children = {rest.run[0]: rest}
