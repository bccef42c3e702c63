"""The order law of turn events (I1, I6, I12) as a state machine. Every test that sees events runs it."""

import json
from collections.abc import Iterable

from antiphon_turns.events import (
    Anomaly,
    CallReady,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    TurnEnd,
    TurnStart,
    UsageUpdate,
)


class OrderError(AssertionError):
    """An event stream broke the order law."""


class OrderChecker:
    """Feed every event to `push`; it raises `OrderError` at the first one out of order.

    `framed=False` checks a bare parser stream, which has no TurnStart and no TurnEnd.
    """

    def __init__(self, *, framed: bool = True) -> None:
        self._framed = framed
        self._started = not framed
        self._ended = False
        self._next = 0
        self._open: SegmentStart | None = None
        self._text: list[str] = []
        self._due: SegmentStart | None = None
        self._call_ids: set[str] = set()

    def push(self, event: Event) -> None:
        """Checks one event."""
        self._require(not self._ended, event, "after TurnEnd")
        if isinstance(event, TurnStart):
            self._require(self._framed and not self._started, event, "a second TurnStart")
            self._started = True
            return
        self._require(self._started, event, "before TurnStart")
        match event:
            case CallReady():
                self._call_ready(event)
            case Anomaly() | UsageUpdate():
                pass
            case SegmentStart():
                self._segment_start(event)
            case SegmentDelta():
                self._require(self._open is not None and self._open.index == event.index, event, "not the open segment")
                self._require(event.text != "", event, "an empty delta")
                self._text.append(event.text)
            case SegmentEnd():
                self._segment_end(event)
            case TurnEnd():
                self._require(self._framed, event, "TurnEnd in a bare stream")
                self.finish()
                self._ended = True

    def finish(self) -> None:
        """Checks that nothing is left open or owed."""
        self._require(self._open is None, self._open, "still open at the end")
        self._require(self._due is None, self._due, "CallReady is missing")

    def _segment_start(self, event: SegmentStart) -> None:
        self._require(self._open is None, event, "another segment is open")
        self._require(self._due is None, event, "CallReady is missing")
        self._require(event.index == self._next, event, f"expected index {self._next}")
        if event.kind == "tool_call":
            self._require(bool(event.name) and bool(event.call_id), event, "a call needs name and id")
            self._require(event.call_id not in self._call_ids, event, "call id used twice")
            self._call_ids.add(event.call_id or "")
        else:
            self._require(event.name is None and event.call_id is None, event, "name or id on a non-call")
        self._next += 1
        self._open, self._text = event, []

    def _segment_end(self, event: SegmentEnd) -> None:
        start = self._open
        self._require(start is not None and start.index == event.index, event, "not the open segment")
        self._open = None
        if start is not None and start.kind == "tool_call" and event.status != "truncated":
            self._due = start

    def _call_ready(self, event: CallReady) -> None:
        due, self._due = self._due, None
        self._require(due is not None and due.index == event.index, event, "no finished call to be ready")
        if due is not None:
            self._require((due.call_id, due.name) == (event.call_id, event.name), event, "id or name differ")
        self._require("".join(self._text) == event.arguments, event, "arguments differ from the deltas")
        try:
            value = json.loads(event.arguments)
        except ValueError:
            value = None
        self._require(isinstance(value, dict), event, "arguments are not a JSON object")

    def _require(self, condition: object, event: object, why: str) -> None:
        if not condition:
            raise OrderError(f"{why}: {event!r}")


def check_order(events: Iterable[Event], *, framed: bool = True) -> None:
    """Raises `OrderError` unless the whole stream obeys the order law."""
    checker = OrderChecker(framed=framed)
    for event in events:
        checker.push(event)
    checker.finish()
