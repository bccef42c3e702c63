"""Jobs that somebody else runs: placed and counted here, until their end is told or nothing is heard of them."""

import asyncio
from collections.abc import Sequence

from antiphon.router.ask import Ask, Placed, Queued, Refused, Released
from antiphon.router.router import Router
from antiphon_turns.errors import WorkerUnavailable

# A caller that died ends none of its jobs.
IDLE_SECONDS = 300.0


class Reservations:
    """By the caller's key. One of which nothing is heard for `idle_seconds` has ended."""

    def __init__(self, router: Router, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._router = router
        self._idle_seconds = idle_seconds
        self._expiry: dict[str, asyncio.TimerHandle] = {}
        self._waiting: dict[str, asyncio.Future[Released]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._expiry or key in self._waiting

    async def make(self, ask: Ask, *, max_wait: float) -> Placed | Refused:
        """Places the job; waits for room, at most `max_wait` seconds. Raises WorkerUnavailable when there was none."""
        answer = self._router.ask(ask)
        if isinstance(answer, Queued):
            waiting = self._waiting[ask.key] = asyncio.get_running_loop().create_future()
            placed = False
            try:
                async with asyncio.timeout(max_wait):
                    answer = await waiting
                placed = isinstance(answer, Placed)
            except TimeoutError:
                raise WorkerUnavailable(f"no worker had room for {max_wait:g} s; come back in a moment") from None
            finally:
                del self._waiting[ask.key]
                if not placed:
                    self.deal(self._router.done(ask.key))
        if isinstance(answer, Placed):
            self._heard(ask.key)
        return answer

    def prefilled(self, key: str) -> None:
        """Its first token is there."""
        self._heard(key)
        self.deal(self._router.prefilled(key))

    def progressed(self, key: str, tokens: int) -> None:
        """So many tokens more."""
        self._heard(key)
        self._router.progressed(key, tokens)

    def release(self, key: str) -> None:
        """It has ended, however."""
        expiry = self._expiry.pop(key, None)
        if expiry is not None:
            expiry.cancel()
        self.deal(self._router.done(key))

    def deal(self, released: Sequence[Released]) -> None:
        """Passes on what left the queue."""
        for one in released:
            waiting = self._waiting.get(one.key)
            if waiting is not None and not waiting.done():
                waiting.set_result(one)

    def close(self) -> None:
        """Ends all of them."""
        for key in list(self._expiry):
            self.release(key)
        for waiting in self._waiting.values():
            waiting.cancel()

    def _heard(self, key: str) -> None:
        before = self._expiry.get(key)
        if before is not None:
            before.cancel()
        self._expiry[key] = asyncio.get_running_loop().call_later(self._idle_seconds, self.release, key)
