"""Messages projection: turn events become the surface's wire events, and the body is the fold of the same events.

Grammar, as strict clients check it::

    message_start ( content_block_start content_block_delta+ [signature_delta] content_block_stop )* message_delta message_stop

Block indices are dense; `ping` may stand anywhere. What a client asked to be told of how its turn was served rides on a `ping` as
the extra key `nvext`: clients ignore keys they do not know, but not every one survives an event it does not know.
"""

from typing import Any, Literal

import msgspec
from msgspec import structs

from antiphon_protocols import sse
from antiphon_protocols.history import is_object
from antiphon_protocols.messages.errors import error_event
from antiphon_protocols.messages.wire import ZERO_WIDTH
from antiphon_protocols.nvext import ResponseFields, merge_metadata, shown_metadata
from antiphon_turns.errors import AntiphonError, InternalError
from antiphon_turns.events import (
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentKind,
    SegmentStart,
    StopReason,
    TurnEnd,
    TurnMetadata,
    TurnStart,
    Usage,
)

PING = sse.event("ping", b'{"type": "ping"}')
NO_CARRIER = "antiphon"
"""Signature of a reasoning segment without a carrier: clients drop or leak thinking whose signature is empty."""

_STOP_REASONS: dict[StopReason, str] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
}
_DELTAS = {"text": ("text_delta", "text"), "reasoning": ("thinking_delta", "thinking"), "tool_call": ("input_json_delta", "partial_json")}
_DELTA_END = b"}}\n\n"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`reasoning` "carrier" sends a zero-width character in place of every reasoning text and leaves its meaning to
    the carrier: only for carriers that hold the reasoning. `request_id` is named in in-band errors. `manages_context`: report the
    context edits. `fields`: what `nvext` tells."""

    reasoning: Literal["text", "carrier"] = "text"
    request_id: str | None = None
    manages_context: bool = False
    fields: ResponseFields = frozenset()


class Projector:
    """One turn on the wire. Push every event behind the call gate; `body` is there after TurnEnd."""

    def __init__(self, options: Options | None = None) -> None:
        options = options or Options()
        self._hide_reasoning = options.reasoning == "carrier"
        self._request_id = options.request_id
        self._fields = options.fields
        self._nvext: dict[str, object] = {}
        # No edit the protocol knows takes place here; a client that asked for some reads that from the empty list.
        self._managed: dict[str, Any] = {"context_management": {"applied_edits": []}} if options.manages_context else {}
        self._message: dict[str, Any] = {}
        self._content: list[dict[str, Any]] = []
        self._kind: SegmentKind = "text"
        self._prefix: bytes | None = None
        self._text: list[str] = []
        self._ended = False
        self._cached: int | None = None

    def push(self, event: Event) -> bytes:
        """The wire events for one turn event, b"" if none are due."""
        if type(event) is SegmentDelta:
            if self._prefix is None:
                return self._held_delta(event.text)
            self._text.append(event.text)
            return self._prefix + sse.json_text(event.text) + _DELTA_END
        match event:
            case SegmentStart():
                return self._segment_start(event)
            case SegmentEnd():
                return self._segment_end(event)
            case TurnStart():
                return self._turn_start(event)
            case TurnEnd() if event.stop_reason in _STOP_REASONS:
                return self._turn_end(event)
            case TurnMetadata() if self._fields:
                return self._metadata(event)
            case _:
                return b""

    def keepalive(self) -> bytes:
        """Something harmless that resets a client's idle timer."""
        return PING

    def fail(self, error: AntiphonError) -> bytes:
        """The in-band error; nothing may follow it."""
        return error_event(error, self._request_id)

    def body(self) -> bytes:
        """The unary answer. Raises InternalError before a TurnEnd that can be projected."""
        if not self._ended:
            raise InternalError("the turn has not ended")
        return msgspec.json.encode({**self._message, "nvext": self._nvext} if self._nvext else self._message)

    def _turn_start(self, event: TurnStart) -> bytes:
        self._cached = event.cached_tokens
        self._message = {
            "id": f"msg_{event.turn_tag}",
            "type": "message",
            "role": "assistant",
            "model": event.model,
            "content": self._content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(Usage(prompt_tokens=event.prompt_tokens, cached_tokens=event.cached_tokens)),
        }
        return _wire({"type": "message_start", "message": self._message})

    def _segment_start(self, event: SegmentStart) -> bytes:
        self._kind, self._prefix, self._text = event.kind, None, []
        if event.kind != "tool_call":
            return b""
        return self._open({"type": "tool_use", "id": event.call_id, "name": event.name, "input": {}})

    def _held_delta(self, text: str) -> bytes:
        """A text or reasoning block opens with its first visible character: blank blocks do not leave."""
        if self._kind == "reasoning" and self._hide_reasoning:
            return b""
        self._text.append(text)
        if not text.strip():
            return b""
        return self._open_with("".join(self._text))

    def _open_with(self, text: str) -> bytes:
        block = {"type": "text", "text": ""} if self._kind == "text" else {"type": "thinking", "thinking": "", "signature": ""}
        self._text = []
        return self._open(block) + self._delta(text)

    def _open(self, block: dict[str, Any]) -> bytes:
        index = len(self._content)
        self._content.append(block)
        kind, key = _DELTAS[self._kind]
        self._prefix = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":' % (
            index,
            kind.encode(),
            key.encode(),
        )
        return _wire({"type": "content_block_start", "index": index, "content_block": block})

    def _delta(self, text: str) -> bytes:
        self._text.append(text)
        return (self._prefix or b"") + sse.json_text(text) + _DELTA_END

    def _segment_end(self, event: SegmentEnd) -> bytes:
        out = b""
        if self._prefix is None:
            if self._kind == "text":
                return b""
            out = self._open_with(ZERO_WIDTH)
        elif self._kind == "tool_call" and not self._text:
            out = self._delta("{}")
        index = len(self._content) - 1
        block, text = self._content[index], "".join(self._text)
        if self._kind == "text":
            block["text"] = text
        elif self._kind == "reasoning":
            block["thinking"] = text
            block["signature"] = event.carrier or NO_CARRIER
            delta = {"type": "signature_delta", "signature": block["signature"]}
            out += _wire({"type": "content_block_delta", "index": index, "delta": delta})
        else:
            block["input"] = msgspec.Raw(text.encode()) if is_object(text) else {}
        self._prefix = None
        return out + _wire({"type": "content_block_stop", "index": index})

    def _turn_end(self, event: TurnEnd) -> bytes:
        self._ended = True
        end = {"stop_reason": _STOP_REASONS[event.stop_reason], "stop_sequence": event.stop_sequence}
        counted = event.usage if event.usage.cached_tokens is not None else structs.replace(event.usage, cached_tokens=self._cached)
        usage = {**_usage(counted), "output_tokens_details": {"thinking_tokens": event.usage.reasoning_tokens}}
        self._message.update(end, usage=usage, **self._managed)
        return _wire({"type": "message_delta", "delta": end, "usage": usage, **self._managed}) + _wire({"type": "message_stop"})

    def _metadata(self, event: TurnMetadata) -> bytes:
        news = shown_metadata(event, self._fields)
        merge_metadata(self._nvext, news)
        return _wire({"type": "ping", "nvext": news}) if news else b""


def count_body(prompt_tokens: int) -> bytes:
    """The answer of `POST /v1/messages/count_tokens`."""
    return msgspec.json.encode({"input_tokens": prompt_tokens})


def _usage(usage: Usage) -> dict[str, Any]:
    """The vendor's counts: the prompt's add up to the whole prompt. What was cached is left out while the engine has not said."""
    if usage.cached_tokens is None:
        return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.output_tokens}
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }


def _wire(payload: dict[str, Any]) -> bytes:
    return sse.event(payload["type"], msgspec.json.encode(payload))
