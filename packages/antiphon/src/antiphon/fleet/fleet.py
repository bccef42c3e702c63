"""The fleet: many workers as one `Engine`. A job is placed by the router, waits for its turn, runs on a worker's own client, and goes on
elsewhere when that worker fails."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from itertools import count

import msgspec
from prometheus_client.registry import Collector

from antiphon.engines.base import Chunk, Job
from antiphon.fleet.attempt import Attempt
from antiphon.fleet.member import Member, MemberReport
from antiphon.fleet.members import CacheFollower, MemberOptions, Members, WorkerSource
from antiphon.fleet.migration import Journey, MigrationLimits
from antiphon.fleet.silence import SilenceWatch
from antiphon.metrics.fleet_metrics import EventGauges, FleetGauges, FleetMetrics
from antiphon.router.ask import Answer, Ask, Placed, Queued, Refused, Released, TargetLoad
from antiphon.router.kv_source import TargetState
from antiphon.router.router import Router
from antiphon.simulation.clock import Clock
from antiphon_turns.errors import AntiphonError, Overloaded, WorkerError, WorkerRefusal, WorkerUnavailable

log = logging.getLogger("antiphon")

# Loads are corrected after so many tokens of a job: often enough for a cost, rarely enough to cost nothing.
PROGRESS_TOKENS = 64
RETURN_LOOK_SECONDS = 0.25


class FleetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that says nothing of a job for `first_token_seconds` (its prompt may be long, and it may wait there), or for
    `token_seconds` between two tokens, has failed it. A job that has tokens out waits `return_seconds` for a worker to come back when
    all are gone."""

    first_token_seconds: float = 600.0
    token_seconds: float = 60.0
    return_seconds: float = 10.0
    migration: MigrationLimits = MigrationLimits()
    members: MemberOptions = MemberOptions()


class Fleet:
    """See `antiphon.engines.base.Engine`; beside WorkerErrors `generate` raises Overloaded. `vocab_size` is that of the served model."""

    def __init__(
        self, source: WorkerSource, *, router: Router, options: FleetOptions, clock: Clock, vocab_size: int, metrics: FleetMetrics
    ) -> None:
        self._router = router
        self._options = options
        self._clock = clock
        self._vocab_size = vocab_size
        self._metrics = metrics
        self._members = Members(source, router=router, deal=self._deal, clock=clock, options=options.members)
        self._waiting: dict[str, asyncio.Future[Released]] = {}
        self._numbers = count(1)
        self._silence = SilenceWatch(clock, first_seconds=options.first_token_seconds, token_seconds=options.token_seconds)

    # -- the engine

    @property
    def constrains(self) -> bool:
        """Whether some worker keeps to grammars; yes while none was reached, so that a client is told to come back, not to go away."""
        cards = [member.card for member in self._members.all() if member.card is not None]
        return not cards or any(card.constrains for card in cards)

    @property
    def reports_logprobs(self) -> bool:
        """Whether some worker reports probabilities; yes while none was reached."""
        cards = [member.card for member in self._members.all() if member.card is not None]
        return not cards or any(card.reports_logprobs for card in cards)

    async def start(self) -> None:
        """Looks for the workers, and waits for the first answer of each. Raises ConfigError when none of them can be used."""
        await self._members.start()

    async def close(self) -> None:
        """Leaves the workers; jobs end with an error."""
        self._silence.close()
        await self._members.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(WorkerUnavailable("the server is stopping"))

    def ready(self) -> bool:
        """Whether a worker would take a job. Without one, `generate` says what to do about it."""
        return self._members.ready_count > 0

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Streams the job's chunks, from one worker after another if need be. The first chunk of each names it."""
        journey = Journey(job, self._options.migration)
        while True:
            key = f"{job.request_id}#{next(self._numbers)}"
            try:
                placed = await self._placed(key, journey)
                member = self._members.get(placed.worker)
                if member is None or member.engine is None:
                    # It left while the job waited for its turn; whoever tells the router may need a turn of the loop.
                    await asyncio.sleep(0)
                    continue
                attempt = Attempt(
                    member,
                    placed,
                    journey.job(),
                    watch=self._silence,
                    vocab_size=self._vocab_size,
                    on_first=self._prefilled,
                )
                pending = 0
                try:
                    while True:
                        chunk = await attempt.next()
                        journey.took(chunk)
                        yield chunk
                        if chunk.finish is not None:
                            member.breaker.succeeded()
                            return
                        pending += len(chunk.ids)
                        if pending >= PROGRESS_TOKENS:
                            self._router.progressed(key, pending)
                            pending = 0
                except WorkerRefusal:
                    raise
                except WorkerError as failure:
                    self._failed(journey, member, failure)
                finally:
                    await attempt.close()
            finally:
                self._deal(self._router.done(key))
            owed = journey.missing()
            if owed is not None:
                yield owed
                return

    # -- to be read

    def reports(self) -> list[MemberReport]:
        """The workers."""
        return self._members.reports()

    def event_states(self) -> Sequence[TargetState]:
        """How far what their events tell of their caches can be believed."""
        return self._members.event_states()

    @property
    def follower(self) -> CacheFollower | None:
        """Whoever follows what the workers tell of their caches; None where routing does not look at them."""
        return self._members.follower

    def loads(self) -> list[TargetLoad]:
        """What the router has sent them."""
        return self._router.loads()

    @property
    def queued(self) -> int:
        """How many jobs wait for a worker."""
        return self._router.queued

    def collectors(self) -> list[Collector]:
        """Its metrics."""
        gauges = FleetGauges(reports=self.reports, loads=self.loads, queued=lambda: self.queued)
        follower = self.follower
        events = [EventGauges(self.event_states, follower.listener)] if follower is not None else []
        return [self._metrics, gauges, *events]

    @property
    def router(self) -> Router:
        """The router, for those who only ask it."""
        return self._router

    # -- placing

    async def _placed(self, key: str, journey: Journey) -> Placed:
        """Where the job runs, once it may. Raises WorkerError and Overloaded."""
        job = journey.job()
        unfit = self._unfit(job)
        answer = await self._answer(self._ask(key, job, journey.failed_on | unfit))
        if isinstance(answer, Refused) and answer.because == "nobody" and journey.failed_on:
            # A client that has no tokens yet is better told at once.
            patience = self._options.return_seconds if journey.output else 0.0
            answer = await self._when_back(key, job, unfit, self._clock.now() + patience)
        if isinstance(answer, Refused):
            self._metrics.refused(answer.because)
            raise _error_of(answer)
        self._metrics.placed(answer.reason, answer.waited)
        log.debug("%s goes to %s by %s, with %d tokens cached there", key, answer.worker, answer.reason, answer.cached_tokens)
        return answer

    async def _when_back(self, key: str, job: Job, unfit: frozenset[str], until: float) -> Placed | Refused:
        """Asks again where nobody but those that failed the job is left: they may have come back, or will soon."""
        while True:
            answer = await self._answer(self._ask(key, job, unfit))
            if isinstance(answer, Placed) or answer.because != "nobody" or self._clock.now() >= until:
                return answer
            await self._clock.sleep(RETURN_LOOK_SECONDS)

    def _unfit(self, job: Job) -> frozenset[str]:
        """Workers that cannot tell what the job asks for."""
        if job.sampling.top_logprobs is None:
            return frozenset()
        return frozenset(member.name for member in self._members.all() if member.card is not None and not member.card.reports_logprobs)

    async def _answer(self, ask: Ask) -> Placed | Refused:
        answer: Answer = self._router.ask(ask)
        if not isinstance(answer, Queued):
            return answer
        waiting = self._waiting[ask.key] = asyncio.get_running_loop().create_future()
        try:
            released: Placed | Refused = await waiting
            return released
        finally:
            del self._waiting[ask.key]

    def _ask(self, key: str, job: Job, exclude: frozenset[str]) -> Ask:
        return Ask(
            key=key,
            prompt_tokens=len(job.prompt_ids),
            arrival=self._clock.now(),
            ids=job.prompt_ids,
            salt=job.cache_salt,
            placement=job.placement,
            priority=job.priority,
            exclude=exclude,
            needs_grammar=job.grammar is not None,
            optional=job.prefill_only,
        )

    def _deal(self, released: Sequence[Released]) -> None:
        for one in released:
            waiting = self._waiting.get(one.key)
            if waiting is not None and not waiting.done():
                waiting.set_result(one)

    # -- running

    def _prefilled(self, key: str) -> None:
        self._deal(self._router.prefilled(key))

    def _failed(self, journey: Journey, member: Member, failure: WorkerError) -> None:
        """Counts a failure; raises it when the job needs another worker and cannot go on there."""
        self._members.failed(member)
        if journey.missing() is not None:
            return
        why = journey.why_not()
        if why is not None:
            log.warning("worker %s failed a job: %s (%s)", member.name, failure.message, why)
            raise failure
        self._metrics.migrated(ongoing=bool(journey.output))
        log.warning("worker %s failed a job: %s; it goes on elsewhere after %d tokens", member.name, failure.message, len(journey.output))
        journey.move(member.name)


def _error_of(refused: Refused) -> AntiphonError:
    if refused.because in ("full", "optional"):
        return Overloaded(refused.message, retry_after=refused.retry_after)
    return WorkerRefusal(refused.message) if refused.because == "unfit" else WorkerUnavailable(refused.message)
