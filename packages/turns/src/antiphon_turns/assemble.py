"""The one fold from events to a turn. Streaming and unary answers differ only in who folds (I5)."""

from collections.abc import Iterable

from antiphon_turns.errors import InternalError
from antiphon_turns.events import (
    Anomaly,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    TurnEnd,
    TurnStart,
)
from antiphon_turns.turn import CallSegment, ReasoningSegment, Segment, TextSegment, Turn


class Assembler:
    """Folds events into a `Turn`. `push` appends in O(1); text is joined once, when a segment ends."""

    def __init__(self) -> None:
        self._start: TurnStart | None = None
        self._end: TurnEnd | None = None
        self._open: SegmentStart | None = None
        self._text: list[str] = []
        self.segments: list[Segment] = []
        self.anomalies: list[Anomaly] = []

    def append(self, text: str) -> None:
        """The short way for a SegmentDelta of the open segment."""
        self._text.append(text)

    def push(self, event: Event) -> None:
        """Takes one event. The order is the caller's duty (`check.OrderChecker` tests it)."""
        match event:
            case SegmentDelta():
                self._text.append(event.text)
            case SegmentStart():
                self._open = event
                self._text = []
            case SegmentEnd():
                self._close(event)
            case TurnStart():
                self._start = event
            case TurnEnd():
                self._end = event
            case Anomaly():
                self.anomalies.append(event)
            case _:
                pass

    def _close(self, end: SegmentEnd) -> None:
        start = self._open
        if start is None:
            raise InternalError("SegmentEnd without an open segment")
        self._open = None
        text = "".join(self._text)
        segment: Segment
        if start.kind == "reasoning":
            segment = ReasoningSegment(text, end.carrier, end.status, end.tokens)
        elif start.kind == "text":
            segment = TextSegment(text, end.status, end.tokens)
        else:
            segment = CallSegment(start.name or "", text, start.call_id or "", end.status, end.tokens)
        self.segments.append(segment)

    def turn(self) -> Turn:
        """The turn so far; raises InternalError before TurnEnd was pushed."""
        if self._start is None or self._end is None:
            raise InternalError("the turn has not ended")
        return Turn(
            turn_tag=self._start.turn_tag,
            model=self._start.model,
            segments=tuple(self.segments),
            stop_reason=self._end.stop_reason,
            usage=self._end.usage,
            stop_sequence=self._end.stop_sequence,
            anomalies=tuple(self.anomalies),
        )


def assemble(events: Iterable[Event]) -> Turn:
    """Folds a whole event stream, TurnStart to TurnEnd."""
    assembler = Assembler()
    for event in events:
        assembler.push(event)
    return assembler.turn()
