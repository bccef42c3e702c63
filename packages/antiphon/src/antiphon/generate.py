"""Step 7: the phases of one generation on one worker.

Most turns are one phase. What cuts a turn into more: a thinking budget (the family's closer is injected when it is spent); a forced
call (`tool_choice` any or named) and structured output, where reasoning runs free and then a grammar is enforced from its root; a call
of a strict or freeform tool in a free turn, which is held to its grammar from its header to its closer. Injected text counts as output.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from antiphon.budget import ThinkingBudget
from antiphon.constraints import Constraint, HeldCalls, constraint_of
from antiphon.decode import TurnDecoder
from antiphon.engines.base import Chunk, Engine, Job
from antiphon.model import Model
from antiphon_parsers.forcing import Forced
from antiphon_turns import CallReady, Event, FinishReason, SegmentEnd, SegmentStart, TurnRequest
from antiphon_turns.errors import StreamInterrupted, WorkerProtocolError

Batches = AsyncGenerator[list[Event], None]


class Generation:
    """Drives an engine for one turn, whose first phase is `job`. After `run` is exhausted `finish` says how generation ended.
    `queue_seconds`: how long the turn waited for the engine, once that is known. `worker`: who samples now, None while the engine has not
    said; `migrations`: how often another one has taken over."""

    def __init__(self, engine: Engine, model: Model, request: TurnRequest, job: Job, decoder: TurnDecoder) -> None:
        self._engine = engine
        self._model = model
        self._request = request
        self.job = job
        self._decoder = decoder
        self._vocab_size = model.tokenizer.vocab_size
        self._called = False
        self._held = HeldCalls(request, engine, model)
        self.finish: FinishReason = "stop"
        self.queue_seconds: float | None = None
        self.worker: str | None = None
        self.migrations = 0

    def run(self) -> Batches:
        """Streams batches of events, one batch a chunk (it may be empty). Closing it frees the engine. The request has
        passed `check_request`."""
        constraint = constraint_of(self._request, self._engine, self._model)
        budget = self._request.thinking.budget_tokens
        if constraint is not None:
            return self._phases(constraint, budget)
        if budget is not None and self._model.format.grammar.reasoning is not None:
            return self._within(budget)
        return self._free()

    async def _within(self, tokens: int) -> Batches:
        """A turn as the model wants it, but for reasoning that has spent its budget: that is closed, wherever in the turn it began."""
        decoder = self._decoder
        budget = ThinkingBudget(tokens, in_reasoning=decoder.in_reasoning)
        while True:
            async with aclosing(self._free()) as batches:
                async for batch in batches:
                    yield batch
                    if budget.spent(in_reasoning=decoder.in_reasoning, sampled=len(decoder.output_ids)):
                        break
                else:
                    return
            closer = self._closer()
            if not self._fits(closer):
                return
            yield decoder.inject(closer)
            budget.spent(in_reasoning=decoder.in_reasoning, sampled=len(decoder.output_ids))

    async def _phases(self, constraint: Constraint, budget: int | None) -> Batches:
        """Reasoning runs free, within its budget; then comes what must have a form."""
        decoder = self._decoder
        if decoder.in_reasoning:
            async with aclosing(self._phase(None, reasoning_only=True)) as batches:
                async for batch in batches:
                    yield batch
                    if not decoder.in_reasoning or (budget is not None and len(decoder.output_ids) >= budget):
                        break
                else:
                    if self.finish == "length":
                        return
            if decoder.in_reasoning:
                closer = self._closer()
                if not self._fits(closer):
                    return
                yield decoder.inject(closer)
        async with aclosing(self._constrained(constraint)) as batches:
            async for batch in batches:
                yield batch

    def _closer(self) -> list[int]:
        return self._model.tokenizer.encode(self._model.format.grammar.reasoning_close or "", added=True)

    async def _constrained(self, constraint: Constraint) -> Batches:
        """The rest of the turn, in the form it must have."""
        if not self._fits([]):
            return
        if constraint.calls_allowed:
            async with aclosing(self._free_call()) as batches:
                async for batch in batches:
                    yield batch
            if self._called:
                return
        forced = constraint.force(self._room())
        prefix = self._call_ids(forced.prefix)
        if not self._fits(prefix):
            return
        yield self._decoder.inject(prefix)
        async with aclosing(self._phase(forced.grammar, reasoning_only=False)) as batches:
            async for batch in batches:
                yield batch

    def _free(self) -> Batches:
        """The rest of the turn as the model wants it."""
        return self._free_with_held_calls() if self._held else self._phase(None, reasoning_only=False)

    async def _free_with_held_calls(self) -> Batches:
        decoder = self._decoder
        forced: Forced | None = None
        while True:
            grammar = None
            if forced is not None:
                prefix = self._call_ids(forced.prefix)
                if not self._fits(prefix):
                    return
                grammar = forced.grammar
                batch = decoder.inject(prefix)
                yield batch
                if decoder.done or _call_ended(batch):
                    grammar = None
            if decoder.done:
                return
            forced, interrupted = None, False
            async with aclosing(self._phase(grammar, reasoning_only=False)) as batches:
                async for batch in batches:
                    yield batch
                    if grammar is None:
                        forced = self._begun(batch)
                    interrupted = forced is not None or (grammar is not None and _call_ended(batch) and self.finish != "length")
                    if interrupted:
                        break
            if not interrupted or decoder.call_made:
                return
            # Behind a whole grammar only the end of the turn could be sampled: it was not the model's own choice.
            if grammar is not None:
                decoder.inject([])

    def _begun(self, batch: list[Event]) -> Forced | None:
        """The grammar for a held call that begins in the batch and has not ended in it."""
        start = next((event for event in reversed(batch) if isinstance(event, SegmentStart)), None)
        if start is None or start.kind != "tool_call" or _call_ended(batch):
            return None
        return self._held.rest_of(start.name, self._model.tokenizer.decode(self._decoder.output_ids), self._room())

    async def _free_call(self) -> Batches:
        """The rest of the turn, where the model begins with a call. Where it begins with text nothing is taken: the few tokens
        sampled to find that out are forgotten, and the engine has their place in its cache."""
        calls = self._model.format.grammar.calls
        openers = calls.openers if calls is not None else ()
        if not openers:
            return
        held: list[Chunk] = []
        async with aclosing(self._engine.generate(self._next_job(None))) as chunks:
            async for chunk in chunks:
                if self._called:
                    yield self._take(chunk, reasoning_only=False)
                    if self._decoder.done:
                        return
                    continue
                held.append(chunk)
                self._learn(chunk)
                text = self._model.tokenizer.decode([token_id for one in held for token_id in one.ids]).lstrip()
                if any(text.startswith(opener) for opener in openers):
                    self._called = True
                    for one in held:
                        yield self._take(one, reasoning_only=False)
                elif chunk.finish is not None or not any(opener.startswith(text) for opener in openers):
                    return

    def _call_ids(self, prefix: str) -> list[int]:
        """The start of a call as tokens. A tool's name comes from the client: where it spells a control token, the whole
        start is plain text (I13)."""
        if not prefix:
            return []
        tokenizer = self._model.tokenizer
        spelled = any(token in tool.name for tool in self._request.tools for token in tokenizer.control_tokens)
        return tokenizer.encode(prefix, added=not spelled)

    def _fits(self, token_ids: list[int]) -> bool:
        """Whether the tokens and one more fit the limit; if not, the turn ends with "length"."""
        if len(token_ids) < self._room():
            return True
        self.finish = "length"
        return False

    def _room(self) -> int:
        return self.job.max_tokens - len(self._decoder.output_ids)

    def _next_job(self, grammar: str | None) -> Job:
        output = self._decoder.output_ids
        prompt = [*self.job.prompt_ids, *output] if output else self.job.prompt_ids
        return msgspec.structs.replace(self.job, prompt_ids=prompt, max_tokens=self._room(), grammar=grammar)

    async def _phase(self, grammar: str | None, *, reasoning_only: bool) -> Batches:
        async with aclosing(self._engine.generate(self._next_job(grammar))) as chunks:
            async for chunk in chunks:
                yield self._take(chunk, reasoning_only=reasoning_only)
                if self._decoder.done or chunk.finish is not None:
                    return
        # An answer that just stops is not a model that has finished: clients would take it for the whole turn.
        raise StreamInterrupted("the engine ended its answer early")

    def _take(self, chunk: Chunk, *, reasoning_only: bool) -> list[Event]:
        self._learn(chunk)
        if chunk.ids and not 0 <= min(chunk.ids) <= max(chunk.ids) < self._vocab_size:
            # They have no text, and in a later prompt they would break the engine.
            raise WorkerProtocolError("the engine sampled tokens that the model does not have; it may be serving another model")
        if chunk.finish is not None:
            self.finish = chunk.finish
        return self._decoder.feed(chunk.ids, reasoning_only=reasoning_only, logprobs=chunk.logprobs)

    def _learn(self, chunk: Chunk) -> None:
        """What the engine tells of the turn beside its tokens."""
        decoder = self._decoder
        if chunk.cached_tokens is not None and decoder.cached_tokens is None:
            # A later phase finds the earlier ones' output cached too; only the client's prompt counts.
            decoder.cached_tokens = min(chunk.cached_tokens, len(self.job.prompt_ids))
        if self.queue_seconds is None:
            self.queue_seconds = chunk.queue_seconds
        if chunk.worker is not None and chunk.worker != self.worker:
            self.migrations += self.worker is not None
            self.worker = chunk.worker


def _call_ended(batch: list[Event]) -> bool:
    """Whether the last thing a batch tells of a call is its end."""
    last = next((event for event in reversed(batch) if isinstance(event, SegmentStart | SegmentEnd | CallReady)), None)
    return isinstance(last, SegmentEnd | CallReady)
