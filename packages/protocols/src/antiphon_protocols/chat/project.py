"""Chat projection: turn events become chunks, and the body is the fold of the same chunks.

The wire has one text, one reasoning text and one list of calls: segments of a kind are joined in order. Every chunk has
`choices`, the dispatch events an empty one, because a client that validates data without reading event names aborts otherwise.
"""

from typing import Any

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.chat.errors import error_event
from antiphon_turns.errors import AntiphonError, InternalError
from antiphon_turns.events import (
    CallReady,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentKind,
    SegmentStart,
    StopReason,
    TurnEnd,
    TurnStart,
    Usage,
)

KEEPALIVE = sse.comment("keepalive")

_FINISH_REASONS: dict[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}
_OPEN_END = b',"finish_reason":null}]}\n\n'
_KEYS: dict[SegmentKind, bytes] = {"text": b"content", "reasoning": b"reasoning_content"}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`created`: Unix time in seconds. `tool_dispatch` and `reasoning_dispatch` add the typed side events."""

    created: int
    include_usage: bool = False
    tool_dispatch: bool = False
    reasoning_dispatch: bool = False


class Projector:
    """One turn on the wire. Push every event behind the call gate; `body` is there after TurnEnd."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._head: dict[str, Any] = {}
        self._open = b""
        self._kind: SegmentKind = "text"
        self._prefix: bytes | None = None
        self._suffix = b""
        self._segment: list[str] = []
        self._texts: dict[SegmentKind, list[str]] = {"text": [], "reasoning": []}
        self._calls: list[dict[str, Any]] = []
        self._end: TurnEnd | None = None

    def push(self, event: Event) -> bytes:
        """The wire events for one turn event, b"" if none are due."""
        if type(event) is SegmentDelta:
            self._segment.append(event.text)
            if self._prefix is None:
                return self._first_delta(event.text)
            return self._prefix + sse.json_text(event.text) + self._suffix
        match event:
            case SegmentStart():
                self._segment_start(event)
                return b""
            case SegmentEnd():
                return self._segment_end()
            case CallReady() if self._options.tool_dispatch:
                return self._dispatch("tool_call", {"index": len(self._calls) - 1, **self._calls[-1]})
            case TurnStart():
                return self._turn_start(event)
            case TurnEnd() if event.stop_reason in _FINISH_REASONS:
                return self._turn_end(event)
            case _:
                return b""

    def keepalive(self) -> bytes:
        """Something harmless between chunks."""
        return KEEPALIVE

    def fail(self, error: AntiphonError) -> bytes:
        """The in-band error; nothing may follow it."""
        return error_event(error)

    def body(self) -> bytes:
        """The unary answer. Raises InternalError before a TurnEnd that can be projected."""
        if self._end is None:
            raise InternalError("the turn has not ended")
        text, reasoning = "".join(self._texts["text"]), "".join(self._texts["reasoning"])
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if self._calls else ""), "refusal": None}
        if reasoning:
            message["reasoning_content"] = reasoning
        if self._calls:
            message["tool_calls"] = self._calls
        finish = _FINISH_REASONS[self._end.stop_reason]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        head = {**self._head, "object": "chat.completion"}
        return msgspec.json.encode({**head, "choices": [choice], "usage": _usage(self._end.usage)})

    def _turn_start(self, event: TurnStart) -> bytes:
        self._head = {
            "id": f"chatcmpl-{event.turn_tag}",
            "object": "chat.completion.chunk",
            "created": self._options.created,
            "model": event.model,
        }
        self._open = b"data: " + msgspec.json.encode(self._head)[:-1] + b',"choices":[{"index":0,"delta":'
        return self._open + b'{"role":"assistant"}' + _OPEN_END

    def _segment_start(self, event: SegmentStart) -> None:
        self._kind, self._prefix, self._segment = event.kind, None, []
        if event.kind == "tool_call":
            function = {"name": event.name, "arguments": ""}
            self._calls.append({"id": event.call_id, "type": "function", "function": function})

    def _first_delta(self, text: str) -> bytes:
        """What opens a segment on the wire; text and reasoning start with their first visible character."""
        if self._kind == "tool_call":
            return self._call_head(text)
        if not text.strip():
            return b""
        self._prefix = self._open + b'{"%b":' % _KEYS[self._kind]
        self._suffix = b"}" + _OPEN_END
        return self._prefix + sse.json_text("".join(self._segment)) + self._suffix

    def _call_head(self, arguments: str) -> bytes:
        index = len(self._calls) - 1
        call = self._calls[index]
        self._prefix = self._open + b'{"tool_calls":[{"index":%d,"function":{"arguments":' % index
        self._suffix = b"}}]}" + _OPEN_END
        head = {"index": index, **call, "function": {"name": call["function"]["name"], "arguments": arguments}}
        return self._open + msgspec.json.encode({"tool_calls": [head]}) + _OPEN_END

    def _segment_end(self) -> bytes:
        kind, shown = self._kind, self._prefix is not None
        self._prefix = None
        if kind == "tool_call":
            out = b"" if shown else self._call_head("{}")
            self._prefix = None
            self._calls[-1]["function"]["arguments"] = "".join(self._segment) or "{}"
            return out
        if not shown:
            return b""
        self._texts[kind].extend(self._segment)
        if kind == "reasoning" and self._options.reasoning_dispatch:
            return self._dispatch("reasoning", "".join(self._segment))
        return b""

    def _dispatch(self, what: str, value: object) -> bytes:
        """A typed side event: this call, or this piece of reasoning, is whole now."""
        name, key = ("tool_call_dispatch", "tool_call") if what == "tool_call" else ("reasoning_dispatch", "reasoning_content")
        return sse.event(name, msgspec.json.encode({**self._head, "choices": [], "choice_index": 0, key: value}))

    def _turn_end(self, event: TurnEnd) -> bytes:
        self._end = event
        delta = b"{}" if self._calls or self._texts["text"] else b'{"content":""}'
        finish = _FINISH_REASONS[event.stop_reason].encode()
        out = self._open + delta + b',"finish_reason":"%b"}]}\n\n' % finish
        if self._options.include_usage:
            out += sse.data(msgspec.json.encode({**self._head, "choices": [], "usage": _usage(event.usage)}))
        return out + sse.DONE


def _usage(usage: Usage) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
    if usage.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return counts
