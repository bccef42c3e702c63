"""Time as the simulated engine sees it: the machine's own, or one that a test moves."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
# Turns of the event loop in which nobody asks for time: after so many, whatever could go on without it has gone on.
SETTLE_TURNS = 25


class Clock(Protocol):
    """Seconds from an arbitrary beginning."""

    def now(self) -> float:
        """The time."""
        ...

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Waits; 0 lets others run."""
        ...


class RealClock:
    """The monotonic clock and the event loop's timers. Both are the plain functions: a call in between costs something for every token."""

    now = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


class VirtualClock:
    """Stands still until `run` moves it on to the next sleeper. For one event loop, with nothing that waits for the real world."""

    def __init__(self) -> None:
        self._now = 0.0
        self._asked = 0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """The time so far."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Waits until the clock has been moved so far."""
        self._asked += 1
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        await woken

    async def run(self, work: Coroutine[Any, Any, T], *, limit: float = float("inf")) -> T:
        """The work's result; time passes only while everything sleeps. Raises TimeoutError, and cancels the work, when it has nothing
        to wait for or would go beyond `limit` seconds."""
        task = asyncio.ensure_future(work)
        try:
            while True:
                await self._settle(task)
                if task.done():
                    return task.result()
                if not self._wake(limit):
                    raise TimeoutError(f"still waiting after {self._now:g} simulated seconds")
        finally:
            task.cancel()

    async def _settle(self, task: "asyncio.Future[Any]") -> None:
        quiet = 0
        while quiet < SETTLE_TURNS and not task.done():
            before = self._asked
            await asyncio.sleep(0)
            quiet = quiet + 1 if before == self._asked else 0

    def _wake(self, limit: float) -> bool:
        """Moves on to the next sleeper and wakes it; False when there is none within the limit."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        if not self._sleepers or self._sleepers[0][0] > limit:
            return False
        self._now, _, woken = heapq.heappop(self._sleepers)
        woken.set_result(None)
        return True
