"""Behind one object of a list of calls: the next one, or the list's end and its closing marker."""

from typing import Protocol

from antiphon_parsers.engine.cursor import Cursor, Found, Peek
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Prose
from antiphon_parsers.engine.state import State
from antiphon_turns import SegmentStatus


class ListSyntax(Protocol):
    """What reads another object of the same list."""

    def chained(self, prose: Prose, marker: str) -> State:
        """Where separators alone stand between the objects."""
        ...

    def next_item(self, prose: Prose) -> State:
        """Where the list has brackets."""
        ...


class AfterItem(State):
    """The object is complete, and so is the call once it is known what follows. `bracket` and `closer` are "" where there
    are none. `tail` is the last argument text."""

    __slots__ = ("_bracket", "_closer", "_prose", "_separator", "_status", "_syntax", "_tail")

    def __init__(
        self,
        prose: Prose,
        *,
        closer: str,
        separator: str,
        bracket: str,
        tail: str,
        status: SegmentStatus,
        syntax: ListSyntax,
    ) -> None:
        self._prose = prose
        self._closer = closer
        self._separator = separator
        self._bracket = bracket
        self._tail = tail
        self._status = status
        self._syntax = syntax

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        ends = tuple(marker for marker in (self._separator, self._bracket, self._closer) if marker)
        found = cursor.peek(cursor.at, ("{", *ends), ignoring="}" if self._bracket else "")
        if found is Peek.PENDING:
            return None
        if isinstance(found, Found):
            if found.literal == self._separator:
                return self._behind_separator(cursor, out, found)
            self._note_surplus(cursor, out, found)
            cursor.at = found.start if found.literal == "{" else found.end
        elif found is Peek.END:  # at most the beginning of a marker
            cursor.at = len(cursor.text)
        following = self._close(cursor, out)
        if isinstance(found, Found) and found.literal == "{":
            return self._next(following)
        return ListEnd(following, self._closer) if isinstance(found, Found) and found.literal == self._bracket else following

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False

    def _behind_separator(self, cursor: Cursor, out: Emitter, found: Found) -> State | None:
        item = cursor.peek(found.end, ("{",))
        if item is Peek.PENDING:
            return None
        if isinstance(item, Found):
            self._note_surplus(cursor, out, found)
            cursor.at = item.start
            return self._next(self._close(cursor, out))
        if self._bracket or item is Peek.END:  # one too many
            cursor.at = found.end
            return self
        return self._close(cursor, out)

    def _close(self, cursor: Cursor, out: Emitter) -> Prose:
        out.close_call(self._tail, self._status, cursor.offset())
        return self._prose.after_call()

    def _next(self, prose: Prose) -> State:
        return self._syntax.next_item(prose) if self._bracket else self._syntax.chained(prose, "{")

    def _note_surplus(self, cursor: Cursor, out: Emitter, found: Found) -> None:
        surplus = cursor.text[cursor.at : found.start].strip()
        if surplus:
            out.anomaly("surplus_braces", surplus)


class ListEnd(State):
    """Behind the list: its closing marker, if it has one."""

    __slots__ = ("_closer", "_prose")

    def __init__(self, prose: Prose, closer: str) -> None:
        self._prose = prose
        self._closer = closer

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        found = cursor.peek(cursor.at, (self._closer,)) if self._closer else Peek.ABSENT
        if found is Peek.PENDING:
            return None
        if isinstance(found, Found):
            cursor.at = found.end
        elif found is Peek.END:
            cursor.at = len(cursor.text)
        return self._prose

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False
