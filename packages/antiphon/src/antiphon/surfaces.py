"""The surfaces as plain data: how each reads a request, projects events and spells an error."""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from antiphon_protocols import chat, messages, responses
from antiphon_protocols.errors import ErrorResponse
from antiphon_turns import ArgumentStreaming, Event, TurnRequest
from antiphon_turns.errors import AntiphonError


class Projector(Protocol):
    """Turn events -> wire bytes of one answer."""

    def push(self, event: Event) -> bytes:
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
    None unless the request asks."""

    turn: TurnRequest
    projector: Callable[[str, int], Projector]
    argument_streaming: ArgumentStreaming | None = None


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


def messages_surface() -> Surface:
    """Anthropic Messages."""

    def ingest(body: bytes, headers: Mapping[str, str]) -> Call:
        request = messages.ingest(body, headers)

        def projector(request_id: str, created: int) -> Projector:
            return messages.Projector(messages.Options(request_id=request_id))

        return Call(turn=request.turn, projector=projector, argument_streaming=request.argument_streaming)

    return Surface(name="messages", ingest=ingest, error=messages.error_response, request_id_header="request-id")


def chat_surface(*, tool_dispatch: bool, reasoning_dispatch: bool) -> Surface:
    """OpenAI Chat Completions. The dispatch switches are the server's; a request may ask for more."""

    def ingest(body: bytes, headers: Mapping[str, str]) -> Call:
        request = chat.ingest(body, headers)

        def projector(request_id: str, created: int) -> Projector:
            return chat.Projector(
                chat.Options(
                    created=created,
                    include_usage=request.include_usage,
                    tool_dispatch=tool_dispatch or "tool_call" in request.dispatch,
                    reasoning_dispatch=reasoning_dispatch or "reasoning" in request.dispatch,
                )
            )

        return Call(turn=request.turn, projector=projector, argument_streaming=request.argument_streaming)

    return Surface(name="chat", ingest=ingest, error=chat.error_response, request_id_header="x-request-id")


def responses_envelope() -> Envelope:
    """OpenAI Responses; its requests need what was stored before them (`antiphon.responses`)."""
    return Envelope(name="responses", error=responses.error_response, request_id_header="x-request-id")
