"""Workers that fall silent: one timer for all running jobs, so that a token costs no timer of its own."""

import asyncio
from collections.abc import Callable
from typing import Any

from antiphon.simulation.clock import Clock

LONGEST_TICK_SECONDS = 1.0
# A worker that answers no probe either is given less time: its machine may be gone, and nobody will ever close the connection.
SUSPECT_SECONDS = 10.0
TICKS_PER_LIMIT = 8


class Wait:
    """One job's waiting. `quiet`: ticks since it last heard something. `expired`: it was given up, and its task interrupted."""

    __slots__ = ("expired", "is_suspect", "limit", "quiet", "task")

    def __init__(self, limit: int, is_suspect: Callable[[], bool]) -> None:
        self.limit = limit
        self.is_suspect = is_suspect
        self.quiet = 0
        self.task: asyncio.Task[Any] | None = None
        self.expired = False


class SilenceWatch:
    """Interrupts tasks whose job has heard nothing for too long: `first_seconds` until its first token, then `token_seconds`; less
    where its worker is suspect. A silence is noticed at most a second, or an eighth of the limit, too late."""

    def __init__(self, clock: Clock, *, first_seconds: float, token_seconds: float) -> None:
        self._clock = clock
        self._tick = min(first_seconds / TICKS_PER_LIMIT, token_seconds / TICKS_PER_LIMIT, LONGEST_TICK_SECONDS)
        self._first = round(first_seconds / self._tick)
        self._between = round(token_seconds / self._tick)
        self._suspect = round(SUSPECT_SECONDS / self._tick)
        self._waits: set[Wait] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self, is_suspect: Callable[[], bool]) -> Wait:
        """Watches a job, whose waits are marked by setting `task`. To be ended by `end`."""
        wait = Wait(self._first, is_suspect)
        self._waits.add(wait)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return wait

    def heard(self, wait: Wait) -> None:
        """Its first token is there."""
        wait.limit = self._between

    def end(self, wait: Wait) -> None:
        """Watches it no longer."""
        self._waits.discard(wait)

    def close(self) -> None:
        """Stops the timer."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waits:
                await self._clock.sleep(self._tick)
                for wait in self._waits:
                    self._look(wait)
        finally:
            self._task = None

    def _look(self, wait: Wait) -> None:
        if wait.task is None or wait.expired:
            return
        wait.quiet += 1
        # The first tick may have come right after the last token.
        if wait.quiet > wait.limit or (wait.quiet > self._suspect and wait.is_suspect()):
            wait.expired = True
            wait.task.cancel()
