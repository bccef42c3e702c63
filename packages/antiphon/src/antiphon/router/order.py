"""Targets by what they have to do already, least first, kept in order while loads change: a choice among a thousand looks at a few."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice

from antiphon.router.bits import Holders, TargetBits
from antiphon.router.targets import Target

# A chunk is split above the one, and joined with the next below the other.
_MOST, _LEAST = 64, 16
# So many of the first ones are asked one by one before the bits of a group are put together.
_GLANCE = 8

Entry = tuple[float, int, int, Target, int]
"""The load of a target, when it was chosen last, its place among all, itself, and its bit."""


class _Chunk:
    """Entries that follow each other, and the bits of their targets."""

    __slots__ = ("entries", "mask")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.mask = 0
        for entry in entries:
            self.mask |= entry[4]


class LoadOrder:
    """The load, as a job of `priority` sees it, is `prefill_scale` times the tokens to compute first, and the tokens that decode.

    Whoever changes a target's load says so with `mark`; the target gets its new place when somebody looks. Entries lie in chunks that
    know who is in them, so the first ones of a group are found without a look at those before them. A place costs the logarithm of
    the number of targets, and what moves within a chunk."""

    def __init__(self, prefill_scale: float, priority: int = 0, *, bits: TargetBits | None = None) -> None:
        self._scale = prefill_scale
        self._priority = priority
        self._bits = TargetBits() if bits is None else bits
        self._chunks: list[_Chunk] = []
        self._lasts: list[Entry] = []
        self._of: dict[str, Entry] = {}
        self._marked: dict[str, Target] = {}

    def __iter__(self) -> Iterator[Entry]:
        self._settle()
        return chain.from_iterable(chunk.entries for chunk in self._chunks)

    def first(self) -> Entry:
        """The first of them; there is one."""
        self._settle()
        return self._chunks[0].entries[0]

    def least(self) -> Target:
        """Its target."""
        return self.first()[3]

    def members(self, holders: Collection[str]) -> Iterator[Entry]:
        """All entries of a group in order, and maybe others: `holders` says which. To be read before the next `mark`."""
        self._settle()
        if isinstance(holders, Holders) and holders.bits is self._bits:
            mask = holders.mask
        else:
            yield from islice(self, _GLANCE)
            mask = self._bits.mask(holders)
        for chunk in self._chunks:
            if chunk.mask & mask:
                for entry in chunk.entries:
                    if entry[4] & mask:
                        yield entry

    def fill(self, targets: Iterable[Target]) -> None:
        """These targets and no others; equal ones stand in this order."""
        before = list(self._of)
        self._of = {}
        for place, target in enumerate(targets):
            self._of[target.name] = self._entry(target, place, self._bits.hold(target.name))
        for name in before:
            self._bits.release(name)
        entries = sorted(self._of.values())
        self._chunks = [_Chunk(entries[start : start + _MOST // 2]) for start in range(0, len(entries), _MOST // 2)]
        self._lasts = [chunk.entries[-1] for chunk in self._chunks]
        self._marked.clear()

    def mark(self, target: Target) -> None:
        """The target's load has changed, or it was chosen."""
        self._marked[target.name] = target

    def entry(self, name: str) -> Entry | None:
        """A target's entry; None for one that is not here."""
        if self._marked:
            self._settle()
        return self._of.get(name)

    def _entry(self, target: Target, place: int, bit: int) -> Entry:
        return self._scale * target.ahead_of(self._priority) + target.decode, target.last_chosen, place, target, bit

    def _settle(self) -> None:
        for name, target in self._marked.items():
            old = self._of.get(name)
            # Jobs of a target that was replaced by another of its name move nobody.
            if old is None or old[3] is not target:
                continue
            new = self._entry(target, old[2], old[4])
            if new[:2] != old[:2]:
                self._take(old)
                self._put(new)
                self._of[name] = new
        self._marked.clear()

    def _take(self, entry: Entry) -> None:
        at = bisect_left(self._lasts, entry)
        chunk = self._chunks[at]
        entries = chunk.entries
        del entries[bisect_left(entries, entry)]
        chunk.mask ^= entry[4]
        if len(entries) < _LEAST and at + 1 < len(self._chunks):
            after = self._chunks.pop(at + 1)
            del self._lasts[at]
            entries += after.entries
            chunk.mask |= after.mask
            self._halve(at)
        elif entries:
            self._lasts[at] = entries[-1]
        else:
            del self._chunks[at], self._lasts[at]

    def _put(self, entry: Entry) -> None:
        if not self._chunks:
            self._chunks, self._lasts = [_Chunk([entry])], [entry]
            return
        at = min(bisect_left(self._lasts, entry), len(self._chunks) - 1)
        chunk = self._chunks[at]
        insort(chunk.entries, entry)
        chunk.mask |= entry[4]
        self._lasts[at] = chunk.entries[-1]
        self._halve(at)

    def _halve(self, at: int) -> None:
        entries = self._chunks[at].entries
        if len(entries) > _MOST:
            middle = len(entries) // 2
            self._chunks[at : at + 1] = _Chunk(entries[:middle]), _Chunk(entries[middle:])
            self._lasts.insert(at, entries[middle - 1])


class LoadOrders:
    """An order for each priority that asks come with: `most` of them, and above these the nearest lower one stands in."""

    def __init__(self, prefill_scale: float, *, most: int = 4, bits: TargetBits | None = None) -> None:
        self._scale = prefill_scale
        self._bits = TargetBits() if bits is None else bits
        self._most = most
        self._targets: tuple[Target, ...] = ()
        self._prioritizes = False
        self._orders = {0: LoadOrder(prefill_scale, bits=self._bits)}

    def fill(self, targets: Iterable[Target]) -> None:
        """These targets and no others."""
        self._targets = tuple(targets)
        self._prioritizes = any(target.info.prioritizes for target in self._targets)
        for priority in [known for known in self._orders if known]:
            self._orders.pop(priority).fill(())
        self._orders[0].fill(self._targets)

    def mark(self, target: Target) -> None:
        """The target's load has changed, or it was chosen."""
        for order in self._orders.values():
            order.mark(target)

    def of(self, priority: int) -> LoadOrder:
        """The order as a job of this priority sees it."""
        found = self._orders.get(priority)
        if found is not None:
            return found
        if priority <= 0 or not self._prioritizes:
            return self._orders[0]
        if len(self._orders) >= self._most:
            return self._orders[max(known for known in self._orders if known < priority)]
        order = self._orders[priority] = LoadOrder(self._scale, priority, bits=self._bits)
        order.fill(self._targets)
        return order
