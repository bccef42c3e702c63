"""Messages ingest: a wire body becomes a TurnRequest. Lenient in what clients are known to send, exact in what comes out."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from antiphon_protocols import body as wire_body
from antiphon_protocols.advice import read_advice
from antiphon_protocols.body import invalid, refuse
from antiphon_protocols.messages import wire
from antiphon_protocols.messages.content import Notes
from antiphon_protocols.messages.context import read_output, read_replay
from antiphon_protocols.messages.history import read_messages
from antiphon_protocols.messages.tools import read_tool_choice, read_tools
from antiphon_protocols.nvext import BUDGET_FIELD, ResponseFields, response_fields
from antiphon_protocols.retention import CacheControl, of_marks
from antiphon_turns.errors import UnsupportedFeature
from antiphon_turns.gate import ArgumentStreaming
from antiphon_turns.request import Sampling, Thinking, TurnRequest

_DECODER = msgspec.json.Decoder(wire.WireRequest)
_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(wire.WireRequest)) | wire.ACCEPTED


class MessagesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`display` is the client's wish for thinking text: "omitted" withholds it where a carrier can stand for it; "summarized" and
    "updates" get the text itself, because it is not too long for anyone here. `betas` are the names of the `anthropic-beta` header;
    `argument_streaming` is None unless the request asks. `manages_context`: the answer reports what was edited. `fields`: what the
    answer tells of how it was served."""

    turn: TurnRequest
    display: str | None = None
    betas: tuple[str, ...] = ()
    argument_streaming: ArgumentStreaming | None = None
    manages_context: bool = False
    fields: ResponseFields = frozenset()


def ingest(body: bytes, headers: Mapping[str, str]) -> MessagesRequest:
    """Reads `POST /v1/messages`. Header names are in lower case. Raises InvalidRequest or UnsupportedFeature."""
    request, names = wire_body.decode(_DECODER, body, headers)
    if request.max_tokens is None:
        raise invalid("max_tokens", "Field required")
    betas = headers.get("anthropic-beta", "")
    return MessagesRequest(
        turn=_turn(request, names, headers),
        display=request.thinking.display if request.thinking else None,
        betas=tuple(name.strip() for name in betas.split(",") if name.strip()),
        argument_streaming=request.nvext.argument_streaming if request.nvext else None,
        manages_context=request.context_management is not None,
        fields=response_fields(request.nvext, headers),
    )


def ingest_count(body: bytes, headers: Mapping[str, str]) -> TurnRequest:
    """Reads `POST /v1/messages/count_tokens`: the same body, `max_tokens` not needed. Same raises."""
    request, names = wire_body.decode(_DECODER, body, headers)
    return _turn(request, names, headers)


def _turn(request: wire.WireRequest, names: tuple[str, ...], headers: Mapping[str, str]) -> TurnRequest:
    _refuse_unsupported(request)
    tools, not_offered = read_tools(request.tools or [])
    replay, not_edited = read_replay(request.context_management)
    notes = Notes()
    messages = read_messages(request, tools, notes)
    user_id = request.metadata.user_id if request.metadata else None
    return TurnRequest(
        surface="messages",
        model=request.model,
        messages=messages,
        tools=tools,
        tool_choice=read_tool_choice(request.tool_choice, tools),
        output=read_output(request),
        thinking=_thinking(request),
        replay=replay,
        sampling=_sampling(request),
        stream=bool(request.stream),
        ignored=(*wire_body.unknown_fields(names, _KNOWN), *not_offered, *not_edited, *wire_body.safe_names(notes.names)),
        **read_advice(request.nvext, headers, user_id=user_id, retain_seconds=of_marks(_marks(request))).fields(),
    )


def _marks(request: wire.WireRequest) -> Iterator[CacheControl | None]:
    """Every mark of the request, wherever it stands."""
    yield request.cache_control
    for tool in request.tools or ():
        yield tool.cache_control
    contents: list[object] = [request.system, *(message.content for message in request.messages)]
    while contents:
        content = contents.pop()
        for block in content if isinstance(content, list) else ():
            yield getattr(block, "cache_control", None)
            if isinstance(block, wire.ToolResultBlock):
                contents.append(block.content)


def _refuse_unsupported(request: wire.WireRequest) -> None:
    if not request.model:
        raise invalid("model", "must not be empty")
    if request.thread is not None:
        raise _no_threads(request.thread)
    for name in wire.REFUSED:
        if wire_body.is_set(getattr(request, name)):
            raise refuse(name, "not supported by this server; leave the field out")


def _no_threads(thread: dict[str, object]) -> UnsupportedFeature:
    """The vendor's tool runner goes on without threads, whole history included, on exactly these details."""
    if thread.get("type") == "continue":
        details: dict[str, object] = {"error_code": "thread_not_found"}
    else:
        details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    return UnsupportedFeature("thread: server-side threads are not supported; send the whole history", param="thread", details=details)


def _thinking(request: wire.WireRequest) -> Thinking:
    """A client that says nothing of thinking wants none, whatever effort it names; one that says so in words means the effort "none"."""
    thinking, effort = request.thinking, request.output_config.effort if request.output_config else None
    if thinking is None:
        return Thinking(mode="off", effort=effort)
    if thinking.type == "disabled":
        return Thinking(mode="off", effort="none")
    wire_body.check_positive("thinking.budget_tokens", thinking.budget_tokens)
    spare = request.nvext.max_thinking_tokens if request.nvext else None
    wire_body.check_positive(BUDGET_FIELD, spare)
    mode: Literal["adaptive", "on"] = "adaptive" if thinking.type == "adaptive" else "on"
    return Thinking(mode=mode, effort=effort, budget_tokens=thinking.budget_tokens or spare)


def _sampling(request: wire.WireRequest) -> Sampling:
    wire_body.check_positive("max_tokens", request.max_tokens)
    wire_body.check_range("temperature", request.temperature, 0, 1)
    wire_body.check_range("top_p", request.top_p, 0, 1)
    if request.top_k is not None and request.top_k < 0:
        raise invalid("top_k", f"must not be negative, not {request.top_k}")
    stops = tuple(request.stop_sequences or ())
    for index, stop in enumerate(stops):
        if not stop:
            raise invalid(f"stop_sequences.{index}", "must not be empty")
    return Sampling(
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k or None,
        stop=stops,
    )
