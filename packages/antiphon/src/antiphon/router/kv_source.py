"""The KV index of a frontend: what the engines have told of their caches, for the router to ask."""

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from antiphon.router import kv_snapshot
from antiphon.router.cost import Overlap
from antiphon.router.feed import FeedState
from antiphon.router.kv_blocks import TargetBlocks, levels
from antiphon.router.kv_pipe import Dump, Dumped, Follow, Forget, Load, Pulse, Record, Report, SourceStatus, Warned
from antiphon.router.kv_process import ListenerProcess
from antiphon.router.sight import Level
from antiphon.workers.card import KvFeed, WorkerCard

log = logging.getLogger("antiphon")

# A prompt with new blocks was sent, and so long nothing has come: the publisher is silent, whatever its card says.
SILENT_SECONDS = 10.0
_SNAPSHOT_SECONDS = 10.0

KvState = FeedState | Literal["none", "missing"]
"""As `FeedState`; none: the worker publishes no events. missing: it says that it does, and nothing came although prompts were sent."""


class TargetState(msgspec.Struct, frozen=True, kw_only=True):
    """One target's events. `blocks` of `block_tokens` tokens lie on its device; `messages` are those applied, `lost` those that no replay
    had; `gaps`, `restarts`, `skipped` (blocks), `unanswered` (replays) and `unreadable` (messages) count from the beginning."""

    worker: str
    target: str
    state: KvState
    block_tokens: int | None = None
    blocks: int = 0
    next_seq: int = 0
    messages: int = 0
    gaps: int = 0
    lost: int = 0
    restarts: int = 0
    skipped: int = 0
    unanswered: int = 0
    unreadable: int = 0


class ListenerState(msgspec.Struct, frozen=True):
    """How often the listener's process has ended unasked, and the CPU seconds of all of them."""

    deaths: int
    cpu_seconds: float


class _Target:
    """Mutable. What is known of one rank of one worker. `waits_since`: when the first prompt was sent that no event has answered."""

    def __init__(self, worker: str, wish: Follow | None, name: str) -> None:
        self.worker = worker
        self.name = name
        self.wish = wish
        self.blocks = TargetBlocks()
        self.status: SourceStatus | None = None
        self.waits_since: float | None = None
        self.messages_then = 0
        self.is_told = False


class KvIndex:
    """A `KvView` for prompts in blocks of every size: chains of different sizes never meet. Targets are called as the router calls them,
    by the worker's name or `name/rank`. To be used from the event loop's thread only; `start` before anything else.

    Events are followed by a process of their own, started with the first worker that publishes any. `sibling`, asked once before that,
    gives the snapshot to begin with; it raises nothing."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        silent_seconds: float = SILENT_SECONDS,
        sibling: Callable[[], Awaitable[bytes | None]] | None = None,
    ) -> None:
        self._clock = clock
        self._silent_seconds = silent_seconds
        self._sibling = sibling
        self._targets: dict[str, _Target] = {}
        self._by_source: dict[int, _Target] = {}
        self._sources = 0
        self._process = ListenerProcess(self._apply, begun=self._begun, lost=self._void)
        self._process.after_slice = self._changed
        self._is_started = False
        self._starting: asyncio.Task[None] | None = None
        self._snapshot: bytes | None = None
        self._dumps: list[asyncio.Future[bytes]] = []
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._cpu_seconds = 0.0
        self._cpu_before = 0.0

    # -- who is followed -----------------------------------------------------------------------------------------

    def resume(self, snapshot: bytes) -> None:
        """What a sibling knows; workers that are followed from now on begin with it. What is no snapshot is warned of and left out."""
        if self._process.is_running:
            self._process.send(Load(snapshot))
        else:
            self._snapshot = snapshot

    def follow(self, worker: str, card: WorkerCard) -> None:
        """Follows a worker's publishers. Again with a changed card: a new `incarnation` means that its cache is empty."""
        names = {_target_name(worker, feed, card.ranks): feed for feed in card.feeds}
        for target in [one for one in self._targets.values() if one.worker == worker and one.name not in names]:
            if names or target.wish is not None:
                self._drop(target)
        for name, feed in names.items():
            self._follow(worker, name, feed, card)
        if not card.feeds and worker not in self._targets:
            self._targets[worker] = target = _Target(worker, None, worker)
            self._warn_of(
                target, "publishes no KV events; routing to it goes by what was sent to it. If its engine can publish them, turn them on"
            )
        if self._by_source and not self._is_started:
            self._is_started = True
            self._starting = asyncio.get_running_loop().create_task(self._start())

    def forget(self, worker: str) -> None:
        """The worker is gone, and all that is known of it."""
        for target in [one for one in self._targets.values() if one.worker == worker]:
            self._drop(target)

    async def close(self) -> None:
        """Ends the listener."""
        if self._starting is not None:
            await self._starting
        await self._process.close()
        for dump in self._dumps:
            dump.cancel()

    # -- the router's questions ----------------------------------------------------------------------------------

    def overlaps(self, hashes: Sequence[int]) -> Mapping[str, Overlap]:
        """Each target's cached blocks of the prompt with these hashes."""
        return {name: overlap for overlap, names in self.levels(hashes) for name in names}

    def levels(self, hashes: Sequence[int]) -> Iterable[Level]:
        """The same by what is held."""
        return levels(((name, target.blocks) for name, target in self._targets.items()), hashes) if hashes else ()

    def is_live(self, target: str) -> bool:
        """Whether its events come, so that what was only predicted need not be believed for long."""
        found = self._targets.get(target)
        return found is not None and self._state(found) in ("fresh", "gap", "stale")

    def routed(self, target: str, hashes: Sequence[int]) -> None:
        """A prompt with these blocks was sent there: an engine that publishes will have to say something of those it did not hold."""
        found = self._targets.get(target)
        if found is None or found.wish is None or found.waits_since is not None or found.blocks.holds_all(hashes):
            return
        found.waits_since = self._clock()
        found.messages_then = found.status.messages if found.status is not None else 0

    # -- what others are told ------------------------------------------------------------------------------------

    def states(self) -> list[TargetState]:
        """Every target, for `/health` and the metrics. Warns of publishers that have been silent for too long."""
        return [self._told(target) for target in self._targets.values()]

    def listener(self) -> ListenerState:
        """How the listener's process does."""
        return ListenerState(self._process.deaths, self._cpu_seconds)

    @property
    def listener_pid(self) -> int | None:
        """The listener's process."""
        return self._process.pid

    def held(self, target: str) -> frozenset[int]:
        """A copy of a target's device blocks."""
        found = self._targets.get(target)
        return found.blocks.on_device() if found is not None else frozenset()

    async def snapshot(self) -> bytes:
        """For a sibling that starts. Raises TimeoutError where the listener does not answer."""
        if not self._process.is_running:
            return kv_snapshot.pack(())
        dump: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._dumps.append(dump)
        self._process.send(Dump())
        try:
            async with asyncio.timeout(_SNAPSHOT_SECONDS):
                return await dump
        finally:
            if dump in self._dumps:
                self._dumps.remove(dump)

    async def until(self, check: Callable[[], bool]) -> None:
        """Waits until `check` holds; it is called after each slice of news."""
        if check():
            return
        found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((check, found))
        await found

    # -- inside --------------------------------------------------------------------------------------------------

    def _follow(self, worker: str, name: str, feed: KvFeed, card: WorkerCard) -> None:
        target = self._targets.get(name)
        if target is None or target.wish is None:
            self._sources += 1
            source = self._sources
            target = self._targets[name] = self._by_source[source] = _Target(worker, None, name)
            _keep()
        else:
            source = target.wish.source
        wish = Follow(source=source, target=name, feed=feed, block_tokens=card.block_tokens, incarnation=card.incarnation)
        if wish != target.wish:
            target.wish = wish
            self._process.send(wish)

    def _drop(self, target: _Target) -> None:
        del self._targets[target.name]
        if target.wish is not None:
            del self._by_source[target.wish.source]
            self._process.send(Forget(target.wish.source))

    async def _start(self) -> None:
        if self._sibling is not None:
            self._snapshot = await self._sibling() or self._snapshot
        try:
            await self._process.start()
        except OSError as error:
            log.warning("the process that follows KV events cannot be started (%s); routing goes by what was sent", error)

    def _begun(self) -> None:
        self._cpu_before = self._cpu_seconds
        if self._snapshot is not None:
            self._process.send(Load(self._snapshot))
            # A later process has newer things to begin with than this.
            self._snapshot = None
        for target in self._by_source.values():
            if target.wish is not None:
                self._process.send(target.wish)

    def _void(self) -> None:
        for target in self._by_source.values():
            target.blocks = TargetBlocks()
            target.status = None
            target.messages_then = 0
        _keep()

    def _apply(self, report: Record | Report) -> None:
        if isinstance(report, Record):
            target = self._by_source.get(report.source)
            if target is not None:
                target.blocks.apply(report)
        elif isinstance(report, SourceStatus):
            target = self._by_source.get(report.source)
            if target is not None:
                self._note(target, report)
        elif isinstance(report, Pulse):
            self._cpu_seconds = self._cpu_before + report.cpu_seconds
            self._process.proved_well()
            self.states()
        elif isinstance(report, Warned):
            log.warning("%s", report.text)
        elif isinstance(report, Dumped):
            for dump in self._dumps:
                if not dump.done():
                    dump.set_result(report.snapshot)

    def _note(self, target: _Target, status: SourceStatus) -> None:
        target.status = status
        if status.messages > target.messages_then:
            target.waits_since = None
            if target.is_told:
                target.is_told = False
                log.info("worker %s publishes KV events now", target.name)

    def _changed(self) -> None:
        if self._waiters:
            left = []
            for check, found in self._waiters:
                if found.done():
                    continue
                if check():
                    found.set_result(None)
                else:
                    left.append((check, found))
            self._waiters = left

    def _state(self, target: _Target) -> KvState:
        if target.wish is None:
            return "none"
        if target.waits_since is not None and self._clock() - target.waits_since >= self._silent_seconds:
            return "missing"
        return target.status.state if target.status is not None else "silent"

    def _told(self, target: _Target) -> TargetState:
        state = self._state(target)
        if state == "missing":
            self._warn_of(
                target,
                f"says that it publishes KV events, and none came within {self._silent_seconds:.0f} s of a prompt; routing to it goes by"
                " what was sent to it. Check that the engine publishes, and that its address can be reached from here",
            )
        if target.status is None:
            return TargetState(worker=target.worker, target=target.name, state=state)
        status = msgspec.structs.asdict(target.status)
        del status["source"]
        return TargetState(worker=target.worker, target=target.name, **{**status, "state": state})

    def _warn_of(self, target: _Target, text: str) -> None:
        if not target.is_told:
            target.is_told = True
            log.warning("worker %s %s", target.name, text)


def _keep() -> None:
    # A full collection looks at every member of every set, which for a fleet's blocks takes most of a second. What is frozen is passed by,
    # and still freed with its last reference; the two younger generations are collected first, so that little garbage is kept.
    gc.collect(1)
    gc.freeze()


def _target_name(worker: str, feed: KvFeed, ranks: int) -> str:
    return worker if ranks == 1 else f"{worker}/{feed.rank}"
