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
    """A bounded queue. `push` says whether there was room."""

    def __init__(self, limit: int, *, strict_seconds: float = 60.0) -> None:
        self._limit = limit
        self._strict_seconds = strict_seconds
        self._heap: list[tuple[tuple[int, float], int, str]] = []
        self._waiting: dict[str, Waiting] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(sorted(self._waiting.values(), key=lambda one: one.rank))

    def push(self, request: Waiting) -> bool:
        """False: the queue is full, and the request should be refused with a time to come back."""
        if len(self._waiting) >= self._limit:
            return False
        self._pushed += 1
        self._waiting[request.key] = request
        heapq.heappush(self._heap, (request.rank, self._pushed, request.key))
        return True

    def pop(self, now: float) -> Waiting | None:
        """The next one. A request that has waited `strict_seconds` goes before every strict priority, the oldest first."""
        # Arrivals come in the order of time, and a dictionary keeps it.
        oldest = next(iter(self._waiting.values()), None)
        if oldest is not None and now - oldest.arrival >= self._strict_seconds:
            return self._waiting.pop(oldest.key)
        while self._heap:
            found = self._waiting.pop(heapq.heappop(self._heap)[2], None)
            if found is not None:
                return found
        return None

    def remove(self, key: str) -> bool:
        """A request that waits no longer (its client has gone)."""
        return self._waiting.pop(key, None) is not None
