"""The workers of a fleet: who is in the directory, reached, well, and told to the router."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from antiphon.fleet.member import Member, MemberReport
from antiphon.router.ask import Released
from antiphon.router.kv_source import ListenerState, TargetState
from antiphon.router.router import Router
from antiphon.simulation.clock import Clock
from antiphon.workers.breaker import Breaker, BreakerOptions
from antiphon.workers.card import WorkerCard
from antiphon.workers.directory import WorkerAddress, WorkerDirectory
from antiphon.workers.probe import Connector, Health, ProbeOptions
from antiphon_turns.errors import AntiphonError, ConfigError, WorkerError, WorkerTimeout

log = logging.getLogger("antiphon")

# A connection that comes back by itself is noticed within this time, and a worker that has rested is taken back.
LOOK_SECONDS = 0.25
SHORTEST_PAUSE = 0.01


class CacheFollower(Protocol):
    """Whoever keeps an index of what workers hold, from their events."""

    def follow(self, worker: str, card: WorkerCard) -> None:
        """A worker is there, or there again with an empty cache."""
        ...

    def forget(self, worker: str) -> None:
        """A worker is gone for good."""
        ...

    def states(self) -> Sequence[TargetState]:
        """How far each feed can be believed."""
        ...

    def listener(self) -> ListenerState:
        """How the process that reads the events does."""
        ...

    async def snapshot(self) -> bytes:
        """The index for a sibling that starts. Raises TimeoutError."""
        ...

    async def close(self) -> None:
        """Follows nobody any longer."""
        ...


class WorkerSource(NamedTuple):
    """Where workers come from. `accept` raises ConfigError for a card that does not fit what is served here."""

    directory: WorkerDirectory
    connector: Connector
    accept: Callable[[WorkerCard], None]
    follower: CacheFollower | None = None


class MemberOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How each worker is looked after."""

    probes: ProbeOptions = ProbeOptions()
    breaker: BreakerOptions = BreakerOptions()


class Members:
    """Follows the directory and looks after each worker in it, in tasks of its own. What the router releases goes to `deal`."""

    def __init__(
        self, source: WorkerSource, *, router: Router, deal: Callable[[Sequence[Released]], None], clock: Clock, options: MemberOptions
    ) -> None:
        self._source = source
        self._router = router
        self._deal = deal
        self._clock = clock
        self._options = options
        self._members: dict[str, Member] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wake: dict[str, asyncio.Event] = {}
        self._following: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._listed = asyncio.Event()
        self.ready_count = 0

    def get(self, name: str) -> Member | None:
        """The worker of this name, while it is in the directory."""
        return self._members.get(name)

    def reports(self) -> list[MemberReport]:
        """All of them, in the order they came."""
        return [member.report() for member in self._members.values()]

    def event_states(self) -> Sequence[TargetState]:
        """How far the events of each can be believed; nothing where nobody follows them."""
        return self._source.follower.states() if self._source.follower is not None else ()

    @property
    def follower(self) -> CacheFollower | None:
        """Whoever follows their events."""
        return self._source.follower

    def all(self) -> list[Member]:
        """All of them that are in the directory."""
        return list(self._members.values())

    async def start(self) -> None:
        """Returns when each worker of the first list was tried once. Raises ConfigError when there are some and none can be used."""
        following = self._following = asyncio.create_task(self._follow())
        listed = asyncio.create_task(self._listed.wait())
        await asyncio.wait({following, listed}, return_when=asyncio.FIRST_COMPLETED)
        listed.cancel()
        if following.done():
            following.result()
        while any(member.state == "connecting" and member.detail is None for member in self._members.values()):
            await self._clock.sleep(LOOK_SECONDS / 10)
        refused = [member for member in self._members.values() if member.state == "refused"]
        if refused and len(refused) == len(self._members):
            raise ConfigError(f"no worker can be used; {refused[0].name}: {refused[0].detail}")

    async def close(self) -> None:
        """Leaves all workers alone."""
        tasks = [*self._tasks.values(), *self._leaving, *([self._following] if self._following is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for member in self._members.values():
            await self._hang_up(member)
        self._members.clear()
        self.ready_count = 0
        if self._source.follower is not None:
            await self._source.follower.close()

    def failed(self, member: Member) -> None:
        """A job failed on it, and it was not the job's fault: it is looked at now."""
        if self._members.get(member.name) is not member:
            # It has left, and another one may have its name.
            return
        member.breaker.failed(self._clock.now())
        self._settle(member)
        wake = self._wake.get(member.name)
        if wake is not None:
            wake.set()

    # -- the directory

    async def _follow(self) -> None:
        async with contextlib.aclosing(self._source.directory.changes()) as lists:
            async for addresses in lists:
                self._update({address.name: address for address in addresses})
                self._listed.set()

    def _update(self, now: dict[str, WorkerAddress]) -> None:
        for name, member in list(self._members.items()):
            address = now.get(name)
            if address is None or not _same_place(address, member.address):
                self._drop(member)
            elif address != member.address:
                member.address = address
                self._settle(member)
        for name, address in now.items():
            if name not in self._members:
                self._add(address)

    def _add(self, address: WorkerAddress) -> None:
        member = Member(address, health=Health(self._options.probes), breaker=Breaker(self._options.breaker))
        self._members[address.name] = member
        self._wake[address.name] = asyncio.Event()
        self._tasks[address.name] = asyncio.create_task(self._keep(member))

    def _drop(self, member: Member) -> None:
        log.info("worker %s is no longer in the directory", member.name)
        del self._members[member.name]
        self._tasks.pop(member.name).cancel()
        del self._wake[member.name]
        member.state = "gone"
        self._leave_router(member)
        self._count()
        leaving = asyncio.create_task(self._let_go(member))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def _let_go(self, member: Member) -> None:
        """Its jobs may finish."""
        try:
            while member.jobs:
                await self._clock.sleep(LOOK_SECONDS)
        finally:
            await self._hang_up(member)

    # -- one worker

    async def _keep(self, member: Member) -> None:
        next_probe = self._clock.now()
        wake = self._wake[member.name]
        while True:
            if self._clock.now() >= next_probe or wake.is_set():
                wake.clear()
                await self._look(member)
                next_probe = self._clock.now() + member.health.next_in
            self._settle(member)
            left = max(next_probe - self._clock.now(), SHORTEST_PAUSE)
            await self._pause(wake, left if member.state == "ready" else min(left, LOOK_SECONDS))

    async def _pause(self, wake: asyncio.Event, seconds: float) -> None:
        waits = [asyncio.ensure_future(self._clock.sleep(seconds)), asyncio.ensure_future(wake.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _look(self, member: Member) -> None:
        """Reaches the worker, or probes it."""
        try:
            probes = self._options.probes
            if member.engine is None:
                await self._within(self._reach(member), probes.meeting_seconds)
            else:
                await self._within(self._probe(member), probes.limit_seconds)
        except ConfigError as error:
            await self._refuse(member, error.message)
        except WorkerError as error:
            self._unanswered(member, error)
        except Exception as fault:  # the worker seam: whatever a client of one worker does, the others are looked after
            log.exception("worker %s: the client failed", member.name)
            self._unanswered(member, WorkerError(f"its client failed: {fault}"))
        else:
            member.health.answered()
            member.detail = None
            if member.state == "refused":
                member.state = "connecting"

    async def _within(self, look: Coroutine[Any, Any, None], seconds: float) -> None:
        """The look, or WorkerTimeout."""
        work = asyncio.ensure_future(look)
        limit = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({work, limit}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise WorkerTimeout(f"it did not answer within {seconds:g} s")
            work.result()
        finally:
            limit.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})

    async def _reach(self, member: Member) -> None:
        card, engine = await self._source.connector.connect(member.address)
        self._source.accept(card)
        await engine.start()
        member.card, member.engine = card, engine
        member.health.answered()
        log.info("worker %s is there: %s at %s, model %s", member.name, card.kind, member.address.url, card.model)
        self._join_router(member)

    async def _probe(self, member: Member) -> None:
        card = await self._source.connector.probe(member.address)
        before = member.card
        if before is None or card.incarnation == before.incarnation:
            return
        log.warning("worker %s has started anew; what it held is forgotten", member.name)
        # Whatever the old client was connected to is gone, and the new process may be reached in another way. Until it is, nothing may be
        # placed there; and what its predecessor did is not held against it.
        engine, member.engine = member.engine, None
        member.breaker = Breaker(self._options.breaker)
        self._settle(member)
        if engine is not None:
            await engine.close()
        await self._reach(member)

    def _join_router(self, member: Member) -> None:
        assert member.card is not None, "only a worker that was reached joins"
        if self._source.follower is not None:
            self._source.follower.follow(member.name, member.card)
        self._deal(self._router.join(member.info()))
        self._settle(member)

    def _leave_router(self, member: Member) -> None:
        if self._source.follower is not None and member.card is not None:
            self._source.follower.forget(member.name)
        self._deal(self._router.leave(member.name))

    def _unanswered(self, member: Member, error: AntiphonError) -> None:
        member.health.failed()
        if member.detail != error.message:
            log.warning("worker %s: %s", member.name, error.message)
        member.detail = error.message

    async def _refuse(self, member: Member, why: str) -> None:
        if member.state != "refused":
            log.error("worker %s cannot be used: %s", member.name, why)
        member.state, member.detail = "refused", why
        # It is asked again, in case somebody starts the right one there.
        member.health.failed()
        self._leave_router(member)
        self._count()
        await self._hang_up(member)

    async def _hang_up(self, member: Member) -> None:
        engine, member.engine = member.engine, None
        if engine is not None:
            await engine.close()

    def _settle(self, member: Member) -> None:
        """Tells the router what has changed."""
        state = member.stands(self._clock.now())
        if state != member.state:
            level = logging.INFO if state in ("ready", "draining", "connecting") else logging.WARNING
            log.log(level, "worker %s is %s", member.name, state)
        member.state = state
        self._deal(self._router.set_available(member.name, available=state == "ready"))
        self._count()

    def _count(self) -> None:
        self.ready_count = sum(1 for member in self._members.values() if member.state == "ready")


def _same_place(one: WorkerAddress, other: WorkerAddress) -> bool:
    """Whether only what can change while a worker runs differs."""
    return (one.url, one.kind, one.block_tokens, one.feeds) == (other.url, other.kind, other.block_tokens, other.feeds)
