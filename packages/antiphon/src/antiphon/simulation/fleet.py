"""The router's own code before simulated workers, in simulated time: one heap of steps, no event loop, no sleeping."""

import heapq
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Protocol

import msgspec

from antiphon.engines.base import Placement
from antiphon.load.schedule import Schedule
from antiphon.load.trace import PlannedRequest, Tree
from antiphon.router.ask import Answer, Ask, Placed, Refused, Released, WorkerInfo
from antiphon.router.cost import Overlap
from antiphon.router.index import PrefixIndex
from antiphon.router.router import Router, RouterOptions
from antiphon.router.sight import Level
from antiphon.simulation.fleet_worker import FleetWorker, Progress, WorkerJob
from antiphon.simulation.prompts import Prompt
from antiphon.simulation.run_cache import CacheListener


class Prompts(Protocol):
    """Prompts of every session under way."""

    def ask(self, request: PlannedRequest) -> Prompt:
        """The prompt of a session's next request."""
        ...

    def answered(self, request: PlannedRequest) -> Prompt:
        """The same with its answer."""
        ...

    def forget(self, root: str) -> None:
        """A tree has ended."""
        ...


class EventView:
    """What workers hold, as their events would tell a router at once. A `KvView`."""

    def __init__(self, heard: Callable[[Sequence[int]], None] | None = None) -> None:
        self.index = PrefixIndex(max_blocks=1 << 40)
        self.bits = self.index.bits
        self._heard = heard

    def overlaps(self, hashes: Sequence[int]) -> Mapping[str, Overlap]:
        """Each worker's cached blocks of the prompt with these hashes."""
        return {name: Overlap(device=depth) for name, depth in self.index.depths(hashes).items()}

    def levels(self, hashes: Sequence[int]) -> list[Level]:
        """The same by what they hold."""
        return [(Overlap(device=depth), holders) for depth, holders in self.index.levels(hashes)]

    def is_live(self, target: str) -> bool:
        """Always."""
        return True

    def routed(self, target: str, hashes: Sequence[int]) -> None:
        """Nothing to watch for: the events are there."""

    def listener(self, worker: str) -> CacheListener:
        """What the worker's cache is to be given."""
        return _Ear(self, worker)


class _Ear:
    def __init__(self, view: EventView, worker: str) -> None:
        self._index = view.index
        self._worker = worker
        self._heard = view._heard

    def stored(self, hashes: Sequence[int]) -> None:
        self._index.store(self._worker, hashes)
        if self._heard is not None:
            self._heard(hashes)

    def removed(self, hashes: Sequence[int]) -> None:
        self._index.remove(self._worker, hashes)


class ClassOutcome:
    """What became of one class. Times in seconds, each list in the order of the first tokens, or of the ends."""

    def __init__(self) -> None:
        self.ttft = array("d")
        self.whole = array("d")
        self.waited = array("d")
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.attainable_tokens = 0
        self.output_tokens = 0
        self.refused = 0
        self.last_end = 0.0


class FleetOutcome(msgspec.Struct, kw_only=True):
    """What became of all: by class, by worker, and nanoseconds of the router's CPU, for each ask and for everything."""

    classes: dict[str, ClassOutcome]
    busy_seconds: list[float]
    computed_tokens: list[int]
    seconds: float
    ask_ns: "array[int]"
    router_ns: int
    most_queued: int


class _Flight:
    __slots__ = ("arrival", "outcome", "placed", "prompt", "request", "worker")

    def __init__(self, request: PlannedRequest, prompt: Prompt, arrival: float, outcome: ClassOutcome) -> None:
        self.request = request
        self.prompt = prompt
        self.arrival = arrival
        self.outcome = outcome
        self.placed: Placed | None = None


class Fleet:
    """Workers by name, all there from the beginning. `view` is fed by their caches."""

    def __init__(
        self,
        workers: Mapping[str, tuple[WorkerInfo, FleetWorker]],
        *,
        prompts: Prompts,
        view: EventView,
        block_tokens: int,
        options: RouterOptions,
        seed: int = 0,
    ) -> None:
        self._now = 0.0
        self._router = Router(options, clock=lambda: self._now, random=Random(seed), view=view)
        self._workers = [worker for _, worker in workers.values()]
        self._numbers = {name: number for number, name in enumerate(workers)}
        for info, _ in workers.values():
            self._router.join(info)
        self._prompts = prompts
        self._block = block_tokens
        self._steps: list[tuple[float, int]] = []
        self._flights: dict[int, _Flight] = {}
        self._asked = 0
        self._classes: dict[str, ClassOutcome] = {}
        self._ask_ns = array("Q")
        self._router_ns = 0
        self._most_queued = 0
        self._schedule = Schedule(())

    def run(self, trees: Iterable[Tree], *, places: int = 1, until: float = float("inf")) -> FleetOutcome:
        """Serves everything that arrives before `until` seconds, to its end."""
        self._schedule = schedule = Schedule(trees, places=places)
        while True:
            coming = schedule.next_time()
            step = self._steps[0][0] if self._steps else None
            if coming is not None and coming <= until and (step is None or coming <= step):
                self._now = max(coming, self._now)
                for request in schedule.due(self._now):
                    self._arrive(request)
            elif step is not None:
                self._now, number = heapq.heappop(self._steps)
                # A step that was brought forward has an older entry still.
                if self._workers[number].ends == self._now:
                    self._finish(number)
            else:
                break
            for root in schedule.take_closed():
                self._prompts.forget(root)
        return FleetOutcome(
            classes=self._classes,
            busy_seconds=[worker.busy_seconds for worker in self._workers],
            computed_tokens=[worker.computed_tokens for worker in self._workers],
            seconds=self._now,
            ask_ns=self._ask_ns,
            router_ns=self._router_ns,
            most_queued=self._most_queued,
        )

    def _arrive(self, request: PlannedRequest) -> None:
        outcome = self._classes.get(request.kind)
        if outcome is None:
            outcome = self._classes[request.kind] = ClassOutcome()
        prompt = self._prompts.ask(request)
        self._asked += 1
        key = self._asked
        self._flights[key] = _Flight(request, prompt, self._now, outcome)
        ask = Ask(
            key=str(key),
            prompt_tokens=prompt.tokens,
            arrival=self._now,
            ids=prompt.ids,
            hashes={} if len(prompt.ids) else {self._block: prompt.hashes},
            priority=request.priority,
            placement=Placement(
                session=request.session,
                parent=request.parent,
                session_ends=request.final,
                strict_priority=request.strict_priority,
                osl=request.output_tokens,
            ),
        )
        began = time.thread_time_ns()
        answer = self._router.ask(ask)
        spent = time.thread_time_ns() - began
        self._ask_ns.append(spent)
        self._router_ns += spent
        self._answer(answer)
        self._most_queued = max(self._most_queued, self._router.queued)

    def _answer(self, answer: Answer) -> None:
        if isinstance(answer, Placed):
            self._submit(answer)
        elif isinstance(answer, Refused):
            flight = self._flights.pop(int(answer.key))
            flight.outcome.refused += 1
            self._schedule.ended(flight.request, self._now, failed=True)

    def _submit(self, placed: Placed) -> None:
        key = int(placed.key)
        flight = self._flights[key]
        flight.placed = placed
        request = flight.request
        number = self._numbers[placed.worker]
        flight.outcome.waited.append(self._now - flight.arrival)
        job = WorkerJob(
            key=key,
            prompt=flight.prompt,
            output_tokens=request.output_tokens,
            priority=request.priority,
            whole=self._prompts.answered(request),
        )
        worker = self._workers[number]
        before = worker.ends
        worker.submit(job, self._now)
        self._note(number, before)

    def _note(self, number: int, before: float | None) -> None:
        ends = self._workers[number].ends
        if ends is not None and ends != before:
            heapq.heappush(self._steps, (ends, number))

    def _finish(self, number: int) -> None:
        progress = self._workers[number].finish(self._now)
        self._note(number, None)
        for one in progress:
            self._progress(one)

    def _progress(self, one: Progress) -> None:
        flight, key = self._flights[one.key], str(one.key)
        released: list[Released] = []
        began = time.thread_time_ns()
        if one.cached_tokens is not None:
            released += self._router.prefilled(key)
        self._router.progressed(key, one.tokens)
        if one.ended:
            released += self._router.done(key)
        self._router_ns += time.thread_time_ns() - began
        outcome = flight.outcome
        if one.cached_tokens is not None:
            outcome.ttft.append(self._now - flight.arrival)
            outcome.prompt_tokens += flight.prompt.tokens
            outcome.cached_tokens += one.cached_tokens
            outcome.attainable_tokens += flight.prompt.attainable
        if one.ended:
            outcome.whole.append(self._now - flight.arrival)
            outcome.output_tokens += flight.request.output_tokens
            outcome.last_end = self._now
            del self._flights[one.key]
            self._schedule.ended(flight.request, self._now)
        for answer in released:
            self._answer(answer)
