"""Targets by what they have to do already, least first, kept in order while loads change: a choice among a thousand looks at a few."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from antiphon.router.targets import Target

Entry = tuple[float, int, int, Target]
"""The load of a target, when it was chosen last, its place among all, and itself."""


class LoadOrder:
    """The load, as a job of `priority` sees it, is `prefill_scale` times the tokens to compute first, and the tokens that decode.

    Whoever changes a target's load says so with `mark`; the target gets its new place when somebody looks. A place costs the
    logarithm of the number of targets, and moving the pointers behind it, which for thousands is less than that."""

    def __init__(self, prefill_scale: float, priority: int = 0) -> None:
        self._scale = prefill_scale
        self._priority = priority
        self._entries: list[Entry] = []
        self._of: dict[str, Entry] = {}
        self._marked: dict[str, Target] = {}

    def __iter__(self) -> Iterator[Entry]:
        self._settle()
        return iter(self._entries)

    def least(self) -> Target:
        """The first of them; there is one."""
        return next(iter(self))[3]

    def fill(self, targets: Iterable[Target]) -> None:
        """These targets and no others; equal ones stand in this order."""
        self._of = {target.name: self._entry(target, place) for place, target in enumerate(targets)}
        self._entries = sorted(self._of.values())
        self._marked.clear()

    def mark(self, target: Target) -> None:
        """The target's load has changed, or it was chosen."""
        self._marked[target.name] = target

    def entry(self, name: str) -> Entry | None:
        """A target's entry; None for one that is not here."""
        if self._marked:
            self._settle()
        return self._of.get(name)

    def _entry(self, target: Target, place: int) -> Entry:
        return self._scale * target.ahead_of(self._priority) + target.decode, target.last_chosen, place, target

    def _settle(self) -> None:
        entries = self._entries
        for name, target in self._marked.items():
            old = self._of.get(name)
            # Jobs of a target that was replaced by another of its name move nobody.
            if old is None or old[3] is not target:
                continue
            new = self._entry(target, old[2])
            if new[:2] != old[:2]:
                del entries[bisect_left(entries, old)]
                insort(entries, new)
                self._of[name] = new
        self._marked.clear()


class LoadOrders:
    """An order for each priority that asks come with: `most` of them, and above these the nearest lower one stands in."""

    def __init__(self, prefill_scale: float, *, most: int = 4) -> None:
        self._scale = prefill_scale
        self._most = most
        self._targets: tuple[Target, ...] = ()
        self._prioritizes = False
        self._orders = {0: LoadOrder(prefill_scale)}

    def fill(self, targets: Iterable[Target]) -> None:
        """These targets and no others."""
        self._targets = tuple(targets)
        self._prioritizes = any(target.info.prioritizes for target in self._targets)
        self._orders = {0: LoadOrder(self._scale)}
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
        order = self._orders[priority] = LoadOrder(self._scale, priority)
        order.fill(self._targets)
        return order
