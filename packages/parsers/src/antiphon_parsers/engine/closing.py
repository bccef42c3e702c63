"""Behind a call's body: its closing marker, or the way back to text."""

from collections.abc import Sequence
from typing import Protocol

from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek
from antiphon_parsers.engine.emitter import DETAIL_LIMIT, Emitter
from antiphon_parsers.engine.prose import Prose
from antiphon_parsers.engine.state import State
from antiphon_turns import SegmentStatus


class Chain(Protocol):
    """What begins another call in the same block: a syntax."""

    def chained(self, prose: Prose, marker: str) -> State:
        """The state that reads a call whose opener `marker` stands at the cursor."""
        ...


class AfterCall(Protocol):
    """What knows the state behind a call: a syntax."""

    def behind_call(self, prose: Prose) -> State:
        """The state there; `prose` is what follows the block."""
        ...


class AfterBody(State):
    """The body is complete; the call leaves at its closing marker, or as soon as that cannot come any more.

    `tail` is the last argument text. Characters of `surplus` between body and marker are dropped, and so are
    `surplus_markers`. The marker of `chain` ends the call and begins another in the same block.
    """

    __slots__ = ("_chain", "_closer", "_prose", "_status", "_surplus", "_surplus_markers", "_tail")

    def __init__(
        self,
        prose: Prose,
        *,
        closer: str,
        tail: str,
        status: SegmentStatus,
        surplus: str = "",
        surplus_markers: tuple[str, ...] = (),
        chain: tuple[str, Chain] | None = None,
    ) -> None:
        self._prose = prose
        self._closer = closer
        self._tail = tail
        self._status = status
        self._surplus = surplus
        self._surplus_markers = surplus_markers
        self._chain = chain

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        chain = () if self._chain is None else (self._chain[0],)
        found = cursor.peek(cursor.at, (self._closer, *self._surplus_markers, *chain), ignoring=self._surplus)
        if found is Peek.PENDING:
            return None
        if isinstance(found, Found) and found.literal in self._surplus_markers:
            out.anomaly("stray_marker", found.literal)
            cursor.at = found.end
            return self
        if isinstance(found, Found) and found.literal == self._closer:
            if cursor.text[cursor.at : found.start].strip():
                out.anomaly("surplus_braces", cursor.text[cursor.at : found.start].strip())
            cursor.at = found.end
        elif isinstance(found, Found) and self._chain is not None:
            cursor.at = found.start
            out.close_call(self._tail, self._status, cursor.offset())
            return self._chain[1].chained(self._prose.after_call(), found.literal)
        elif found is Peek.END:  # at most the beginning of the marker
            cursor.at = len(cursor.text)
        out.close_call(self._tail, self._status, cursor.offset())
        return self._prose.after_call()

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False


class Unreadable(State):
    """The body of a call that has begun cannot be read on: the rest of the block, up to one of its `closers` or before
    one of the next block's `openers`, is held back, and the call is cut. `then` gives the state behind it."""

    __slots__ = ("_closers", "_ends", "_openers", "_prose", "_raw", "_size", "_then")
    derived = ("_ends",)

    def __init__(self, prose: Prose, *, closers: Sequence[str], openers: Sequence[str], then: AfterCall | None = None) -> None:
        self._prose = prose
        self._then = then
        self._closers = tuple(closers)
        self._openers = tuple(openers)
        self._raw: list[str] = []
        self._size = 0
        self.derive()

    def derive(self) -> None:
        self._ends = MarkerSet((*self._closers, *self._openers))

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        found = self._ends.find(cursor.text, cursor.at)
        end = found.start if found else self._ends.held_from(cursor.text, cursor.at)
        self._keep(cursor.text[cursor.at : end])
        cursor.at = end
        if found is None:
            return None
        if found.literal in self._closers:
            cursor.at = found.end
        self._cut(cursor, out)
        following = self._prose.after_call()
        return self._then.behind_call(following) if self._then is not None else following

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        self._cut(cursor, out)
        return True

    def _keep(self, text: str) -> None:
        text = text[: DETAIL_LIMIT - self._size]
        if text:
            self._raw.append(text)
            self._size += len(text)

    def _cut(self, cursor: Cursor, out: Emitter) -> None:
        out.close("truncated", cursor.offset())
        out.anomaly("malformed_tool_call", "".join(self._raw))
