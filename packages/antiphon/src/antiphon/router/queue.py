"""Who goes first when every worker is busy: priority with ageing, so that nothing waits for ever."""

import heapq
from collections.abc import Iterator

import msgspec

# The head start that one step of priority is worth. A waiting request gains on all later ones by the second, so a request of
# priority p overtakes at most what arrived within the last p of these.
SECONDS_PER_PRIORITY = 1.0


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One request in the queue. `strict_priority` comes before everything else; `priority` and `head_start` (seconds) are a head
    start over others that arrived before it. `arrival` in seconds."""

    key: str
    arrival: float
    priority: int = 0
    strict_priority: int = 0
    head_start: float = 0.0

    @property
    def rank(self) -> tuple[int, float]:
        """Lower goes first."""
        return -self.strict_priority, self.arrival - self.head_start - self.priority * SECONDS_PER_PRIORITY


class WaitingQueue:
    """A bounded queue. `push` says whether there was room. After `strict_seconds` a request goes before every strict priority."""

    def __init__(self, limit: int, *, strict_seconds: float = 60.0) -> None:
        self._limit = limit
        self._strict_seconds = strict_seconds
        self._heap: list[tuple[tuple[int, float], int, str]] = []
        self._waiting: dict[str, tuple[int, Waiting]] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(sorted((one for _, one in self._waiting.values()), key=lambda one: one.rank))

    def push(self, request: Waiting) -> bool:
        """False: the queue is full, and the request should be refused with a time to come back."""
        if len(self._waiting) >= self._limit:
            return False
        self._pushed += 1
        self._waiting[request.key] = self._pushed, request
        heapq.heappush(self._heap, (request.rank, self._pushed, request.key))
        return True

    def first(self, now: float) -> Waiting | None:
        """The next one, which stays. The oldest, once it has waited long enough; else the one of the lowest rank."""
        # Arrivals come in the order of time, and a dictionary keeps it.
        _, oldest = next(iter(self._waiting.values()), (0, None))
        if oldest is None or self._is_due(oldest, now):
            return oldest
        while True:
            _, pushed, key = self._heap[0]
            number, found = self._waiting.get(key, (0, oldest))
            if number == pushed:
                return found
            heapq.heappop(self._heap)

    def order(self, request: Waiting, now: float) -> tuple[bool, tuple[int, float]]:
        """Sorts the first ones of several queues as one queue would."""
        due = self._is_due(request, now)
        return not due, (0, request.arrival) if due else request.rank

    def pop(self, now: float) -> Waiting | None:
        """The next one, taken out."""
        found = self.first(now)
        if found is not None:
            del self._waiting[found.key]
        return found

    def remove(self, key: str) -> bool:
        """A request that waits no longer (its client has gone)."""
        return self._waiting.pop(key, None) is not None

    def _is_due(self, request: Waiting, now: float) -> bool:
        return now - request.arrival >= self._strict_seconds
