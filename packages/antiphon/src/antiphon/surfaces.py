"""The surfaces as plain data: how each reads a request, projects events and spells an error."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from antiphon_protocols import chat, completions, messages, responses
from antiphon_protocols.body import refuse
from antiphon_protocols.choices import Choices
from antiphon_protocols.errors import ErrorResponse
from antiphon_protocols.nvext import ReasoningFields
from antiphon_turns import ArgumentStreaming, TurnRequest
from antiphon_turns.errors import AntiphonError


class Projector(Protocol):
    """Turn events -> wire bytes of one answer. Of several turns in one answer the events come with their index."""

    def push(self, event: Any) -> bytes:
        """SSE bytes for one event; b"" when it says nothing on this wire."""
        ...

    def fail(self, error: AntiphonError) -> bytes:
        """SSE bytes that tell the client of a failure after the first byte."""
        ...

    def keepalive(self) -> bytes:
        """SSE bytes that only keep the line alive."""
        ...

    def body(self) -> bytes:
        """The unary body: the fold of what was pushed, after TurnEnd."""
        ...


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One ingested request. `projector` takes the request id and the unix time of the answer. `argument_streaming` is
    None unless the request asks. `n` turns are wanted over the prompt of `turn`, and over each of `others`."""

    turn: TurnRequest
    projector: Callable[[str, int], Projector]
    argument_streaming: ArgumentStreaming | None = None
    n: int = 1
    others: tuple[TurnRequest, ...] = ()

    @property
    def turns(self) -> int:
        """How many turns this is."""
        return self.n * (1 + len(self.others))


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """How a surface speaks beside its turns. `error` spells any error of ours. `request_id_header` is the vendor's own. `notes` are
    headers of every answer."""

    name: str
    error: Callable[[AntiphonError, str], ErrorResponse]
    request_id_header: str
    notes: tuple[tuple[str, str], ...] = ()


class Surface(Envelope, frozen=True, kw_only=True):
    """A surface whose requests need nothing but themselves. `ingest` raises RequestError."""

    ingest: Callable[[bytes, Mapping[str, str]], Call]


def messages_surface(*, carriers: Callable[[], bool] = lambda: False) -> Surface:
    """Anthropic Messages. `carriers` says whether what rides on a reasoning segment holds the reasoning itself; only then can thinking
    be withheld from a client that wants it so, because the client brings nothing else back."""

    def ingest(body: bytes, headers: Mapping[str, str]) -> Call:
        request = messages.ingest(body, headers)
        withheld = request.display == "omitted" and carriers()
        turn = request.turn
        if request.display == "omitted" and not withheld:
            turn = msgspec.structs.replace(turn, ignored=(*turn.ignored, "thinking.display"))

        def projector(request_id: str, created: int) -> Projector:
            return messages.Projector(
                messages.Options(
                    request_id=request_id,
                    reasoning="carrier" if withheld else "text",
                    manages_context=request.manages_context,
                    fields=request.fields,
                )
            )

        return Call(turn=turn, projector=projector, argument_streaming=request.argument_streaming)

    return Surface(name="messages", ingest=ingest, error=messages.error_response, request_id_header="request-id")


def chat_surface(
    *, tool_dispatch: bool, reasoning_dispatch: bool, reasoning_fields: ReasoningFields = "reasoning_content", max_choices: int = 1
) -> Surface:
    """OpenAI Chat Completions. The dispatch switches are the server's; a request may ask for more."""

    def ingest(body: bytes, headers: Mapping[str, str]) -> Call:
        request = chat.ingest(body, headers)
        _check_choices(request.n, max_choices)

        def projector(request_id: str, created: int) -> Projector:
            options = chat.Options(
                created=created,
                include_usage=request.include_usage,
                tool_dispatch=tool_dispatch or "tool_call" in request.dispatch,
                reasoning_dispatch=reasoning_dispatch or "reasoning" in request.dispatch,
                mirror_reasoning=(request.reasoning_fields or reasoning_fields) == "both",
                logprobs=request.turn.sampling.top_logprobs is not None,
                fields=request.fields,
            )
            if request.n == 1:
                return chat.Projector(options)
            return Choices(
                lambda index, answer_id: chat.Projector(options, index=index, answer_id=answer_id),
                request.n,
                kind="chat.completion",
                include_usage=request.include_usage,
                fail=chat.error_event,
            )

        return Call(turn=request.turn, projector=projector, argument_streaming=request.argument_streaming, n=request.n)

    return Surface(name="chat", ingest=ingest, error=chat.error_response, request_id_header="x-request-id")


def completions_surface(*, max_choices: int) -> Surface:
    """Legacy OpenAI Completions."""

    def ingest(body: bytes, headers: Mapping[str, str]) -> Call:
        request = completions.ingest(body, headers)
        _check_choices(request.n * len(request.turns), max_choices)

        def part(index: int, answer_id: str | None, created: int) -> completions.Projector:
            turn = request.turns[index // request.n]
            options = completions.Options(
                created=created,
                include_usage=request.include_usage,
                echo=turn.prompt if request.echo and isinstance(turn.prompt, str) else "",
                logprobs=turn.sampling.top_logprobs is not None,
                fields=request.fields,
            )
            return completions.Projector(options, index=index, answer_id=answer_id)

        def projector(request_id: str, created: int) -> Projector:
            count = request.n * len(request.turns)
            if count == 1:
                return part(0, None, created)
            return Choices(
                lambda index, answer_id: part(index, answer_id, created),
                count,
                kind="text_completion",
                include_usage=request.include_usage,
                fail=chat.error_event,
            )

        return Call(turn=request.turns[0], projector=projector, n=request.n, others=request.turns[1:])

    return Surface(name="completions", ingest=ingest, error=chat.error_response, request_id_header="x-request-id")


def responses_envelope() -> Envelope:
    """OpenAI Responses; its requests need what was stored before them (`antiphon.responses`)."""
    return Envelope(name="responses", error=responses.error_response, request_id_header="x-request-id")


def _check_choices(count: int, most: int) -> None:
    if count > most:
        raise refuse("n", f"at most {most} choices a request, not {count}; --max-choices allows more")
