"""Token counts scaled to the context that a client believes in.

Claude Code decides by a model's name how much context there is, and compacts by the usage it is told. Where it cannot be told the real
length (names it knows, its older versions), counts of a smaller context scaled up make it compact in time. Off unless asked for:
scaled counts are no counts.
"""

from typing import Any

import msgspec

from antiphon.surfaces import Call, Projector, Surface
from antiphon_protocols.errors import ErrorResponse
from antiphon_turns import Event, TurnEnd, TurnStart, Usage, UsageUpdate
from antiphon_turns.errors import AntiphonError, ContextOverflow

HEADER = "x-antiphon-usage-scale"


class UsageScale(msgspec.Struct, frozen=True):
    """Reported tokens are real ones times `reported / real`, rounded up, so that a full context is full in both."""

    reported: int
    real: int

    def tokens(self, count: int) -> int:
        """The count that is reported for a real one."""
        return -(-count * self.reported // self.real)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Says in an answer that its counts are scaled."""
        return ((HEADER, f"{self.reported}/{self.real}"),)


def scaled(surface: Surface, scale: UsageScale) -> Surface:
    """The surface with every count scaled: usage, and the numbers of an overflow."""

    def ingest(body: bytes, headers: Any) -> Call:
        call = surface.ingest(body, headers)

        def projector(request_id: str, created: int) -> Projector:
            return ScaledProjector(call.projector(request_id, created), scale)

        return msgspec.structs.replace(call, projector=projector)

    def error(raised: AntiphonError, request_id: str) -> ErrorResponse:
        if isinstance(raised, ContextOverflow):
            raised = ContextOverflow(scale.tokens(raised.prompt_tokens), scale.tokens(raised.context_length))
        return surface.error(raised, request_id)

    return msgspec.structs.replace(surface, ingest=ingest, error=error, notes=(*surface.notes, *scale.headers))


class ScaledProjector:
    """A projector that sees scaled counts."""

    def __init__(self, inner: Projector, scale: UsageScale) -> None:
        self._inner = inner
        self._scale = scale
        self.fail, self.keepalive, self.body = inner.fail, inner.keepalive, inner.body

    def push(self, event: Event) -> bytes:
        """Scales what counts tokens and hands on the rest."""
        if isinstance(event, TurnStart):
            cached = None if event.cached_tokens is None else self._scale.tokens(event.cached_tokens)
            event = msgspec.structs.replace(event, prompt_tokens=self._scale.tokens(event.prompt_tokens), cached_tokens=cached)
        elif isinstance(event, UsageUpdate | TurnEnd):
            event = msgspec.structs.replace(event, usage=self._usage(event.usage))
        return self._inner.push(event)

    def _usage(self, usage: Usage) -> Usage:
        tokens = self._scale.tokens
        return Usage(
            prompt_tokens=tokens(usage.prompt_tokens),
            cached_tokens=None if usage.cached_tokens is None else tokens(usage.cached_tokens),
            output_tokens=tokens(usage.output_tokens),
            reasoning_tokens=tokens(usage.reasoning_tokens),
        )
