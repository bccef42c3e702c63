"""Behind a call's body: its closing marker, or the way back to text."""

from collections.abc import Callable, Sequence

from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek
from antiphon_parsers.engine.emitter import Emitter, anomaly_detail
from antiphon_parsers.engine.prose import Prose
from antiphon_parsers.engine.state import State
from antiphon_turns import SegmentStatus


class AfterBody:
    """The body is complete; the call leaves at its closing marker, or as soon as that cannot come any more.

    `tail` is the last argument text. Characters of `surplus` between body and marker are dropped, and so are
    `surplus_markers`. A marker of `chain` ends the call and begins another in the same block.
    """

    in_reasoning = False

    def __init__(
        self,
        prose: Prose,
        *,
        closer: str,
        tail: str,
        status: SegmentStatus,
        surplus: str = "",
        surplus_markers: tuple[str, ...] = (),
        chain: tuple[str, Callable[[Prose], State]] | None = None,
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
            return self._chain[1](self._prose.after_call())
        elif found is Peek.END:  # at most the beginning of the marker
            cursor.at = len(cursor.text)
        out.close_call(self._tail, self._status, cursor.offset())
        return self._prose.after_call()

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False


class Unreadable:
    """The body of a call that has begun cannot be read on: the rest of the block, up to one of its `closers` or before
    one of the next block's `openers`, is held back, and the call is cut."""

    in_reasoning = False

    def __init__(
        self, prose: Prose, *, closers: Sequence[str], openers: Sequence[str], then: Callable[[Prose], State] | None = None
    ) -> None:
        self._prose = prose
        self._then = then
        self._closers = closers
        self._ends = MarkerSet([*closers, *openers])
        self._raw: list[str] = []
        self._size = 0

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
        return self._then(following) if self._then is not None else following

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        self._cut(cursor, out)
        return True

    def _keep(self, text: str) -> None:
        if self._size < 2000:
            self._raw.append(text)
            self._size += len(text)

    def _cut(self, cursor: Cursor, out: Emitter) -> None:
        out.close("truncated", cursor.offset())
        out.anomaly("malformed_tool_call", anomaly_detail(self._raw))
