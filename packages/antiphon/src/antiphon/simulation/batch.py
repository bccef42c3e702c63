"""Continuous batching: which sequences get how many tokens in the next step. Pure; whoever drives it owns the clock."""

import heapq
from array import array
from collections.abc import Sequence

import msgspec

from antiphon.simulation.paged_cache import CachedSequence, PagedCache
from antiphon.simulation.timing import Timing


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """`step_tokens`: prompt and answer tokens computed in one step. `sequences`: how many run at once. `burst`: answer tokens
    a sequence gets in one step (speculative decoding). `max_wait`: whoever has waited so many seconds for its first token, or for its
    next one, goes before all who have not, whatever their priority."""

    step_tokens: int = 8192
    sequences: int = 256
    burst: int = 1
    max_wait: float = 60.0

    @property
    def spare_tokens(self) -> int:
        """Prompt tokens of `prefill_only` sequences in one step: few, because a request that comes meanwhile waits for the step to end."""
        return max(self.step_tokens // 16, 1)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`output_ids` will be sampled. A higher `priority` goes first; equal ones in the order of arrival. The prompt's blocks stay in the
    cache for `retain_seconds` after it, on behalf of `session`; with `session_ends` nothing is kept for that session any longer. One that
    is `prefill_only` has no `output_ids`: it uses what time and room the others leave, and ends, done or not, when one of them needs
    the room."""

    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    priority: int = 0
    salt: str = ""
    retain_seconds: float = 0.0
    session: str = ""
    session_ends: bool = False
    prefill_only: bool = False


def retain(cache: PagedCache, request: Request) -> None:
    """What becomes of the prompt of a request that leaves the engine."""
    owner = f"{request.salt}\0{request.session}" if request.session else ""
    if request.session_ends and owner:
        cache.unpin(owner)
    elif request.retain_seconds > 0:
        cache.pin(request.prompt_ids, request.retain_seconds, request.salt, owner=owner)


# Blocks that nobody has asked for yet are the first to be evicted.
SPARE_PRIORITY = -(1 << 31)


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
    def __init__(self, key: int, request: Request, now: float) -> None:
        self.key = key
        self.request = request
        self.since = now
        self.pages: CachedSequence | None = None
        self.computed = 0
        self.emitted = 0
        self.cached: int | None = None

    @property
    def rank(self) -> tuple[int, int, int]:
        """Lower goes first, as long as nobody has waited too long."""
        return int(self.request.prefill_only), -self.request.priority, self.key

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
    finds no page is put back and computed again later, the least urgent first. Waiting is bounded by the cache's clock."""

    def __init__(self, cache: PagedCache, timing: Timing, limits: BatchLimits | None = None) -> None:
        self.cache = cache
        self.timing = timing
        self.limits = limits or BatchLimits()
        self._waiting: list[tuple[tuple[int, int, int], int]] = []
        self._longest: list[tuple[float, int]] = []
        self._dropped: list[Sampled] = []
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
        running = _Running(self._arrivals, request, self.cache.now())
        self._all[running.key] = running
        self._wait(running)
        return running.key

    def cancel(self, key: int) -> None:
        """The sequence leaves at once; its pages stay findable."""
        found = self._all.pop(key, None)
        self._running.pop(key, None)
        if found is None:
            return
        retain(self.cache, found.request)
        if found.pages is not None:
            found.pages.close()

    def step(self) -> Step:
        """Computes one step. With nothing to do it takes no time."""
        now = self.cache.now()
        budget, spare = self.limits.step_tokens, self.limits.spare_tokens
        admitted, context = self._admit(now)
        computed, decoding = 0, 0
        out: list[Sampled] = []
        for running in sorted(self._running.values(), key=lambda one: self._order(one, now)):
            if running.key not in self._running:
                continue
            missing = running.needed - running.computed
            if missing > 0:
                room = min(budget, spare) if running.request.prefill_only else budget
                part = self._compute(running, running.tokens(running.computed, running.computed + min(missing, room)), now)
                budget -= part
                if running.request.prefill_only:
                    spare -= part
                    context += part
                computed += part
                if running.computed < running.needed:
                    continue
            elif budget <= 0:
                continue
            if running.request.prefill_only:
                self._drop(running)
                continue
            decoding += 1
            budget -= 1
            found = self._decode(running, now)
            if found is not None:
                out.append(found)
        out += self._dropped
        self._dropped = []
        seconds = self.timing.seconds(computed=computed, admitted_context=context, decoding=decoding)
        return Step(seconds, tuple(out), admitted)

    def _order(self, one: _Running, now: float) -> tuple[int, float, int, int]:
        """Lower goes first: who has waited too long, the longest first, then by rank."""
        kind, urgency, key = one.rank
        if kind == 0 and now - one.since >= self.limits.max_wait:
            return -1, one.since, 0, key
        return kind, 0.0, urgency, key

    def _wait(self, one: _Running) -> None:
        heapq.heappush(self._waiting, (one.rank, one.key))
        if not one.request.prefill_only:
            heapq.heappush(self._longest, (one.since, one.key))

    def _next(self, now: float) -> _Running | None:
        """The one to be let in next. Entries of those that are in already, or gone, are thrown out."""
        while self._longest and not self._waits(self._longest[0][1]):
            heapq.heappop(self._longest)
        if self._longest and now - self._longest[0][0] >= self.limits.max_wait:
            return self._all[self._longest[0][1]]
        while self._waiting and not self._waits(self._waiting[0][1]):
            heapq.heappop(self._waiting)
        return self._all[self._waiting[0][1]] if self._waiting else None

    def _waits(self, key: int) -> bool:
        return key in self._all and key not in self._running

    def _admit(self, now: float) -> tuple[tuple[int, ...], int]:
        """Lets waiting sequences in while there is room: those that are in for the first time, and the tokens of all prompts let in."""
        context = 0
        first: list[int] = []
        while (running := self._next(now)) is not None:
            full = len(self._running) >= self.limits.sequences or (bool(self._running) and not self.cache.room())
            if full and not (running.rank[0] == 0 and self._drop_spare()):
                break
            # The last token is always computed: its logits are what the first answer token is sampled from.
            tokens = running.tokens(0, max(running.needed - 1, 0))
            request = running.request
            priority = SPARE_PRIORITY if request.prefill_only else request.priority
            running.pages = self.cache.open(tokens, salt=request.salt, priority=priority)
            running.computed = running.pages.held_tokens
            if running.cached is None:
                running.cached = running.computed
                first.append(running.key)
            # Work that is done in slices looks at its prompt in slices too.
            context += 0 if request.prefill_only else running.needed
            self._running[running.key] = running
        return tuple(first), context

    def _drop(self, spare: _Running) -> None:
        """The end of a sequence that only fills the cache, whether it has filled it or not."""
        self._dropped.append(Sampled(spare.key, (), ended=True, cached_tokens=spare.cached))
        self.cancel(spare.key)

    def _drop_spare(self) -> bool:
        """Makes room at the cost of a sequence that only fills the cache; False when there is none."""
        spare = [one for one in self._running.values() if one.request.prefill_only]
        if spare:
            self._drop(spare[-1])
        return bool(spare)

    def _compute(self, running: _Running, tokens: Sequence[int], now: float) -> int:
        """Puts prompt tokens into the cache, making room at the cost of less urgent sequences."""
        done = 0
        while done < len(tokens) and running.pages is not None:
            added = running.pages.add(tokens[done:])
            done += added
            if done < len(tokens) and not self._preempt(running, now):
                break
        running.computed += done
        return done

    def _preempt(self, wanting: _Running, now: float) -> bool:
        """Makes room: puts the least urgent sequence back; if that is the one that wants room, nothing more is done for it in this
        step. One that is alone gets what pins have kept from it."""
        if len(self._running) == 1 and not wanting.request.prefill_only and self.cache.drop_pins():
            return True
        last = max(self._running.values(), key=lambda one: self._order(one, now))
        if last.request.prefill_only:
            self._drop(last)
            return last is not wanting
        if last.pages is not None:
            last.pages.close()
        last.pages, last.computed = None, 0
        del self._running[last.key]
        self._wait(last)
        self.preempted += 1
        return last is not wanting

    def _decode(self, running: _Running, now: float) -> Sampled | None:
        ids = running.request.output_ids[running.emitted : running.emitted + self.limits.burst]
        running.emitted += len(ids)
        running.since = now
        ended = running.emitted >= len(running.request.output_ids)
        first = running.emitted == len(ids)
        found = Sampled(running.key, ids, ended, running.cached if first else None)
        if ended:
            if running.pages is not None:
                running.pages.add(ids)
            self.cancel(running.key)
        else:
            self._compute(running, ids, now)
        return found
