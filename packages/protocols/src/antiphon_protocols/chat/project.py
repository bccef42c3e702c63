"""Chat projection: turn events become chunks, and the body is the fold of the same chunks.

The wire has one text, one reasoning text and one list of calls: segments of a kind are joined in order. Every chunk has
`choices`, the dispatch events an empty one, because a client that validates data without reading event names aborts otherwise.
"""

from typing import Any

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.chat.errors import error_event
from antiphon_protocols.choices import shown_logprob, stream_end, whole_body
from antiphon_protocols.nvext import ResponseFields, merge_metadata, shown_metadata
from antiphon_turns.errors import AntiphonError, InternalError
from antiphon_turns.events import (
    CallReady,
    Event,
    SampledLogprob,
    SegmentDelta,
    SegmentEnd,
    SegmentKind,
    SegmentStart,
    StopReason,
    TokenLogprob,
    TokenLogprobs,
    TurnEnd,
    TurnMetadata,
    TurnStart,
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
    """`created`: Unix time in seconds. `tool_dispatch` and `reasoning_dispatch` add the typed side events. `mirror_reasoning`: the
    reasoning under the key `reasoning` too. `logprobs`: the client asked for them. `fields`: what `nvext` tells."""

    created: int
    include_usage: bool = False
    tool_dispatch: bool = False
    reasoning_dispatch: bool = False
    mirror_reasoning: bool = False
    logprobs: bool = False
    fields: ResponseFields = frozenset()


class Projector:
    """One turn on the wire. Push every event behind the call gate; `body` is there after TurnEnd. As one of several choices (`answer_id`
    is then the id of them all) it leaves the end of the stream to `Choices`."""

    def __init__(self, options: Options, *, index: int = 0, answer_id: str | None = None) -> None:
        self._options = options
        self._index = index
        self._answer_id = answer_id
        self._nvext: dict[str, object] = {}
        self._due: list[SampledLogprob] = []
        self._logprobs: list[dict[str, Any]] = []
        self._rich = False
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
            if self._rich:
                return self._rich_delta(event.text)
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
            case TokenLogprobs() if self._options.logprobs:
                self._due.extend(event.tokens)
                return b""
            case TurnEnd() if event.stop_reason in _FINISH_REASONS:
                return self._turn_end(event)
            case TurnMetadata() if self._options.fields:
                return self._metadata(event)
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
        choice = self.choice()
        return whole_body(self._head, "chat.completion", [choice], self._ended().usage, self._nvext)

    def head(self) -> dict[str, Any]:
        """What is the same in all chunks."""
        return self._head

    def nvext(self) -> dict[str, object]:
        """What became known of how the turn was served, as far as the client asked."""
        return self._nvext

    def choice(self) -> dict[str, Any]:
        """The choice as the unary body shows it. Raises InternalError before a TurnEnd that can be projected."""
        finish = _FINISH_REASONS[self._ended().stop_reason]
        text, reasoning = "".join(self._texts["text"]), "".join(self._texts["reasoning"])
        message: dict[str, Any] = {"role": "assistant", "content": text or (None if self._calls else ""), "refusal": None}
        if reasoning:
            message["reasoning_content"] = reasoning
            if self._options.mirror_reasoning:
                message["reasoning"] = reasoning
        if self._calls:
            message["tool_calls"] = self._calls
        logprobs = {"content": self._logprobs, "refusal": None} if self._logprobs else None
        return {"index": self._index, "message": message, "logprobs": logprobs, "finish_reason": finish}

    def _ended(self) -> TurnEnd:
        if self._end is None:
            raise InternalError("the turn has not ended")
        return self._end

    def _turn_start(self, event: TurnStart) -> bytes:
        self._head = {
            "id": f"chatcmpl-{self._answer_id or event.turn_tag}",
            "object": "chat.completion.chunk",
            "created": self._options.created,
            "model": event.model,
        }
        self._open = b"data: " + msgspec.json.encode(self._head)[:-1] + b',"choices":[{"index":%d,"delta":' % self._index
        return self._open + b'{"role":"assistant"}' + _OPEN_END

    def _segment_start(self, event: SegmentStart) -> None:
        self._kind, self._prefix, self._segment = event.kind, None, []
        options = self._options
        self._rich = (options.mirror_reasoning and event.kind == "reasoning") or (options.logprobs and event.kind == "text")
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
        text = "".join(self._segment)
        return self._rich_delta(text) if self._rich else self._prefix + sse.json_text(text) + self._suffix

    def _rich_delta(self, text: str) -> bytes:
        """A delta with more than its text: reasoning under both keys, or text with the probabilities of its tokens."""
        said = (self._prefix or b"") + sse.json_text(text)
        if self._kind == "reasoning":
            return said + b',"reasoning":' + sse.json_text(text) + self._suffix
        if not self._due:
            return said + self._suffix
        content = [_logprob_entry(token) for token in self._due]
        self._logprobs += content
        self._due = []
        return said + b'},"logprobs":' + msgspec.json.encode({"content": content, "refusal": None}) + _OPEN_END

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
        return sse.event(name, msgspec.json.encode({**self._head, "choices": [], "choice_index": self._index, key: value}))

    def _turn_end(self, event: TurnEnd) -> bytes:
        self._end = event
        delta = b"{}" if self._calls or self._texts["text"] else b'{"content":""}'
        finish = _FINISH_REASONS[event.stop_reason].encode()
        out = self._open + delta + b',"finish_reason":"%b"}]}\n\n' % finish
        if self._answer_id is not None:
            return out
        return out + stream_end(self._head, event.usage if self._options.include_usage else None)

    def _metadata(self, event: TurnMetadata) -> bytes:
        """Rides on an ordinary chunk that says nothing else."""
        news = shown_metadata(event, self._options.fields)
        merge_metadata(self._nvext, news)
        return self._open + b'{},"finish_reason":null}],"nvext":' + msgspec.json.encode(news) + b"}\n\n" if news else b""


def _logprob_entry(token: SampledLogprob) -> dict[str, Any]:
    return {**_one_logprob(token.sampled), "top_logprobs": [_one_logprob(other) for other in token.top]}


def _one_logprob(token: TokenLogprob) -> dict[str, Any]:
    return {"token": token.token, "logprob": shown_logprob(token), "bytes": list(token.token_bytes)}
