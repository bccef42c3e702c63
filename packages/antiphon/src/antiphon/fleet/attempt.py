"""One worker's part of a job."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon.fleet.member import Member
from antiphon.fleet.silence import SilenceWatch
from antiphon.router.ask import Placed
from antiphon_turns import RoutingWish
from antiphon_turns.errors import StreamInterrupted, WorkerError, WorkerProtocolError, WorkerTimeout

log = logging.getLogger("antiphon")


class Attempt:
    """Reads a job's chunks from a worker that may fail in any way. `on_first` is called with the first token's arrival."""

    def __init__(
        self, member: Member, placed: Placed, job: Job, *, watch: SilenceWatch, vocab_size: int, on_first: Callable[[str], None]
    ) -> None:
        assert member.engine is not None, "jobs are placed on workers that were reached"
        self._member = member
        self._placed = placed
        self._chunks = member.engine.generate(_for_rank(job, member, placed))
        self._watch = watch
        self._wait = watch.begin(lambda: not member.health.is_well)
        self._vocab_size = vocab_size
        self._on_first: Callable[[str], None] | None = on_first
        self._waited: float | None = placed.waited
        member.jobs += 1

    async def next(self) -> Chunk:
        """The next chunk; after one with a finish there is none. Raises WorkerError."""
        wait = self._wait
        task = wait.task = asyncio.current_task()
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            raise StreamInterrupted(f"worker {self._member.name} ended its answer early") from None
        except WorkerError:
            raise
        except asyncio.CancelledError:
            # Only an interruption of our own is an error of the worker's; with a real one on top, that one counts.
            if not wait.expired or task is None or task.uncancel():
                raise
            raise WorkerTimeout(f"worker {self._member.name} has said nothing of this request for too long; it was given up") from None
        except Exception as fault:  # the worker seam: a client that fails is a worker that fails
            log.exception("worker %s: the client failed", self._member.name)
            raise StreamInterrupted(f"the client of worker {self._member.name} failed") from fault
        finally:
            wait.task = None
            wait.quiet = 0
        ids = chunk.ids
        if ids and not 0 <= min(ids) <= max(ids) < self._vocab_size:
            raise WorkerProtocolError(f"worker {self._member.name} sampled tokens that the model does not have; it serves another model")
        if self._waited is not None and (chunk.queue_seconds is not None or ids or chunk.finish is not None):
            # The engine may tell of its own queue before there is a token; both are told together, once.
            chunk = msgspec.structs.replace(chunk, queue_seconds=self._waited + (chunk.queue_seconds or 0.0))
            self._waited = None
        if self._on_first is not None and (ids or chunk.finish is not None):
            chunk = self._first(chunk, self._on_first)
        return chunk

    async def close(self) -> None:
        """Frees the worker."""
        self._member.jobs -= 1
        self._watch.end(self._wait)
        try:
            await self._chunks.aclose()
        except WorkerError as error:
            log.info("worker %s: %s", self._member.name, error.message)

    def _first(self, chunk: Chunk, on_first: Callable[[str], None]) -> Chunk:
        self._on_first = None
        self._watch.heard(self._wait)
        on_first(self._placed.key)
        return msgspec.structs.replace(chunk, worker=self._member.name)


def _for_rank(job: Job, member: Member, placed: Placed) -> Job:
    """The job as the worker gets it: only those with several ranks are told which."""
    if member.card is None or member.card.ranks <= 1:
        return job
    placement = msgspec.structs.replace(job.placement, wish=RoutingWish(rank=placed.rank))
    return msgspec.structs.replace(job, placement=placement)
