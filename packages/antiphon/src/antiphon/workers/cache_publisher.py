"""A worker's cache, told to whoever listens: the engine collects what changes, and while jobs run it is published every few
milliseconds."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from antiphon.simulation.cache_events import CacheEvent
from antiphon.workers.kv_publisher import KvPublisher

# A router knows what it has sent itself; this is how long others may not know.
PUBLISH_SECONDS = 0.01


class RecordedCache(Protocol):
    """A prefix cache of `total_blocks` blocks of `block_tokens` tokens that remembers what changes."""

    block_tokens: int
    total_blocks: int

    def take_events(self) -> Sequence[CacheEvent]:
        """What has changed since the last call."""
        ...


@runtime_checkable
class HasCache(Protocol):
    """An engine with a cache of its own."""

    cache: RecordedCache


class CachePublisher:
    """Publishes for as long as `running` says that jobs run, and once behind the last."""

    def __init__(self, cache: RecordedCache, publisher: KvPublisher, *, running: Callable[[], int]) -> None:
        self._cache = cache
        self._publisher = publisher
        self._running = running
        self._timer: asyncio.TimerHandle | None = None

    def stir(self) -> None:
        """A job begins."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PUBLISH_SECONDS, self._tick)

    def close(self) -> None:
        """Nothing is published any more. The publisher stays its owner's."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        # Asked first: a job that ends now has told its last.
        again = self._running() > 0
        events = self._cache.take_events()
        if events:
            self._publisher.publish(events)
        if again:
            self.stir()
