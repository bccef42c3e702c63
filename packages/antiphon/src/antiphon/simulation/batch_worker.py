"""The engine of `batch.py` as a worker of a simulated fleet, and prompts with real token ids for it."""

from array import array
from collections.abc import Sequence
from random import Random

from antiphon.load.trace import PlannedRequest
from antiphon.router.hashing import extend, root_of
from antiphon.simulation.batch import Batch, Request
from antiphon.simulation.cache_events import Stored
from antiphon.simulation.fleet_worker import Progress, WorkerJob
from antiphon.simulation.prompts import Prompt, reusable
from antiphon.simulation.run_cache import CacheListener

_VOCABULARY = 150_000


class TokenPrompts:
    """Prompts of every session under way, as token ids drawn by name. `stored` is to be told of every block that any worker holds."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._ids: dict[str, array[int]] = {}
        self._root: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}
        self._known: set[int] = set()

    def ask(self, request: PlannedRequest) -> Prompt:
        """The prompt of a session's next request."""
        ids = self._ids.get(request.session)
        if ids is None:
            ids = self._begin(request)
        ids.extend(drawn(f"{request.session}/{request.turn}", request.new_tokens))
        return self._prompt(ids)

    def answered(self, request: PlannedRequest) -> Prompt:
        """The same with its answer."""
        ids = self._ids[request.session]
        ids.extend(drawn(f"{request.session}/{request.turn}/answer", request.output_tokens))
        return self._prompt(ids)

    def forget(self, root: str) -> None:
        """A tree has ended."""
        for name in self._members.pop(root, ()):
            del self._ids[name], self._root[name]

    def stored(self, hashes: Sequence[int]) -> None:
        """Some worker holds these blocks."""
        self._known.update(hashes)

    def _prompt(self, ids: "array[int]") -> Prompt:
        hashes = extend(ids, root_of(""), self.block_tokens)
        low, high = 0, len(hashes)
        while low < high:
            middle = (low + high) // 2
            if hashes[middle] in self._known:
                low = middle + 1
            else:
                high = middle
        attainable = reusable(low, len(ids), self.block_tokens)
        return Prompt(tokens=len(ids), hashes=hashes, attainable=attainable, ids=ids[:])

    def _begin(self, request: PlannedRequest) -> "array[int]":
        parent = request.parent
        if parent is not None and parent in self._ids and request.share == "history":
            ids = self._ids[parent][:]
        else:
            ids = drawn(f"head/{request.head or request.session}", request.head_tokens)
        root = self._root[request.session] = self._root.get(parent, request.session) if parent is not None else request.session
        self._members.setdefault(root, []).append(request.session)
        self._ids[request.session] = ids
        return ids


def drawn(name: str, count: int) -> "array[int]":
    """So many token ids, the same for the same name."""
    return array("I", Random(name).choices(range(_VOCABULARY), k=count))


class BatchWorker:
    """One engine. Its cache records events, and `listener` is told of them when a step begins."""

    def __init__(self, batch: Batch, listener: CacheListener) -> None:
        self.batch = batch
        self.ends: float | None = None
        self.busy_seconds = 0.0
        self.computed_tokens = 0
        self._listener = listener
        self._keys: dict[int, WorkerJob] = {}
        self._sampled: list[Progress] = []
        self._begun = 0.0

    def submit(self, job: WorkerJob, now: float) -> None:
        """A job comes; a step under way goes on without it."""
        assert job.whole is not None
        output = job.whole.ids[job.prompt.tokens :]
        self._keys[self.batch.add(Request(prompt_ids=job.prompt.ids, output_ids=output, priority=job.priority))] = job
        if self.ends is None:
            self._begin(now)

    def finish(self, now: float) -> Sequence[Progress]:
        """The step has ended; the next one begins."""
        self.busy_seconds += now - self._begun
        out = self._sampled
        self._begin(now)
        return out

    def _begin(self, now: float) -> None:
        self._begun = now
        if not len(self.batch):
            self.ends, self._sampled = None, []
            return
        step = self.batch.step()
        self.ends = now + step.seconds
        self._sampled = []
        for sampled in step.sampled:
            job = self._keys[sampled.key]
            if sampled.cached_tokens is not None:
                self.computed_tokens += job.prompt.tokens - sampled.cached_tokens
            self._sampled.append(Progress(job.key, len(sampled.ids), sampled.ended, sampled.cached_tokens))
            if sampled.ended:
                del self._keys[sampled.key]
        for event in self.batch.cache.take_events():
            if isinstance(event, Stored):
                self._listener.stored(event.hashes)
            else:
                self._listener.removed(getattr(event, "hashes", ()))
