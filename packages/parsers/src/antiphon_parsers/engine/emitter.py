"""What the states say: segments, deltas, calls and anomalies, in order, with the sampled tokens counted per segment."""

from collections import deque

from antiphon_parsers.engine.record import Record
from antiphon_turns import Anomaly, CallReady, Event, SegmentDelta, SegmentEnd, SegmentKind, SegmentStart, SegmentStatus
from antiphon_turns.ids import call_id

DETAIL_LIMIT = 2000
"""Characters of raw text that an anomaly keeps."""


class TokenLedger(Record):
    """Where each sampled token ends. Tokens whose text is not there yet end with the next text; when several come
    with one delta they are taken to be of equal length."""

    __slots__ = ("_counted", "_ends", "_waiting")

    def __init__(self) -> None:
        self._ends: deque[int] = deque()
        self._waiting = 0
        self._counted = 0

    def add(self, start: int, size: int, tokens: int) -> None:
        """`tokens` ids arrived with `size` characters of text that begin at `start`."""
        if not size:
            self._waiting += tokens
            return
        count = self._waiting + tokens
        self._waiting = 0
        if count == 1:
            self._ends.append(start + size)
            return
        self._ends.extend(start + -(-size * (number + 1) // count) for number in range(count))

    def pass_over(self, tokens: int) -> None:
        """`tokens` ids arrived with text that certainly belongs to the open segment, as does all text before it."""
        self._counted += self._waiting + tokens
        self._waiting = 0

    def forget(self, end: int) -> None:
        """Only counts, from now on, the tokens that end at or before `end`: no segment will end before that."""
        self._counted = self.take(end)

    def settle(self, end: int) -> None:
        """No text will come: the waiting tokens end at `end`."""
        self._ends.extend([end] * self._waiting)
        self._waiting = 0

    def take(self, end: int) -> int:
        """Counts, once, the tokens that end at or before `end`."""
        count, self._counted = self._counted, 0
        while self._ends and self._ends[0] <= end:
            self._ends.popleft()
            count += 1
        return count


class Emitter(Record):
    """Builds the event list. Deltas of one segment that follow each other within a feed are joined."""

    __slots__ = ("_arguments", "_events", "_next", "_open", "_parts", "_tag", "ledger")

    def __init__(self, turn_tag: str) -> None:
        self.ledger = TokenLedger()
        self._tag = turn_tag
        self._events: list[Event] = []
        self._parts: list[str] = []
        self._arguments: list[str] = []
        self._open: SegmentStart | None = None
        self._next = 0

    @property
    def is_open(self) -> bool:
        """Whether a segment is open."""
        return self._open is not None

    def open(self, kind: SegmentKind, name: str | None = None) -> None:
        """Opens the next segment."""
        self._flush()
        index, self._next = self._next, self._next + 1
        identity = call_id(self._tag, index) if kind == "tool_call" else None
        self._open = SegmentStart(index, kind, identity, name)
        self._events.append(self._open)

    def delta(self, text: str) -> None:
        """Appends to the open segment."""
        if text:
            self._parts.append(text)

    def close(self, status: SegmentStatus, end: int) -> None:
        """Closes the open segment; it owns the tokens up to the offset `end`."""
        self._flush()
        if self._open is not None:
            self._events.append(SegmentEnd(self._open.index, status, self.ledger.take(end)))
            self._open = None
            self._arguments = []

    def close_call(self, tail: str, status: SegmentStatus, end: int) -> None:
        """Closes the open call as executable: its last bytes, its end and its readiness leave together (I12)."""
        call = self._open
        self.delta(tail)
        self._flush()
        arguments = "".join(self._arguments)
        self.close(status, end)
        if call is not None:
            self._events.append(CallReady(call.index, call.call_id or "", call.name or "", arguments))
        if status == "recovered":
            self.anomaly("repaired_tool_call", call.name or "" if call else "")

    def anomaly(self, code: str, detail: str = "") -> None:
        """Notes malformed output."""
        self._flush()
        self._events.append(Anomaly(code, detail))

    def say(self, text: str) -> list[Event]:
        """Appends to the open segment; the events since `take`."""
        opened = self._open
        if opened is None or self._events or self._parts:
            self.delta(text)
            return self.take()
        if opened.kind == "tool_call":
            self._arguments.append(text)
        return [SegmentDelta(opened.index, text)]

    def forget(self, end: int) -> None:
        """Keeps no more than what is needed to go on, given that no segment will end before the offset `end`: of the open call,
        its arguments so far, which CallReady repeats."""
        if self._arguments:
            self._arguments = ["".join(self._arguments)]
        self.ledger.forget(end)

    def take(self) -> list[Event]:
        """The events since the last call."""
        self._flush()
        events, self._events = self._events, []
        return events

    def restart(self) -> None:
        """Forgets everything said so far. An open call is said again from its beginning; other segments open anew."""
        self._flush()
        call, said = self._open, "".join(self._arguments)
        self._events, self._arguments, self._open, self._next = [], [], None, 0
        if call is not None and call.kind == "tool_call":
            self.open("tool_call", call.name)
            self.delta(said)

    def _flush(self) -> None:
        if self._parts and self._open is not None:
            text = self._parts[0] if len(self._parts) == 1 else "".join(self._parts)
            self._events.append(SegmentDelta(self._open.index, text))
            if self._open.kind == "tool_call":
                self._arguments.append(text)
            self._parts = []
