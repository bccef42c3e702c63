"""Continuous batching: which sequences get how many tokens in the next step. Pure; whoever drives it owns the clock."""

import heapq
from array import array
from collections.abc import Sequence

import msgspec

from antiphon.simulation.paged_cache import CachedSequence, PagedCache
from antiphon.simulation.timing import Timing


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """`step_tokens`: prompt and answer tokens computed in one step. `sequences`: how many run at once. `burst`: answer tokens
    a sequence gets in one step (speculative decoding)."""

    step_tokens: int = 8192
    sequences: int = 256
    burst: int = 1


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`output_ids` will be sampled. A higher `priority` goes first; equal ones in the order of arrival."""

    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    priority: int = 0
    salt: str = ""


class Sampled(msgspec.Struct, frozen=True):
    """New ids of one sequence. `cached_tokens` comes with its first ids; `ended` with its last."""

    key: int
    ids: Sequence[int]
    ended: bool
    cached_tokens: int | None = None


class Step(msgspec.Struct, frozen=True):
    """What a step yields at its end, and how long it takes."""

    seconds: float
    sampled: tuple[Sampled, ...]


class _Running:
    def __init__(self, key: int, request: Request, arrival: int) -> None:
        self.key = key
        self.request = request
        self.rank = (-request.priority, arrival)
        self.pages: CachedSequence | None = None
        self.computed = 0
        self.emitted = 0
        self.cached: int | None = None

    def tokens(self) -> Sequence[int]:
        """What must be in the cache before the next token is sampled: the prompt and, after preemption, the answer so far."""
        done = self.request.output_ids[: self.emitted]
        return array("I", [*self.request.prompt_ids, *done]) if done else self.request.prompt_ids


class Batch:
    """Sequences come with `add` and leave by themselves or with `cancel`; `step` moves all of them on. A sequence that
    finds no page is put back and computed again later, the least urgent first."""

    def __init__(self, cache: PagedCache, timing: Timing, limits: BatchLimits | None = None) -> None:
        self.cache = cache
        self.timing = timing
        self.limits = limits or BatchLimits()
        self._waiting: list[tuple[tuple[int, int], int]] = []
        self._all: dict[int, _Running] = {}
        self._running: dict[int, _Running] = {}
        self._arrivals = 0
        self.preempted = 0

    def __len__(self) -> int:
        return len(self._all)

    @property
    def waiting(self) -> int:
        """Sequences that have not been admitted yet."""
        return len(self._all) - len(self._running)

    def add(self, request: Request) -> int:
        """The key of a new sequence. Raises ValueError for a prompt that can never fit the cache."""
        blocks = -(-(len(request.prompt_ids) + len(request.output_ids)) // self.cache.block_tokens)
        if blocks > self.cache.total_blocks:
            raise ValueError("the sequence is larger than the cache")
        self._arrivals += 1
        running = _Running(self._arrivals, request, self._arrivals)
        self._all[running.key] = running
        heapq.heappush(self._waiting, (running.rank, running.key))
        return running.key

    def cancel(self, key: int) -> None:
        """The sequence leaves at once; its pages stay findable."""
        found = self._all.pop(key, None)
        self._running.pop(key, None)
        if found is not None and found.pages is not None:
            found.pages.close()

    def step(self) -> Step:
        """Computes one step. With nothing to do it takes no time."""
        budget = self.limits.step_tokens
        admitted = self._admit()
        computed, decoding = 0, 0
        out: list[Sampled] = []
        for running in sorted(self._running.values(), key=lambda one: one.rank):
            if running.key not in self._running:
                continue
            tokens = running.tokens()
            missing = len(tokens) - running.computed
            if missing > 0:
                part = self._compute(running, tokens[running.computed : running.computed + min(missing, budget)])
                budget -= part
                computed += part
                if running.computed < len(tokens):
                    continue
            elif budget <= 0:
                continue
            decoding += 1
            budget -= 1
            found = self._decode(running)
            if found is not None:
                out.append(found)
        seconds = self.timing.seconds(computed=computed, admitted_context=admitted, decoding=decoding)
        return Step(seconds, tuple(out))

    def _admit(self) -> int:
        """Lets waiting sequences in while there is room; the cached tokens behind their prompts."""
        context = 0
        while self._waiting and len(self._running) < self.limits.sequences:
            _, key = self._waiting[0]
            running = self._all.get(key)
            if running is None or key in self._running:
                heapq.heappop(self._waiting)
                continue
            if self._running and not self.cache.room():
                break
            heapq.heappop(self._waiting)
            tokens = running.tokens()
            # The last token is always computed: its logits are what the first answer token is sampled from.
            running.pages = self.cache.open(tokens[: max(len(tokens) - 1, 0)], salt=running.request.salt, priority=running.request.priority)
            running.computed = running.pages.held_tokens
            if running.cached is None:
                running.cached = running.computed
            context += len(tokens)
            self._running[key] = running
        return context

    def _compute(self, running: _Running, tokens: Sequence[int]) -> int:
        """Puts prompt tokens into the cache, making room at the cost of less urgent sequences."""
        done = 0
        while done < len(tokens) and running.pages is not None:
            added = running.pages.add(tokens[done:])
            done += added
            if done < len(tokens) and not self._preempt(running):
                break
        running.computed += done
        return done

    def _preempt(self, wanting: _Running) -> bool:
        """Puts the least urgent sequence back; if that is the one that wants room, nothing more is done for it in this step."""
        last = max(self._running.values(), key=lambda one: one.rank)
        if last.pages is not None:
            last.pages.close()
        last.pages, last.computed = None, 0
        del self._running[last.key]
        heapq.heappush(self._waiting, (last.rank, last.key))
        self.preempted += 1
        return last is not wanting

    def _decode(self, running: _Running) -> Sampled | None:
        ids = running.request.output_ids[running.emitted : running.emitted + self.limits.burst]
        running.emitted += len(ids)
        ended = running.emitted >= len(running.request.output_ids)
        first = running.emitted == len(ids)
        found = Sampled(running.key, ids, ended, running.cached if first else None)
        if ended:
            if running.pages is not None:
                running.pages.add(ids)
            self.cancel(running.key)
        else:
            self._compute(running, ids)
        return found
