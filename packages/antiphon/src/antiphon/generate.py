"""Step 7: the phases of one generation on one worker.

Most turns are one phase. Two things cut a turn into more: a thinking budget (the family's closer is injected when it
is spent) and a forced call (`tool_choice` any or named), where reasoning runs free and then the family's own call
format is enforced by a grammar from its root. Injected text counts as output.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from antiphon.budget import ThinkingBudget
from antiphon.decode import TurnDecoder
from antiphon.engines.base import Engine, Job
from antiphon.model import Model
from antiphon_parsers.call_grammar import CallFormat, force_calls
from antiphon_turns import Event, FinishReason, TurnRequest
from antiphon_turns.errors import UnsupportedFeature


def is_forced(request: TurnRequest, engine: Engine) -> bool:
    """Whether this turn must call a tool and the engine can be held to it."""
    return request.tool_choice.mode in ("any", "named") and engine.constrains


def check_tool_choice(request: TurnRequest, engine: Engine, model: Model) -> None:
    """A choice that would be held to with another model is not dropped in silence: UnsupportedFeature where the model's
    call format has no grammar to force it."""
    if is_forced(request, engine) and model.format.call_format is None:
        message = f"tool_choice: this model's call format ({model.family.name}) cannot be forced here; leave the choice to the model (auto)"
        raise UnsupportedFeature(message, param="tool_choice")


class Generation:
    """Drives an engine for one turn. After `run` is exhausted `finish` says how generation ended."""

    def __init__(self, engine: Engine, model: Model, request: TurnRequest, job: Job, decoder: TurnDecoder) -> None:
        self._engine = engine
        self._model = model
        self._request = request
        self._job = job
        self._decoder = decoder
        self.finish: FinishReason = "stop"

    def run(self) -> AsyncGenerator[list[Event], None]:
        """Streams batches of events, one batch a chunk (it may be empty). Closing it frees the engine. The request has
        passed `check_tool_choice`."""
        call_format = self._model.format.call_format
        forced = is_forced(self._request, self._engine)
        budget = self._request.thinking.budget_tokens
        if forced and call_format is not None:
            return self._forced(call_format, budget)
        if budget is not None and self._model.format.grammar.reasoning is not None:
            return self._within(budget)
        return self._phase(None, reasoning_only=False)

    async def _within(self, tokens: int) -> AsyncGenerator[list[Event], None]:
        """A turn as the model wants it, but for reasoning that has spent its budget: that is closed, wherever in the turn it began."""
        decoder = self._decoder
        budget = ThinkingBudget(tokens, in_reasoning=decoder.in_reasoning)
        while True:
            async with aclosing(self._phase(None, reasoning_only=False)) as batches:
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

    async def _forced(self, call_format: CallFormat, budget: int | None) -> AsyncGenerator[list[Event], None]:
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
        end = self._model.family.frame.end_of_turn
        call = force_calls(call_format, self._request.tools, self._request.tool_choice, budget_tokens=self._room(), end_token=end)
        prefix = self._call_ids(call.prefix)
        if not self._fits(prefix):
            return
        yield decoder.inject(prefix)
        async with aclosing(self._phase(call.grammar, reasoning_only=False)) as batches:
            async for batch in batches:
                yield batch

    def _closer(self) -> list[int]:
        return self._model.tokenizer.encode(self._model.format.grammar.reasoning_close or "", added=True)

    def _call_ids(self, prefix: str) -> list[int]:
        """The start of a call as tokens. A tool's name comes from the client: where it spells a control token, the whole
        start is plain text (I13)."""
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
        return self._job.max_tokens - len(self._decoder.output_ids)

    async def _phase(self, grammar: str | None, *, reasoning_only: bool) -> AsyncGenerator[list[Event], None]:
        decoder = self._decoder
        job = msgspec.structs.replace(
            self._job,
            prompt_ids=self._job.prompt_ids + decoder.output_ids if decoder.output_ids else self._job.prompt_ids,
            max_tokens=self._room(),
            grammar=grammar,
        )
        async with aclosing(self._engine.generate(job)) as chunks:
            async for chunk in chunks:
                if chunk.cached_tokens is not None and decoder.cached_tokens is None:
                    # A later phase finds the earlier ones' output cached too; only the client's prompt counts.
                    decoder.cached_tokens = min(chunk.cached_tokens, len(self._job.prompt_ids))
                if chunk.finish is not None:
                    self.finish = chunk.finish
                yield decoder.feed(chunk.ids, reasoning_only=reasoning_only)
                if decoder.done:
                    return
