"""A fleet in simulated time, with workers in the process that fail on order. What each says follows from its whole prompt and a seed, so
an answer that goes on elsewhere can be compared token by token with one that never moved."""

import asyncio
from array import array
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from random import Random
from typing import Any, TypeVar

import msgspec
from xxhash import xxh3_64_intdigest

from antiphon.engines.base import Chunk, Job, Placement
from antiphon.engines.mock_faults import Crash, Fault, troubled
from antiphon.fleet.fleet import Fleet, FleetOptions
from antiphon.fleet.members import CacheFollower, WorkerSource
from antiphon.metrics.fleet_metrics import FleetMetrics
from antiphon.router.router import Router, RouterOptions
from antiphon.simulation.clock import VirtualClock
from antiphon.workers.card import WorkerCard
from antiphon.workers.directory import WorkerAddress
from antiphon_turns import RoutingWish, Sampling
from antiphon_turns.errors import ConfigError, WorkerUnavailable

T = TypeVar("T")
VOCAB = 50_000
STOP = 49_999


def said(prompt: Sequence[int], seed: int, count: int) -> list[int]:
    """The tokens that follow a prompt: each from all before it."""
    text, out = array("I", prompt), []
    for _ in range(count):
        out.append(xxh3_64_intdigest(memoryview(text).cast("B"), seed=seed) % (VOCAB - 1))
        text.append(out[-1])
    return out


class Worker:
    """A worker that can be killed, brought back, and told to fail its next jobs. `token_seconds` is what a token takes."""

    reports_logprobs = True

    def __init__(self, clock: VirtualClock, *, seed: int = 1, constrains: bool = True, **card: Any) -> None:
        self._clock = clock
        self._seed = seed
        self.constrains = constrains
        self.card = WorkerCard(kind="mock", model="m", context_length=100_000, constrains=constrains, incarnation="1", **card)
        self.token_seconds = 0.01
        self.prefill_seconds = 0.1
        self.faults: list[Fault | None] = []
        self.jobs: list[Job] = []
        self.running = 0
        self.alive = True
        self.refuses: str | None = None
        self.started = 0
        self.closed = 0
        self.crash = Crash()

    def die(self) -> None:
        """The process is gone, and with it every job."""
        self.alive = False
        self.crash.happened = True

    def live(self) -> None:
        """A new process at the same address."""
        self.alive = True
        self.crash = Crash()
        self.card = msgspec.structs.replace(self.card, incarnation=self.card.incarnation + "+")

    async def start(self) -> None:
        self.started += 1

    async def close(self) -> None:
        self.closed += 1

    def ready(self) -> bool:
        return self.alive

    def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        if not self.alive:
            raise WorkerUnavailable("connection refused")
        self.jobs.append(job)
        fault = self.faults.pop(0) if self.faults else None
        if fault is None:
            fault = Fault("slow", 1.0)
        return troubled(fault, self._sample(job, fault.slowness), crash=self.crash, vocab_size=VOCAB, on_crash=self.die)

    async def _sample(self, job: Job, slowness: float) -> AsyncGenerator[Chunk, None]:
        self.running += 1
        try:
            await self._clock.sleep(self.prefill_seconds * slowness)
            for number, token in enumerate(said(job.prompt_ids, self._seed, job.max_tokens), 1):
                await self._clock.sleep(self.token_seconds * slowness)
                cached = 0 if number == 1 else None
                yield Chunk([token], "length" if number == job.max_tokens else None, cached, None, 0.0 if number == 1 else None)
        finally:
            self.running -= 1


class Connector:
    """Reaches the workers by their address."""

    def __init__(self, workers: dict[str, Worker]) -> None:
        self.workers = workers
        self.probes = 0

    async def connect(self, address: WorkerAddress) -> tuple[WorkerCard, Worker]:
        return await self.probe(address), self.workers[address.url]

    async def probe(self, address: WorkerAddress) -> WorkerCard:
        self.probes += 1
        worker = self.workers[address.url]
        if not worker.alive:
            raise WorkerUnavailable(f"nobody answers at {address.url}")
        if worker.refuses is not None:
            raise ConfigError(worker.refuses)
        return worker.card


class Directory:
    """A list that the test changes."""

    def __init__(self, addresses: Iterable[WorkerAddress]) -> None:
        self._lists: asyncio.Queue[tuple[WorkerAddress, ...]] = asyncio.Queue()
        self.set(addresses)

    def set(self, addresses: Iterable[WorkerAddress]) -> None:
        self._lists.put_nowait(tuple(addresses))

    async def changes(self) -> AsyncGenerator[tuple[WorkerAddress, ...], None]:
        while True:
            yield await self._lists.get()


class World:
    """A fleet of workers a, b, c, ..."""

    def __init__(
        self,
        workers: int = 2,
        *,
        options: FleetOptions | None = None,
        router: RouterOptions | None = None,
        card: dict[str, Any] | None = None,
        accept: Callable[[WorkerCard], None] = lambda card: None,
        follower: CacheFollower | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.names = [chr(97 + number) for number in range(workers)]
        self.workers = {name: Worker(self.clock, **(card or {})) for name in self.names}
        self.addresses = {name: WorkerAddress(name=name, url=name) for name in self.names}
        self.connector = Connector(self.workers)
        self.directory = Directory(self.addresses.values())
        self.metrics = FleetMetrics("m")
        self.router = Router(router or RouterOptions(), clock=self.clock.now, random=Random(3))
        self.fleet = Fleet(
            WorkerSource(self.directory, self.connector, accept, follower),
            router=self.router,
            options=options or FleetOptions(),
            clock=self.clock,
            vocab_size=VOCAB,
            metrics=self.metrics,
        )
        self._asked = 0

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], *, limit: float = 10_000) -> T:
        """Starts the fleet, does the work in simulated time, and closes it; nothing may be left in flight."""

        async def whole() -> T:
            await self.fleet.start()
            try:
                result = await work()
                await self.clock.sleep(0.5)
                assert self.router.in_flight == self.router.queued == 0
                assert all(worker.running == 0 for worker in self.workers.values())
                assert all(report.jobs == 0 for report in self.fleet.reports())
                return result
            finally:
                await self.fleet.close()

        return asyncio.run(self.clock.run(whole(), limit=limit))

    def job(self, *, prompt: Sequence[int] | None = None, tokens: int = 20, **fields: Any) -> Job:
        self._asked += 1
        placement = {name: fields.pop(name) for name in ("session", "osl", "strict_priority") if name in fields}
        wish = fields.pop("wish", RoutingWish())
        return Job(
            request_id=f"job{self._asked}",
            prompt_ids=array("I", prompt if prompt is not None else range(self._asked * 1000, self._asked * 1000 + 64)),
            max_tokens=tokens,
            sampling=fields.pop("sampling", Sampling()),
            stop_ids=fields.pop("stop_ids", frozenset({STOP})),
            placement=Placement(wish=wish, **placement),
            **fields,
        )

    async def chunks(self, job: Job) -> list[Chunk]:
        async with aclosing(self.fleet.generate(job)) as chunks:
            return [chunk async for chunk in chunks]

    async def played(self, job: Job) -> list[int]:
        return [token for chunk in await self.chunks(job) for token in chunk.ids]

    def states(self) -> dict[str, str]:
        return {report.name: report.state for report in self.fleet.reports()}

    def metric(self, name: str, **labels: str) -> float:
        """A metric's sum over all label values that are not given."""
        samples = [sample for family in self.metrics.collect() for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())
