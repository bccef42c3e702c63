"""Legacy Completions projection: the text of a turn as chunks, and the body as the fold of the same chunks."""

from typing import Any

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.chat.errors import error_event
from antiphon_protocols.choices import shown_logprob, stream_end, whole_body
from antiphon_protocols.nvext import ResponseFields, merge_metadata, shown_metadata
from antiphon_turns.errors import AntiphonError, InternalError
from antiphon_turns.events import (
    Event,
    SampledLogprob,
    SegmentDelta,
    StopReason,
    TokenLogprobs,
    TurnEnd,
    TurnMetadata,
    TurnStart,
)

KEEPALIVE = sse.comment("keepalive")

_FINISH_REASONS: dict[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "refusal": "content_filter",
}
_OPEN_END = b',"logprobs":null,"finish_reason":null}]}\n\n'


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`created`: Unix time in seconds. `echo` begins the text. `logprobs`: the client asked for them. `fields`: what `nvext` tells."""

    created: int
    include_usage: bool = False
    echo: str = ""
    logprobs: bool = False
    fields: ResponseFields = frozenset()


class Projector:
    """One turn of text only. As one of several choices (`answer_id` is then the id of them all) it leaves the end of the stream to
    `Choices`."""

    def __init__(self, options: Options, *, index: int = 0, answer_id: str | None = None) -> None:
        self._options = options
        self._index = index
        self._answer_id = answer_id
        self._head: dict[str, Any] = {}
        self._open = b""
        self._text: list[str] = []
        self._offset = 0
        self._due: list[SampledLogprob] = []
        self._logprobs: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        self._nvext: dict[str, object] = {}
        self._end: TurnEnd | None = None

    def push(self, event: Event) -> bytes:
        """The wire events for one turn event, b"" if none are due."""
        match event:
            case SegmentDelta() if not self._due:
                return self._say(event.text)
            case SegmentDelta():
                return self._say_with_logprobs(event.text)
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
        return whole_body(self._head, "text_completion", [choice], self._ended().usage, self._nvext)

    def head(self) -> dict[str, Any]:
        """What is the same in all chunks."""
        return self._head

    def nvext(self) -> dict[str, object]:
        """What became known of how the turn was served, as far as the client asked."""
        return self._nvext

    def choice(self) -> dict[str, Any]:
        """The choice as the unary body shows it. Raises InternalError before a TurnEnd that can be projected."""
        finish = _FINISH_REASONS[self._ended().stop_reason]
        logprobs = self._logprobs if self._options.logprobs else None
        return {"index": self._index, "text": "".join(self._text), "logprobs": logprobs, "finish_reason": finish}

    def _ended(self) -> TurnEnd:
        if self._end is None:
            raise InternalError("the turn has not ended")
        return self._end

    def _turn_start(self, event: TurnStart) -> bytes:
        answer_id = f"cmpl-{self._answer_id or event.turn_tag}"
        self._head = {"id": answer_id, "object": "text_completion", "created": self._options.created, "model": event.model}
        self._open = b"data: " + msgspec.json.encode(self._head)[:-1] + b',"choices":[{"index":%d,"text":' % self._index
        return self._say(self._options.echo) if self._options.echo else b""

    def _say(self, text: str) -> bytes:
        self._text.append(text)
        self._offset += len(text)
        return self._open + sse.json_text(text) + _OPEN_END

    def _say_with_logprobs(self, text: str) -> bytes:
        piece: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        offset = self._offset
        for token in self._due:
            piece["tokens"].append(token.sampled.token)
            piece["token_logprobs"].append(shown_logprob(token.sampled))
            piece["top_logprobs"].append({other.token: shown_logprob(other) for other in token.top} or None)
            piece["text_offset"].append(offset)
            offset += len(token.sampled.token)
        self._due = []
        self._text.append(text)
        self._offset += len(text)
        for name, values in piece.items():
            self._logprobs[name] += values
        return self._open + sse.json_text(text) + b',"logprobs":' + msgspec.json.encode(piece) + b',"finish_reason":null}]}\n\n'

    def _turn_end(self, event: TurnEnd) -> bytes:
        self._end = event
        finish = _FINISH_REASONS[event.stop_reason].encode()
        out = self._open + b'"","logprobs":null,"finish_reason":"%b"}]}\n\n' % finish
        if self._answer_id is not None:
            return out
        return out + stream_end(self._head, event.usage if self._options.include_usage else None)

    def _metadata(self, event: TurnMetadata) -> bytes:
        news = shown_metadata(event, self._options.fields)
        merge_metadata(self._nvext, news)
        return self._open + b'"","logprobs":null,"finish_reason":null}],"nvext":' + msgspec.json.encode(news) + b"}\n\n" if news else b""
