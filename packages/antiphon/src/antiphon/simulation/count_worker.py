"""Continuous batching that only counts, for fleets: as `batch.py`, with steps in which nothing but decoding happens taken together."""

import heapq
import math
from collections.abc import Sequence

from antiphon.simulation.batch import BatchLimits
from antiphon.simulation.fleet_worker import Progress, WorkerJob
from antiphon.simulation.run_cache import HeldPath, RunCache
from antiphon.simulation.timing import Timing


class _Sequence:
    __slots__ = ("cached", "computed", "emitted", "held", "job", "rank")

    def __init__(self, job: WorkerJob, arrival: int) -> None:
        self.job = job
        self.rank = (-job.priority, arrival)
        self.held: HeldPath | None = None
        self.computed = 0
        self.emitted = 0
        self.cached = 0


class CountWorker:
    """A sequence is let in when its prompt and answer will fit beside the others', so none is ever put back."""

    def __init__(self, cache: RunCache, timing: Timing, limits: BatchLimits, block_tokens: int) -> None:
        self.cache = cache
        self.ends: float | None = None
        self.busy_seconds = 0.0
        self.computed_tokens = 0
        self._timing = timing
        self._limits = limits
        self._block = block_tokens
        self._waiting: list[tuple[tuple[int, int], _Sequence]] = []
        self._running: list[_Sequence] = []
        self._reserved = 0
        self._arrivals = 0
        self._begun = 0.0
        self._sampling: list[_Sequence] = []
        # Of a step in which all sequences decode: the time of one token, and how many each gets. 0: another step.
        self._each = 0.0
        self._times = 0

    def submit(self, job: WorkerJob, now: float) -> None:
        """A job comes. It is looked at when the token under way is sampled."""
        self._arrivals += 1
        sequence = _Sequence(job, self._arrivals)
        heapq.heappush(self._waiting, (sequence.rank, sequence))
        if self.ends is None:
            self._begin(now)
        elif self._times:
            times = max(math.ceil((now - self._begun) / self._each - 1e-9), 1)
            if times < self._times:
                self._times = times
                self.ends = self._begun + times * self._each

    def finish(self, now: float) -> Sequence[Progress]:
        """The step has ended; the next one begins."""
        self.busy_seconds += now - self._begun
        out = []
        for sequence in self._sampling:
            out.append(self._sampled(sequence, self._times or 1))
        if any(progress.ended for progress in out):
            self._running = [sequence for sequence in self._running if sequence.held is not None]
        self._begin(now)
        return out

    def _begin(self, now: float) -> None:
        context = self._admit()
        self._begun = now
        self._times = 0
        if not self._running:
            self.ends = None
            return
        budget, computed = self._limits.step_tokens, 0
        self._sampling = sampling = []
        for sequence in self._running:
            missing = len_needed(sequence) - sequence.computed
            if missing > 0:
                part = min(missing, budget)
                budget -= part
                computed += part
                self._compute(sequence, part)
                if part < missing:
                    continue
            elif budget <= 0:
                continue
            budget -= 1
            sampling.append(sequence)
        self.computed_tokens += computed
        timing = self._timing
        seconds = timing.seconds(computed=computed, admitted_context=context, decoding=len(sampling))
        if not computed and not context and len(sampling) == len(self._running):
            self._each = seconds
            self._times = min(sequence.job.output_tokens - sequence.emitted for sequence in sampling)
            seconds *= self._times
        self.ends = now + seconds

    def _admit(self) -> int:
        context = 0
        came = False
        while self._waiting and len(self._running) < self._limits.sequences:
            _, sequence = self._waiting[0]
            job = sequence.job
            blocks = -(-(job.prompt.tokens + job.output_tokens) // self._block)
            if self._running and self._reserved + blocks > self.cache.total_blocks:
                break
            heapq.heappop(self._waiting)
            self._reserved += blocks
            most = (job.prompt.tokens - 1) // self._block
            sequence.held = self.cache.open(job.prompt.path, most=most, priority=job.priority)
            sequence.cached = sequence.computed = sequence.held.blocks * self._block
            context += job.prompt.tokens
            self._running.append(sequence)
            came = True
        if came:
            self._running.sort(key=lambda one: one.rank)
        return context

    def _compute(self, sequence: _Sequence, tokens: int) -> None:
        sequence.computed += tokens
        assert sequence.held is not None
        self.cache.store(sequence.held, sequence.computed // self._block, loose=int(sequence.computed % self._block > 0))

    def _sampled(self, sequence: _Sequence, tokens: int) -> Progress:
        first = sequence.emitted == 0
        sequence.emitted += tokens
        sequence.computed += tokens
        job = sequence.job
        ended = sequence.emitted >= job.output_tokens
        if ended:
            self._end(sequence)
        return Progress(job.key, tokens, ended, sequence.cached if first else None)

    def _end(self, sequence: _Sequence) -> None:
        job, held = sequence.job, sequence.held
        assert held is not None
        self._reserved -= -(-(job.prompt.tokens + job.output_tokens) // self._block)
        if job.whole is not None:
            held.path = job.whole.path
            self.cache.store(held, len(job.whole.hashes))
        self.cache.close(held)
        sequence.held = None


def len_needed(sequence: _Sequence) -> int:
    """How many tokens must be in the cache before the next one is sampled."""
    return sequence.job.prompt.tokens + sequence.emitted
