"""The order law of turn events (I1, I6, I12) as a state machine. Every test that sees events runs it."""

from collections.abc import Iterable

from antiphon_turns.events import (
    Anomaly,
    CallReady,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    TokenLogprobs,
    TurnEnd,
    TurnMetadata,
    TurnStart,
    UsageUpdate,
)
from antiphon_turns.json_scan import JsonScanner


class OrderError(AssertionError):
    """An event stream broke the order law."""


class OrderChecker:
    """Feed every event to `push`; it raises `OrderError` at the first one out of order.

    `framed=False` checks a bare parser stream, which has no TurnStart and no TurnEnd. `poisoned=True` is for streams behind an
    incremental call gate, where a cut call is closed to an object that its tool's schema refuses.
    """

    def __init__(self, *, framed: bool = True, poisoned: bool = False) -> None:
        self._poisoned = poisoned
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
            case Anomaly() | UsageUpdate() | TurnMetadata() | TokenLogprobs():
                self._require(self._due is None, event, "CallReady must follow its SegmentEnd directly")
            case SegmentStart():
                self._segment_start(event)
            case SegmentDelta():
                self._require(self._open is not None and self._open.index == event.index, event, "not the open segment")
                self._require(event.text != "", event, "an empty delta")
                self._require(
                    not (self._open and self._open.kind == "tool_call" and self._whole()), event, "a delta behind the closing brace"
                )
                self._text.append(event.text)
            case SegmentEnd():
                self._segment_end(event)
            case TurnEnd():
                self._require(self._framed, event, "TurnEnd in a bare stream")
                self._settled()
                self._ended = True

    def finish(self) -> None:
        """Checks that nothing is left open or owed, and that a framed stream has ended."""
        self._require(self._ended or not self._framed, None, "TurnEnd is missing")
        self._settled()

    def _settled(self) -> None:
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
        if start is None or start.kind != "tool_call":
            self._require(bool(self._text), event, "an empty segment")
            return
        self._require(event.carrier is None, event, "a carrier on a call")
        if event.status == "truncated":
            self._require(self._poisoned or not self._whole(), event, "a truncated call that could be executed")
        else:
            self._due = start

    def _call_ready(self, event: CallReady) -> None:
        due, self._due = self._due, None
        self._require(due is not None and due.index == event.index, event, "no finished call to be ready")
        if due is not None:
            self._require((due.call_id, due.name) == (event.call_id, event.name), event, "id or name differ")
        self._require("".join(self._text) == event.arguments, event, "arguments differ from the deltas")
        self._require(self._whole(), event, "arguments are not a JSON object")

    def _whole(self) -> bool:
        """Whether the deltas so far are one whole JSON object."""
        text = "".join(self._text)
        if not text.rstrip().endswith("}"):
            return False
        scanner = JsonScanner()
        return scanner.feed(text) == len(text) and scanner.done and text.lstrip().startswith("{")

    def _require(self, condition: object, event: object, why: str) -> None:
        if not condition:
            raise OrderError(f"{why}: {event!r}")


def check_order(events: Iterable[Event], *, framed: bool = True, poisoned: bool = False) -> None:
    """Raises `OrderError` unless the whole stream obeys the order law."""
    checker = OrderChecker(framed=framed, poisoned=poisoned)
    for event in events:
        checker.push(event)
    checker.finish()
