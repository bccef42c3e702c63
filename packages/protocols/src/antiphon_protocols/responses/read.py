"""First half of ingest: a body becomes a `ResponsesCall`, which needs nothing from a store yet."""

from collections.abc import Mapping

import msgspec

from antiphon_protocols import body as wire_body
from antiphon_protocols import sse
from antiphon_protocols.advice import Advice, read_advice
from antiphon_protocols.body import invalid, refuse
from antiphon_protocols.nvext import ResponseFields, response_fields
from antiphon_protocols.responses import wire
from antiphon_protocols.responses.labels import labelled
from antiphon_protocols.retention import of_openai

_DECODER = msgspec.json.Decoder(wire.WireRequest)
_HEAD = msgspec.json.Decoder(wire.ItemHead)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(wire.WireRequest)) | wire.ACCEPTED
COMPACTION_TRIGGER = "compaction_trigger"
_NULL = b"null"


class ResponsesCall(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded request. `input` holds the new items in order, each with an id (the client's, else one of ours); a store keeps
    exactly these. `compacts`: the answer is one compaction item. `generate` False: only acknowledge (a WebSocket's warm-up).
    `echo` is what a response object repeats of the request, as compact JSON; `fields` what its `nvext` tells."""

    model: str
    request: wire.WireRequest
    input: tuple[msgspec.Raw, ...]
    echo: dict[str, msgspec.Raw] = {}
    stream: bool = False
    store: bool = True
    background: bool = False
    generate: bool = True
    compacts: bool = False
    is_codex: bool = False
    previous_response_id: str | None = None
    include: frozenset[str] = frozenset()
    advice: Advice = Advice()
    fields: ResponseFields = frozenset()
    ignored: tuple[str, ...] = ()


def read(body: bytes, headers: Mapping[str, str], *, tag: str = "") -> ResponsesCall:
    """Reads `POST /v1/responses`, or a `response.create` frame of a WebSocket. Header names are in lower case. `tag` goes into the
    ids of items that come without one; the turn tag makes them unique. Raises InvalidRequest or UnsupportedFeature."""
    return _read(body, headers, tag)


def read_compact(body: bytes, headers: Mapping[str, str], *, tag: str = "") -> ResponsesCall:
    """Reads `POST /v1/responses/compact`: the same fields, unary, nothing stored. Same raises."""
    call = _read(body, headers, tag)
    return msgspec.structs.replace(call, compacts=True, stream=False, store=False, background=False)


def _read(body: bytes, headers: Mapping[str, str], tag: str) -> ResponsesCall:
    body = wire_body.repaired(body)
    request, names = wire_body.decode(_DECODER, body, headers)
    _refuse_unsupported(request)
    items = _items(request.input, tag)
    fields = _KEYS.decode(body)
    return ResponsesCall(
        model=request.model,
        request=request,
        input=items,
        echo={name: _compact(fields[name]) for name in wire.ECHOED if name in fields and bytes(fields[name]) != _NULL},
        stream=bool(request.stream),
        store=request.store is not False,
        background=bool(request.background),
        generate=request.generate is not False,
        compacts=bool(items) and _HEAD.decode(items[-1]).type == COMPACTION_TRIGGER,
        is_codex=_is_codex(headers),
        previous_response_id=request.previous_response_id or None,
        include=frozenset(request.include or ()),
        advice=read_advice(
            request.nvext,
            headers,
            prompt_cache_key=request.prompt_cache_key,
            retain_seconds=of_openai(request.prompt_cache_retention),
        ),
        fields=response_fields(request.nvext, headers),
        ignored=wire_body.unknown_fields(names, _KNOWN),
    )


def _refuse_unsupported(request: wire.WireRequest) -> None:
    if not request.model:
        raise invalid("model", "must not be empty")
    for name, instead in wire.REFUSED.items():
        if wire_body.is_set(getattr(request, name)):
            raise refuse(name, instead)
    if request.background and request.store is False:
        raise invalid("background", "needs store: a response that is not stored cannot be fetched later")
    # A request without anything to say is a client's mistake, except where it only warms up or goes on from what is stored.
    if not request.input and not request.instructions and not request.previous_response_id and request.generate is not False:
        raise invalid("input", "at least one item is required")


def _items(value: str | list[msgspec.Raw] | None, tag: str) -> tuple[msgspec.Raw, ...]:
    if isinstance(value, str):
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}
        value = [msgspec.Raw(msgspec.json.encode(message))]
    return tuple(labelled(item, f"input.{index}", f"{tag}in{index}") for index, item in enumerate(value or ()))


def _compact(raw: msgspec.Raw) -> msgspec.Raw:
    """On one line, because it goes into a data line of the event stream."""
    return msgspec.Raw(sse.one_line(msgspec.json.format(bytes(raw), indent=-1)))


def _is_codex(headers: Mapping[str, str]) -> bool:
    """Codex and the programs built on it name themselves in `originator`, and begin their user agent with it."""
    return any(headers.get(name, "").lower().startswith("codex") for name in ("originator", "user-agent"))
