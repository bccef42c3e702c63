"""Several turns in one answer: the choices of a Chat or legacy Completions request, told apart by index.

Every choice has a projector of its own, a part; `Choices` gives them one id, puts their chunks on one stream as they come, and ends it
when all have ended.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from antiphon_protocols import sse
from antiphon_turns.errors import AntiphonError, InternalError
from antiphon_turns.events import Event, TokenLogprob, TurnEnd, TurnStart, Usage

_LEAST_LOGPROB = -9999.0
"""What the vendor sends for a probability of zero; JSON has no infinity."""


class ChoiceEvent(msgspec.Struct, frozen=True):
    """An event of one of several turns."""

    choice: int
    event: Event


class Part(Protocol):
    """The projector of one choice. It leaves the end of the stream to the whole."""

    def push(self, event: Event) -> bytes:
        """SSE bytes for one event."""
        ...

    def head(self) -> dict[str, Any]:
        """What is the same in all chunks; there after TurnStart."""
        ...

    def choice(self) -> dict[str, Any]:
        """The choice as the unary body shows it; there after TurnEnd."""
        ...

    def nvext(self) -> dict[str, object]:
        """What became known of how the turn was served, as far as the client asked."""
        ...


class Choices:
    """Several turns on one wire. Push `ChoiceEvent`s, and at the end one bare TurnEnd with the usage of all. `make` takes the index of a
    choice and the id of the answer, which is that of the first turn; `fail` spells an in-band error."""

    def __init__(
        self, make: Callable[[int, str], Part], count: int, *, kind: str, include_usage: bool, fail: Callable[[AntiphonError], bytes]
    ) -> None:
        self._make = make
        self._fail = fail
        self._parts: list[Part | None] = [None] * count
        self._kind = kind
        self._include_usage = include_usage
        self._id = ""
        self._usage: Usage | None = None

    def push(self, event: ChoiceEvent | TurnEnd) -> bytes:
        """The wire events for one event, b"" if none are due."""
        if isinstance(event, TurnEnd):
            self._usage = event.usage
            return stream_end(self._known()[0].head(), event.usage if self._include_usage else None)
        part = self._parts[event.choice]
        if part is None:
            if isinstance(event.event, TurnStart) and not self._id:
                self._id = event.event.turn_tag
            part = self._parts[event.choice] = self._make(event.choice, self._id)
        return part.push(event.event)

    def keepalive(self) -> bytes:
        """Something harmless between chunks."""
        return sse.comment("keepalive")

    def fail(self, error: AntiphonError) -> bytes:
        """The in-band error; nothing may follow it."""
        return self._fail(error)

    def body(self) -> bytes:
        """The unary answer. Raises InternalError before the last TurnEnd."""
        if self._usage is None:
            raise InternalError("the turns have not ended")
        parts = self._known()
        return whole_body(parts[0].head(), self._kind, [part.choice() for part in parts], self._usage, parts[0].nvext())

    def _known(self) -> list[Part]:
        parts = [part for part in self._parts if part is not None]
        if not parts:
            raise InternalError("no turn has started")
        return parts


def stream_end(head: dict[str, Any], usage: Usage | None) -> bytes:
    """The usage chunk, where it is wanted, and the end of the stream."""
    if usage is None:
        return sse.DONE
    return sse.data(msgspec.json.encode({**head, "choices": [], "usage": usage_counts(usage)})) + sse.DONE


def whole_body(head: dict[str, Any], kind: str, choices: Sequence[dict[str, Any]], usage: Usage, nvext: dict[str, object]) -> bytes:
    """The unary body."""
    body = {**head, "object": kind, "choices": choices, "usage": usage_counts(usage)}
    return msgspec.json.encode({**body, "nvext": nvext} if nvext else body)


def usage_counts(usage: Usage) -> dict[str, Any]:
    """The vendor's counts: cached and reasoning tokens are part of the totals. What was cached is left out while it is unknown."""
    counts: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
    if usage.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return counts


def shown_logprob(token: TokenLogprob) -> float:
    """The logarithm as JSON can spell it."""
    return max(token.logprob, _LEAST_LOGPROB)
