"""Who waits for which workers: one queue for each set of them, which together behave like one."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from antiphon.router.ask import Ask
from antiphon.router.queue import Waiting, WaitingQueue


class Group(NamedTuple):
    """Asks that the same targets could serve. `home` is a target's name, under strict affinity."""

    grammar: bool = False
    worker: str | None = None
    rank: int | None = None
    exclude: frozenset[str] = frozenset()
    home: str | None = None


ANYBODY = Group()


class WaitingAsks:
    """At most `limit` in all. An ask waits with others of its group, so that one whose workers are busy keeps nobody else waiting."""

    def __init__(self, limit: int, *, strict_seconds: float) -> None:
        self._limit = limit
        self._strict_seconds = strict_seconds
        self._queues: dict[Group, WaitingQueue] = {}
        self._asks: dict[str, tuple[Group, Ask]] = {}

    def __len__(self) -> int:
        return len(self._asks)

    def __contains__(self, key: str) -> bool:
        return key in self._asks

    def __iter__(self) -> Iterator[Ask]:
        return iter([ask for _, ask in self._asks.values()])

    def push(self, ask: Ask, group: Group) -> bool:
        """False: there are too many already."""
        if len(self._asks) >= self._limit:
            return False
        queue = self._queues.get(group)
        if queue is None:
            queue = self._queues[group] = WaitingQueue(self._limit, strict_seconds=self._strict_seconds)
        placement = ask.placement
        self._asks[ask.key] = group, ask
        return queue.push(
            Waiting(
                key=ask.key,
                arrival=ask.arrival,
                priority=ask.priority,
                strict_priority=placement.strict_priority,
                head_start=placement.head_start,
            )
        )

    def pop(self, now: float, could: Callable[[Group, int], bool]) -> tuple[Group, Ask] | None:
        """The next one of those that could be served now, which `could` says of their group and priority."""
        best = None
        for group, queue in self._queues.items():
            first = queue.first(now)
            if first is not None and (best is None or queue.order(first, now) < best[0]) and could(group, first.priority):
                best = queue.order(first, now), first.key
        if best is None:
            return None
        found = self._asks[best[1]]
        self.remove(best[1])
        return found

    def remove(self, key: str) -> bool:
        """Whether it waited."""
        found = self._asks.pop(key, None)
        if found is None:
            return False
        queue = self._queues[found[0]]
        queue.remove(key)
        if not len(queue):
            del self._queues[found[0]]
        return True

    def take_all(self) -> list[Ask]:
        """All of them, in the order they came; nobody waits any longer."""
        asks = list(self)
        self._asks.clear()
        self._queues.clear()
        return asks
