"""Runs that go on without their client: `background: true`.

A run's events are kept as bare JSON in the order of their sequence numbers, from 0 and without gaps, so that a client can
follow from any of them, as often as it likes, also after the end while the run is remembered.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Literal, Protocol

from antiphon.http import printable
from antiphon.turn_route import FAULT
from antiphon_turns.errors import AntiphonError, InternalError, RateLimited, WorkerUnavailable

log = logging.getLogger("antiphon")

MAX_RUNNING = 256
# Ended runs stay for clients that follow late; what they take, in bytes of events, is bounded.
REMEMBERED_BYTES = 64 * 1024 * 1024
RETRY_SECONDS = 5.0


class RunProjector(Protocol):
    """What a run needs of its projector."""

    def snapshot(self, status: Literal["queued", "cancelled"] | None = None) -> bytes:
        """The response object as it stands; `status` replaces its own."""
        ...

    def fail_events(self, error: AntiphonError) -> list[bytes]:
        """The end of a run that failed."""
        ...

    def ended(self, body: bytes) -> None:
        """Keeps the final response object."""
        ...


class Run:
    """One background response."""

    def __init__(self, response_id: str, tenant: str, projector: RunProjector) -> None:
        self.response_id = response_id
        self.tenant = tenant
        self._projector = projector
        self._status: Literal["queued", "cancelled"] | None = "queued"
        self.payloads: list[bytes] = []
        self.size = 0
        self.ended = False
        self.task: asyncio.Task[None] | None = None
        self.cancel_wanted = False
        self._news = asyncio.Event()

    def add(self, payloads: list[bytes]) -> None:
        """Takes the next events."""
        if payloads:
            self._status = None
            self.payloads += payloads
            self.size += sum(map(len, payloads))
            self._wake()

    def body(self) -> bytes:
        """The response object as it stands."""
        return self._projector.snapshot(self._status)

    def fail(self, error: AntiphonError) -> None:
        """The run ends with an error, unless its response has ended already."""
        self.add(self._projector.fail_events(error))

    def end(self, *, cancelled: bool = False) -> None:
        """No more events come. A cancelled response has no event for it: its stream just ends."""
        if cancelled:
            self._status = "cancelled"
            self._projector.ended(self.body())
        self.ended = True
        self._wake()

    async def follow(self, start: int = 0) -> AsyncGenerator[list[bytes], None]:
        """Events from number `start` on, in batches, until the run has ended. Followers do not see each other."""
        at = max(start, 0)
        while True:
            if at < len(self.payloads):
                batch = self.payloads[at:]
                at = len(self.payloads)
                yield batch
            elif self.ended:
                return
            else:
                await self._news.wait()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class BackgroundRuns:
    """The runs of this process, running and recently ended."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._stopping = False

    @property
    def running(self) -> int:
        """How many have not ended."""
        return sum(not run.ended for run in self._runs.values())

    def find(self, tenant: str, response_id: str) -> Run | None:
        """A run that is remembered."""
        run = self._runs.get(response_id)
        return run if run is not None and run.tenant == tenant else None

    def forget(self, run: Run) -> None:
        """Drops an ended run."""
        self._runs.pop(run.response_id, None)

    def check_room(self) -> None:
        """Raises RateLimited when no further run may start, WorkerUnavailable when the server is stopping."""
        if self._stopping:
            raise WorkerUnavailable("the server is stopping; try again when it is back")
        if self.running >= MAX_RUNNING:
            raise RateLimited(f"{MAX_RUNNING} background responses are running; wait for one to end", retry_after=RETRY_SECONDS)

    def start(self, run: Run, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Gives `work` a task of its own, and returns that; whatever it raises ends the run as failed, a cancellation as cancelled."""
        self._runs[run.response_id] = run
        run.task = task = asyncio.create_task(work, name=run.response_id)
        task.add_done_callback(lambda done: self._ended(run, done))
        return task

    async def cancel(self, run: Run) -> None:
        """Stops a run and waits until it has ended; one that has ended already stays as it is."""
        run.cancel_wanted = True
        if run.task is not None and not run.task.done():
            run.task.cancel()
            await asyncio.wait({run.task})

    async def drain(self, seconds: float) -> None:
        """Lets runs end by themselves for so long, then breaks off those that are left. No further run starts."""
        self._stopping = True
        tasks = [run.task for run in self._runs.values() if run.task is not None and not run.task.done()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _ended(self, run: Run, task: "asyncio.Task[None]") -> None:
        """Gives a run the end that its task came to; a task that was cancelled before its first step had no other chance."""
        error = None if task.cancelled() else task.exception()
        if task.cancelled() and not run.cancel_wanted:
            run.fail(WorkerUnavailable("the server stopped before this response had ended"))
        elif isinstance(error, AntiphonError):
            log.warning("background %s: %s", run.response_id, printable(error.message))
            run.fail(error)
        elif error is not None:
            log.error("background %s failed", run.response_id, exc_info=error)
            run.fail(InternalError(FAULT))
        run.end(cancelled=task.cancelled() and run.cancel_wanted)
        self._trim()

    def _trim(self) -> None:
        """Forgets the runs that ended first, beyond what may be remembered."""
        ended = [run for run in self._runs.values() if run.ended]
        size = sum(run.size for run in ended)
        for run in ended:
            if size <= REMEMBERED_BYTES:
                break
            size -= run.size
            self.forget(run)
