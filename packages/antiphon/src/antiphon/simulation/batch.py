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
    """What a step yields at its end, and how long it takes. `admitted`: the sequences whose waiting ended with its beginning."""

    seconds: float
    sampled: tuple[Sampled, ...]
    admitted: tuple[int, ...] = ()


class _Running:
    def __init__(self, key: int, request: Request, arrival: int) -> None:
        self.key = key
        self.request = request
        self.rank = (-request.priority, arrival)
        self.pages: CachedSequence | None = None
        self.computed = 0
        self.emitted = 0
        self.cached: int | None = None

    @property
    def needed(self) -> int:
        """How many tokens must be in the cache before the next one is sampled: prompt and answer so far."""
        return len(self.request.prompt_ids) + self.emitted

    def tokens(self, start: int, end: int) -> Sequence[int]:
        """That part of prompt and answer."""
        prompt = self.request.prompt_ids
        if end <= len(prompt):
            return prompt[start:end]
        behind = self.request.output_ids[max(start - len(prompt), 0) : end - len(prompt)]
        return behind if start >= len(prompt) else array("I", [*prompt[start:], *behind])


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
        admitted, context = self._admit()
        computed, decoding = 0, 0
        out: list[Sampled] = []
        for running in sorted(self._running.values(), key=lambda one: one.rank):
            if running.key not in self._running:
                continue
            missing = running.needed - running.computed
            if missing > 0:
                part = self._compute(running, running.tokens(running.computed, running.computed + min(missing, budget)))
                budget -= part
                computed += part
                if running.computed < running.needed:
                    continue
            elif budget <= 0:
                continue
            decoding += 1
            budget -= 1
            found = self._decode(running)
            if found is not None:
                out.append(found)
        seconds = self.timing.seconds(computed=computed, admitted_context=context, decoding=decoding)
        return Step(seconds, tuple(out), admitted)

    def _admit(self) -> tuple[tuple[int, ...], int]:
        """Lets waiting sequences in while there is room: those that are in for the first time, and the tokens of all prompts let in."""
        context = 0
        first: list[int] = []
        while self._waiting and len(self._running) < self.limits.sequences:
            _, key = self._waiting[0]
            running = self._all.get(key)
            if running is None or key in self._running:
                heapq.heappop(self._waiting)
                continue
            if self._running and not self.cache.room():
                break
            heapq.heappop(self._waiting)
            # The last token is always computed: its logits are what the first answer token is sampled from.
            tokens = running.tokens(0, max(running.needed - 1, 0))
            running.pages = self.cache.open(tokens, salt=running.request.salt, priority=running.request.priority)
            running.computed = running.pages.held_tokens
            if running.cached is None:
                running.cached = running.computed
                first.append(key)
            context += running.needed
            self._running[key] = running
        return tuple(first), context

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
        """Makes room: puts the least urgent sequence back; if that is the one that wants room, nothing more is done for it in this
        step. One that is alone gets what pins have kept from it."""
        if len(self._running) == 1 and self.cache.drop_pins():
            return True
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
