"""A thread that writes, so that no disk is ever waited for on the event loop."""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger("antiphon")

PENDING_BYTES = 64 << 20
_CLOSE_SECONDS = 10.0


class Scribe(Generic[T]):
    """Hands items to `write`, in order, on a thread of its own. At most `pending_bytes` wait, by the sizes that come with them; what comes
    then, and what `write` cannot write (OSError), is lost and counted, and the log says so once in a row."""

    def __init__(self, what: str, write: Callable[[list[T]], None], *, pending_bytes: int = PENDING_BYTES) -> None:
        self._what = what
        self._write = write
        self._limit = pending_bytes
        self._queue: queue.SimpleQueue[tuple[T, int] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pending = 0
        self._failing = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._work, name=f"antiphon-{what.replace(' ', '-')}", daemon=True)
        self._thread.start()

    def take(self, item: T, size: int) -> None:
        """Takes an item of about so many bytes. Returns at once."""
        with self._lock:
            if self._pending + size <= self._limit:
                self._pending += size
                self._queue.put((item, size))
                return
        self._lost(1, "too much is waiting to be written")

    def close(self) -> None:
        """Writes what is pending, for a few seconds at most, and ends the thread."""
        self._queue.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        ended = False
        while not ended:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            entries = [entry for entry in batch if entry is not None]
            ended = len(entries) < len(batch)
            try:
                self._write([item for item, _ in entries])
                self._failing = False
            except OSError as error:
                self._lost(len(entries), str(error.strerror or error))
            with self._lock:
                self._pending -= sum(size for _, size in entries)

    def _lost(self, count: int, why: str) -> None:
        self.dropped += count
        if not self._failing:
            self._failing = True
            log.error("the %s loses entries: %s", self._what, why)
