"""Jobs of the mock engine in one continuous batch, in time."""

import asyncio
from collections.abc import AsyncGenerator

from antiphon.simulation.batch import Batch, Request, Sampled
from antiphon.simulation.clock import Clock
from antiphon_turns.errors import StreamInterrupted, WorkerRefusal

Arrivals = asyncio.Queue[Sampled | None]


class BatchRunner:
    """Steps the batch while there is anything in it, each step as long as it takes by the clock."""

    def __init__(self, batch: Batch, clock: Clock) -> None:
        self._batch = batch
        self._clock = clock
        self._arrivals: dict[int, Arrivals] = {}
        self._admitted: dict[int, float] = {}
        self._task: asyncio.Task[None] | None = None

    async def run(self, request: Request) -> AsyncGenerator[tuple[Sampled, float], None]:
        """What is sampled of one sequence, with the seconds it waited for its first step. Closing it frees the sequence. Raises
        WorkerRefusal for one that never fits, StreamInterrupted when the runner is stopped."""
        submitted = self._clock.now()
        try:
            key = self._batch.add(request)
        except ValueError as error:
            raise WorkerRefusal(f"the mock engine cannot hold this request: {error}; --mock-cache-blocks makes it larger") from None
        arrived = self._arrivals[key] = Arrivals()
        if self._task is None:
            self._task = asyncio.create_task(self._drive())
        try:
            while True:
                sampled = await arrived.get()
                if sampled is None:
                    raise StreamInterrupted("the mock engine was stopped")
                yield sampled, self._admitted[key] - submitted
                if sampled.ended:
                    return
        finally:
            self._arrivals.pop(key, None)
            self._admitted.pop(key, None)
            self._batch.cancel(key)

    def stop(self) -> None:
        """Ends every sequence."""
        if self._task is not None:
            self._task.cancel()

    async def _drive(self) -> None:
        due = self._clock.now()
        try:
            while len(self._batch):
                begun = self._clock.now()
                step = self._batch.step()
                self._admitted.update((key, begun) for key in step.admitted)
                # Timers are coarse and steps short, so each ends where the sum of all so far says.
                due += step.seconds
                await self._clock.sleep(max(due - self._clock.now(), 0.0))
                for sampled in step.sampled:
                    arrived = self._arrivals.get(sampled.key)
                    if arrived is not None:
                        arrived.put_nowait(sampled)
        finally:
            self._task = None
            if len(self._batch):
                for arrived in self._arrivals.values():
                    arrived.put_nowait(None)
