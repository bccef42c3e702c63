"""The argument object of a call whose name stands before it: JSON, verbatim, while it arrives."""

from antiphon_parsers.engine.closing import AfterBody, Unreadable
from antiphon_parsers.engine.cursor import Cursor, Found, Peek
from antiphon_parsers.engine.cut import cut_call
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.json_members import ArgumentObject
from antiphon_parsers.engine.prose import Prose
from antiphon_parsers.engine.state import State
from antiphon_turns import SegmentStatus


class JsonBody(State):
    """The call `name` begins with the first brace. `ends` are the markers that may stand behind the object, `closer` is the one
    that should; `openers` begin another call. Anything but an object, or nothing at all, gives the text to `refused`."""

    __slots__ = ("_closer", "_ends", "_name", "_object", "_openers", "_prose", "_refused")

    def __init__(
        self,
        prose: Prose,
        name: str,
        *,
        ends: tuple[str, ...],
        openers: tuple[str, ...],
        closer: str,
        refused: Prose,
    ) -> None:
        self._prose = prose
        self._name = name
        self._ends = ends
        self._openers = openers
        self._closer = closer
        self._refused = refused
        self._object: ArgumentObject | None = None

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        return self._begin(cursor, out) if self._object is None else self._go_on(self._object, cursor, out)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        if self._object is None:
            out.open("tool_call", self._name)
        return cut_call(cursor, out)

    def plain(self, text: str, out: Emitter) -> str | None:
        return self._object.plain(text) if self._object is not None else None

    def _after(self, tail: str, status: SegmentStatus) -> State:
        return AfterBody(self._prose, closer=self._closer, tail=tail, status=status, surplus="}]")

    def _begin(self, cursor: Cursor, out: Emitter) -> State | None:
        cursor.skip_space()
        if cursor.text.startswith("{", cursor.at):
            out.open("tool_call", self._name)
            self._object = ArgumentObject()
            return self
        found = cursor.peek(cursor.at, self._ends)
        at_end = cursor.at == len(cursor.text)
        if isinstance(found, Found) or (found is Peek.END and at_end and cursor.finish == "stop"):
            out.open("tool_call", self._name)
            return self._after("{}", "complete")
        if found is Peek.ABSENT:
            out.anomaly("malformed_tool_call", self._name)
            return self._refused
        return None

    def _go_on(self, arguments: ArgumentObject, cursor: Cursor, out: Emitter) -> State | None:
        cursor.at += arguments.feed(cursor.text, cursor.at)
        out.delta(arguments.take())
        if arguments.done:
            return self._after(arguments.tail, "recovered" if arguments.repaired else "complete")
        if not arguments.failed:
            return None
        found = cursor.peek(cursor.at, self._ends)
        if found in (Peek.PENDING, Peek.END):
            return None
        if isinstance(found, Found) and arguments.close_braces():
            out.delta(arguments.take())
            return self._after(arguments.tail, "recovered")
        return Unreadable(self._prose, closers=self._ends, openers=self._openers)
