"""Speculative prefill: after a turn, the certain beginning of the next prompt is computed while the client is busy elsewhere.

It goes to the worker that served the turn, as a job that fills the cache and gives way to any other. What a policy leaves out of the
next prompt (reasoning, once the user speaks again) is what makes this worth its time: the engine then holds another text than the one
that comes.
"""

import asyncio
import logging
from array import array
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Literal

import msgspec

from antiphon.engines.base import Engine, Job, Placement
from antiphon.explain.sent import common_prefix
from antiphon_turns import CallSegment, Segment, StopReason, TurnRequest
from antiphon_turns.errors import AntiphonError, CapacityError

log = logging.getLogger("antiphon")

Mode = Literal["asked", "always", "off"]
Outcome = Literal["finished", "needless", "cancelled", "dropped", "failed"]
Result = tuple[Outcome, int]
Line = tuple[str, str]
"""Tenant and session: whose next request ends the speculation about it."""

Predict = Callable[[TurnRequest, Sequence[Segment], str], Awaitable["array[int]"]]
"""`Predict(request, reply, tenant)`: see `Prompts.ahead`."""


class SpeculationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`mode`: for whom the next prefix is computed ahead; `jobs`: how many of these run at once."""

    mode: Mode = "asked"
    jobs: int = 4


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended. `job` is its own, `output_ids` all that was sampled, `worker` who sampled the last of it, None where there
    is only one."""

    line: Line
    request: TurnRequest
    reply: tuple[Segment, ...]
    stop_reason: StopReason
    job: Job
    output_ids: Sequence[int]
    worker: str | None = None


class Speculation:
    """The speculative jobs of one engine. Nothing that happens to one reaches a client. `count` hears of every outcome, with the number
    of tokens that were computed ahead. For one event loop."""

    def __init__(self, engine: Engine, predict: Predict, *, options: SpeculationOptions, count: Callable[[Outcome, int], None]) -> None:
        self._engine = engine
        self._predict = predict
        self._options = options
        self._count = count
        self._tasks: dict[Line, asyncio.Task[Result]] = {}
        self._ending: set[asyncio.Task[Result]] = set()
        self._sent = 0

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def sent(self) -> bool:
        """Whether a job of one of them is with the engine."""
        return self._sent > 0

    def arrived(self, line: Line) -> None:
        """A real request of the session is there: nothing has to be guessed any more."""
        task = self._tasks.pop(line, None)
        if task is not None:
            self._ending.add(task)
            task.cancel()

    def follow(self, turn: Finished, *, tenant: str) -> None:
        """A turn has ended; returns at once."""
        if not self._wanted(turn):
            return
        self.arrived(turn.line)
        if len(self._tasks) >= self._options.jobs or not self._engine.ready():
            self._count("dropped", 0)
            return
        task = asyncio.create_task(self._run(turn, tenant))
        self._tasks[turn.line] = task
        task.add_done_callback(lambda done: self._ended(turn.line, done))

    async def idle(self) -> None:
        """Waits until none runs."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Ends what runs."""
        for line in list(self._tasks):
            self.arrived(line)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _ended(self, line: Line, task: "asyncio.Task[Result]") -> None:
        if self._tasks.get(line) is task:
            del self._tasks[line]
        self._ending.discard(task)
        self._count(*(("cancelled", 0) if task.cancelled() else task.result()))

    def _wanted(self, turn: Finished) -> bool:
        """Whether the client wants it, and whether anything is certain about its next request."""
        request, mode = turn.request, self._options.mode
        if mode == "off" or not (mode == "always" or request.hints.speculative_prefill):
            return False
        if request.session_ends or request.prompt is not None or not turn.reply:
            return False
        cut = any(isinstance(segment, CallSegment) and segment.status == "truncated" for segment in turn.reply)
        return turn.stop_reason in ("end_turn", "tool_use") and not cut

    async def _run(self, turn: Finished, tenant: str) -> Result:
        try:
            prefix = await self._predict(turn.request, turn.reply, tenant)
            held = common_prefix(prefix, array("I", turn.job.prompt_ids) + array("I", turn.output_ids))
            if held == len(prefix):
                return "needless", 0
            await self._compute(job_ahead(turn, prefix))
        except CapacityError:
            return "dropped", 0
        except AntiphonError as error:
            log.debug("%s: nothing computed ahead: %s", turn.job.request_id, error.message)
            return "failed", 0
        return "finished", len(prefix) - held

    async def _compute(self, job: Job) -> None:
        self._sent += 1
        try:
            async with aclosing(self._engine.generate(job)) as chunks:
                async for _ in chunks:
                    pass
        finally:
            self._sent -= 1


def job_ahead(turn: Finished, prefix: Sequence[int]) -> Job:
    """A job that only fills the cache of the worker that served the turn. It is as urgent as nothing else, and kept as long as the turn's
    own prompt."""
    place = turn.job.placement
    wish = place.wish if turn.worker is None else msgspec.structs.replace(place.wish, worker=turn.worker)
    return msgspec.structs.replace(
        turn.job,
        request_id=f"{turn.job.request_id}-ahead",
        prompt_ids=prefix,
        max_tokens=1,
        priority=min(turn.job.priority, 0),
        prefill_only=True,
        placement=Placement(session=place.session, parent=place.parent, osl=0, wish=wish),
    )
