"""Responses projection: turn events become the surface's wire events, and the body is the fold of the same events.

Grammar, as strict clients check it::

    created in_progress ( output_item.added <parts and deltas> output_item.done )* ( completed | incomplete | failed )

Each item is closed before the next opens, and the output of the terminal event is the list of closed items, byte for byte. Numbers
rise by one from event to event.
"""

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.nvext import merge_metadata, shown_metadata
from antiphon_protocols.responses.envelope import Options, Outcome, Status, response_object
from antiphon_protocols.responses.errors import failure
from antiphon_protocols.responses.items import ItemWriter, ReasoningWriter, TextWriter, WireEvent, call_writer
from antiphon_turns.errors import AntiphonError, InternalError, StreamInterrupted
from antiphon_turns.events import (
    Event,
    SampledLogprob,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    StopReason,
    TokenLogprobs,
    TurnEnd,
    TurnMetadata,
    TurnStart,
)

_OUTCOMES: dict[StopReason, Outcome] = {
    "end_turn": Outcome(status="completed"),
    "tool_use": Outcome(status="completed"),
    "stop_sequence": Outcome(status="completed"),
    "max_tokens": Outcome(status="incomplete", incomplete="max_output_tokens"),
    "refusal": Outcome(status="incomplete", incomplete="content_filter"),
}
_CUT = StreamInterrupted("a tool call was cut off before it was complete; try again")
_UNUSABLE = StreamInterrupted("a tool call said nothing that its tool could do; try again")


class Projector:
    """One turn on the wire. Push every event behind the call gate; `body` is there after TurnEnd or `fail`.

    `push` gives event-stream bytes, `push_events` the same events as bare JSON, one a WebSocket frame: use one of the two.
    After a failure of its own (`failed`) the projector says no more, and generation may be ended.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._number = 0
        self._tag = ""
        self._output: list[bytes] = []
        self._outcome = Outcome()
        self._writer: ItemWriter | None = None
        self._index = 0
        self._kind = ""
        self._opened = False
        self._text: list[str] = []
        self._logprobs: list[SampledLogprob] = []
        self._hot: tuple[bytes, bytes] | None = None
        self._withheld = False
        self._over = False

    @property
    def failed(self) -> bool:
        """Whether the response has failed."""
        return self._outcome.status == "failed"

    def push(self, event: Event) -> bytes:
        """The wire events for one turn event, framed; b"" if none are due."""
        if self._hot is not None and type(event) is SegmentDelta:
            head, place = self._hot
            self._text.append(event.text)
            number = self._number
            self._number = number + 1
            return b"%b%d,%b%b}\n\n" % (head, number, place, sse.json_text(event.text))
        return _framed(self._events(event))

    def push_events(self, event: Event) -> list[bytes]:
        """The same without framing."""
        return [payload for _, payload in self._events(event)]

    def whole_item(self, item: bytes) -> list[bytes]:
        """An item that does not come from a segment, without framing; no segment may be open."""
        rest = b'"output_index":%d,"item":%b' % (len(self._output), item)
        self._output.append(item)
        return [self._numbered((f"response.output_item.{step}", rest))[1] for step in ("added", "done")]

    def fail(self, error: AntiphonError) -> bytes:
        """The terminal event of a response that failed; nothing may follow it."""
        return _framed(self._fail(error))

    def fail_events(self, error: AntiphonError) -> list[bytes]:
        """The same without framing."""
        return [payload for _, payload in self._fail(error)]

    def keepalive(self) -> bytes:
        """An event that says nothing and resets a client's idle timer, which a comment does not. It takes a number of its own: ask
        for a fresh one each time."""
        return _framed([self._numbered(("keepalive", b""))])

    def keepalive_events(self) -> list[bytes]:
        """The same without framing."""
        return [self._numbered(("keepalive", b""))[1]]

    def body(self) -> bytes:
        """The unary answer. Raises InternalError before a TurnEnd that can be projected, or `fail`."""
        if not self._over:
            raise InternalError("the turn has not ended")
        return self.snapshot()

    def snapshot(self, status: Status | None = None) -> bytes:
        """The response as it stands: the items finished so far. `status` replaces its own (a queued or cancelled response)."""
        outcome = self._outcome if status is None else msgspec.structs.replace(self._outcome, status=status)
        return response_object(self._options, outcome, self._output)

    def output(self) -> list[msgspec.Raw]:
        """The finished items, as a store keeps them."""
        return [msgspec.Raw(item) for item in self._output]

    def _events(self, event: Event) -> list[tuple[str, bytes]]:
        if self._over:
            return []
        return [self._numbered(wire) for wire in self._wire(event)]

    def _numbered(self, event: WireEvent) -> tuple[str, bytes]:
        name, rest = event
        number = self._number
        self._number = number + 1
        return name, b'{"type":"%b","sequence_number":%d%b%b}' % (name.encode(), number, b"," if rest else b"", rest)

    def _wire(self, event: Event) -> list[WireEvent]:
        match event:
            case SegmentDelta():
                return self._delta(event.text)
            case SegmentStart():
                return self._segment_start(event)
            case SegmentEnd():
                return self._segment_end(event)
            case TurnStart():
                return self._turn_start(event)
            case TurnEnd() if event.stop_reason in _OUTCOMES:
                return self._turn_end(event)
            case TokenLogprobs() if self._options.logprobs:
                self._logprobs += event.tokens
                self._hot = None
                return []
            case TurnMetadata():
                return self._metadata(event)
            case _:
                return []

    def _turn_start(self, event: TurnStart) -> list[WireEvent]:
        self._tag = event.turn_tag
        if not self._options.model:
            self._options = msgspec.structs.replace(self._options, model=event.model)
        return [self._response_event("created"), self._response_event("in_progress")]

    def _response_event(self, name: str) -> WireEvent:
        return f"response.{name}", b'"response":' + self.snapshot()

    def _segment_start(self, event: SegmentStart) -> list[WireEvent]:
        self._kind, self._opened, self._text, self._hot = event.kind, False, [], None
        label, index = f"{self._tag}{event.index}", len(self._output)
        if event.kind == "text":
            self._writer = TextWriter(label, index)
        elif event.kind == "reasoning":
            self._writer = ReasoningWriter(label, index, form=self._options.reasoning, encrypted=self._options.include_encrypted)
        else:
            self._writer = call_writer(label, index, event.call_id or "", self._options.tools.target(event.name or ""))
            return self._open(self._writer)
        return []

    def _open(self, writer: ItemWriter) -> list[WireEvent]:
        self._opened = True
        self._heat(writer)
        return writer.opening()

    def _heat(self, writer: ItemWriter) -> None:
        """From here on a delta costs one join; probabilities that wait for their delta go the long way."""
        if writer.delta_event is not None and not self._logprobs:
            name = writer.delta_event.encode()
            self._hot = (b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name), writer.place)

    def _delta(self, text: str) -> list[WireEvent]:
        self._text.append(text)
        writer = self._writer
        if writer is None:
            return []
        if self._opened:
            return self._passed_on(writer, text)
        if not text.strip():
            return []
        # Text and reasoning open with their first visible character: blank items do not leave.
        return [*self._open(writer), *self._passed_on(writer, "".join(self._text))]

    def _passed_on(self, writer: ItemWriter, text: str) -> list[WireEvent]:
        logprobs, self._logprobs = self._logprobs, []
        self._heat(writer)
        return writer.delta(text, logprobs)

    def _segment_end(self, event: SegmentEnd) -> list[WireEvent]:
        writer, self._writer, self._hot = self._writer, None, None
        self._logprobs = []
        if writer is None:
            return []
        if self._kind == "tool_call" and event.status == "truncated":
            # Bytes of the call are out, so it must never be closed: clients try such a turn again and run nothing.
            return self._failure(_CUT)
        if self._opened:
            closed = writer.closing("".join(self._text), event)
        elif isinstance(writer, ReasoningWriter):
            closed = writer.blank(event)
        else:
            return []
        if closed.item is not None:
            self._output.append(closed.item)
        elif self._kind == "tool_call" and event.status != "recovered":
            return self._failure(_UNUSABLE)
        elif self._kind == "tool_call":
            self._withheld = True
        return closed.events

    def _turn_end(self, event: TurnEnd) -> list[WireEvent]:
        outcome = _OUTCOMES["max_tokens" if self._withheld else event.stop_reason]
        cut = outcome.incomplete == "max_output_tokens" and (event.resumable or self._withheld)
        if cut and self._options.is_codex:
            # An incomplete response ends Codex's turn for good; on this form it asks again by itself.
            outcome = Outcome(status="completed", end_turn=False)
        self._outcome = msgspec.structs.replace(outcome, usage=event.usage, nvext=self._outcome.nvext)
        self._over = True
        return [self._response_event(outcome.status)]

    def _metadata(self, event: TurnMetadata) -> list[WireEvent]:
        """What became known of how the turn is served leaves at once, on the one event that may be repeated."""
        news = shown_metadata(event, self._options.fields)
        if not news:
            return []
        known = dict(self._outcome.nvext)
        merge_metadata(known, news)
        self._outcome = msgspec.structs.replace(self._outcome, nvext=known)
        return [self._response_event("in_progress")]

    def _fail(self, error: AntiphonError) -> list[tuple[str, bytes]]:
        return [] if self._over else [self._numbered(wire) for wire in self._failure(error)]

    def _failure(self, error: AntiphonError) -> list[WireEvent]:
        self._outcome = msgspec.structs.replace(self._outcome, status="failed", error=failure(error))
        self._over, self._hot = True, None
        return [self._response_event("failed")]


def framed(payload: bytes) -> bytes:
    """One bare event as the event stream has it."""
    start = len(b'{"type":"')
    return sse.event(payload[start : payload.index(b'"', start)].decode(), payload)


def _framed(events: list[tuple[str, bytes]]) -> bytes:
    return b"".join(sse.event(name, payload) for name, payload in events)
