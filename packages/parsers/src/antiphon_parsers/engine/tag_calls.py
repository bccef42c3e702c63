"""Calls written as tags, where the head of a call and its parameters are read by the syntax: the states that all such
formats share.

::

    [block_open]  ( head  ( parameter VALUE parameter_close )*  call_close )+  [block_close]

Values are untyped or carry their type. A value may contain the grammar's own closers, so a closer counts only when the
grammar goes on behind it. Every tag may have several spellings; the first is the usual one.
"""

from functools import lru_cache
from typing import NamedTuple, Protocol

from antiphon_parsers.engine.closing import Unreadable
from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek
from antiphon_parsers.engine.cut import cut_attempt, cut_call
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import Parameters, ToolTable
from antiphon_parsers.engine.xml_values import Arguments, DroppedValue, Sink, ValueForm, pour
from antiphon_turns.json_scan import JsonScanner

Spellings = tuple[str, ...]


class Head(NamedTuple):
    """The head of a call as far as it is there: the name, when it is whole, and where the body begins, when it has begun.
    `plausible`: a turn that ends here was cut in a call; else a sentence may have ended that names the marker."""

    name: str | None = None
    end: int | None = None
    plausible: bool = True


class ParameterHead(NamedTuple):
    """What stands before a value; without `key` it is unreadable and dropped, with its value unless `valueless`."""

    key: str | None
    end: int
    form: ValueForm = "schema"
    valueless: bool = False


class Tags(Protocol):
    """What the states ask of a syntax. An empty `block_open` means that calls stand alone."""

    @property
    def block_open(self) -> Spellings: ...

    @property
    def block_close(self) -> Spellings: ...

    @property
    def call_open(self) -> Spellings: ...

    @property
    def call_close(self) -> Spellings: ...

    @property
    def parameter_open(self) -> Spellings: ...

    @property
    def parameter_close(self) -> Spellings: ...

    @property
    def json_bodies(self) -> bool:
        """Whether a body may be one JSON object."""
        ...

    @property
    def wrappers(self) -> Spellings:
        """Keys that models put round all arguments."""
        ...

    def head(self, cursor: Cursor, at: int, tools: ToolTable, *, only_known: bool) -> Head | None:
        """Reads what follows a call's opening literal; None when it is no call."""
        ...

    def parameter(self, cursor: Cursor, at: int, parameters: Parameters) -> ParameterHead | None:
        """Reads what follows a parameter's opening literal; None while undecided and when the turn ends there."""
        ...


class CallTag:
    """A call opener was seen. It begins a call when a whole head follows and a body behind that."""

    def __init__(self, syntax: Tags, mention: Mention, *, only_known: bool) -> None:
        self._syntax = syntax
        self._mention = mention
        self._only_known = only_known
        self._name: str | None = None

    @property
    def in_reasoning(self) -> bool:
        return self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        end = cursor.at + self._mention.size
        head = self._read(cursor, end)
        if head is None:
            return self._mention.decline(cursor, out)
        self._name = head.name
        if head.end is None or head.name is None:
            named = self._mention.is_named_only(cursor) and not (head.plausible and cursor.text[end:].strip())
            return self._mention.refuse(cursor, out) if named else None
        prose = self._mention.prose
        prose.leave(out, cursor.offset(cursor.at + self._mention.lead))
        cursor.at = head.end
        out.open("tool_call", head.name)
        return Body(self._syntax, prose, Arguments(prose.tools.parameters(head.name), wrappers=self._syntax.wrappers))

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_attempt(self._mention, self._name, cursor, out)

    def _read(self, cursor: Cursor, at: int) -> Head | None:
        syntax = self._syntax
        if self._mention.marker in syntax.block_open:
            found = cursor.peek(at, syntax.call_open)
            if not isinstance(found, Found):
                return None if found is Peek.ABSENT else Head()
            head = syntax.head(cursor, found.end, self._mention.tools, only_known=self._only_known)
            return head and head._replace(plausible=True)
        return syntax.head(cursor, at, self._mention.tools, only_known=self._only_known)


class Between:
    """Behind a call inside a block: another call, the block's end, or what is left of the turn."""

    in_reasoning = False

    def __init__(self, syntax: Tags, prose: Prose) -> None:
        self._syntax = syntax
        self._prose = prose

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        syntax = self._syntax
        found = cursor.peek(cursor.at, syntax.call_open + syntax.block_close)
        if found is Peek.PENDING:
            return None
        if found is Peek.END:  # at most the beginning of a marker
            cursor.at = len(cursor.text)
        elif isinstance(found, Found) and found.literal in syntax.call_open:
            cursor.at = found.start
            return CallTag(syntax, Mention(self._prose, found.literal, 0, line_start=True), only_known=False)
        elif isinstance(found, Found):
            cursor.at = found.end
        return self._prose

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False


class Body:
    """Between the parameters of a call."""

    in_reasoning = False

    def __init__(self, syntax: Tags, prose: Prose, arguments: Arguments) -> None:
        self._syntax = syntax
        self._prose = prose
        self._arguments = arguments

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        syntax = self._syntax
        cursor.skip_space()
        if syntax.json_bodies and not self._arguments.keys and cursor.text.startswith("{", cursor.at):
            return JsonBody(syntax, self._prose)
        ends = syntax.parameter_open + syntax.call_close + syntax.block_close + syntax.call_open + syntax.block_open
        found = cursor.peek(cursor.at, ends)
        if found is Peek.ABSENT:
            self._arguments.skip_junk(cursor, out, upto="<")
            return self
        if not isinstance(found, Found):
            return None
        if found.literal in syntax.parameter_open:
            return self._parameter(cursor, out, found)
        return end_call(syntax, self._prose, cursor, out, found, tail=self._arguments.closing, recovered=self._arguments.recovered)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_call(cursor, out)

    def _parameter(self, cursor: Cursor, out: Emitter, found: Found) -> State | None:
        head = self._syntax.parameter(cursor, found.end, self._arguments.parameters)
        if head is None:
            return None
        cursor.at = head.end
        if head.key is not None:
            return Value(self._syntax, self, self._arguments.begin(head.key, out, form=head.form))
        out.anomaly("dropped_parameter")
        return self if head.valueless else Value(self._syntax, self, DroppedValue())

    def opens_parameter(self, cursor: Cursor, found: Found) -> bool | None:
        """Whether a parameter's opener inside a value begins the next parameter (the value's closer is missing): its head
        must be whole, and its key declared and new. None while undecided."""
        head = self._syntax.parameter(cursor, found.end, self._arguments.parameters)
        if head is None:
            return None if cursor.finish is None else False
        key = head.key
        return key is not None and key not in self._arguments.keys and self._arguments.parameters.declares(key)

    def close_value(self, *, missing: bool) -> None:
        """A value has ended; `missing` without its own closer."""
        self._arguments.recovered = self._arguments.recovered or missing


class JsonBody:
    """A body that is one JSON object. Its last brace waits until the call is closed."""

    in_reasoning = False

    def __init__(self, syntax: Tags, prose: Prose) -> None:
        self._syntax = syntax
        self._prose = prose
        self._scanner = JsonScanner()

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        syntax, scanner = self._syntax, self._scanner
        if not scanner.done:
            start = cursor.at
            cursor.at += scanner.feed(cursor.text, start)
            out.delta(cursor.text[start : cursor.at - 1] if scanner.done else cursor.text[start : cursor.at])
        if scanner.failed:
            return Unreadable(self._prose, closers=syntax.call_close[:1], openers=tuple("\n" + opener for opener in syntax.block_open))
        if not scanner.done:
            return None
        found = cursor.peek(cursor.at, syntax.call_close + syntax.block_close)
        if found is Peek.PENDING:
            return None
        return end_call(syntax, self._prose, cursor, out, found, tail="}", recovered=False)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_call(cursor, out)


class Value:
    """Inside a parameter's value."""

    in_reasoning = False

    def __init__(self, syntax: Tags, body: Body, sink: Sink) -> None:
        self._syntax = syntax
        self._body = body
        self._sink = sink
        ends = syntax.parameter_close + syntax.call_close + syntax.block_close + syntax.parameter_open
        self._markers = value_markers(*ends)

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        self._sink, found = pour(self._sink, self._markers, cursor, out)
        if found is None:
            return None
        ends = self._ends(cursor, found)
        if ends is None:
            return None
        if not ends:
            self._sink = self._sink.write(found.literal, out)
            cursor.at = found.end
            return self
        self._sink.end(out)
        closed = found.literal in self._syntax.parameter_close
        self._body.close_value(missing=not closed)
        cursor.at = found.end if closed else found.start
        return self._body

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return self._body.finish(cursor, out)

    def _ends(self, cursor: Cursor, found: Found) -> bool | None:
        """Whether the marker ends the value; None while undecided."""
        syntax = self._syntax
        if found.literal in syntax.parameter_open:
            return self._body.opens_parameter(cursor, found)
        following = cursor.peek(found.end, _followers(syntax, found.literal))
        if following is Peek.PENDING:
            return None
        if following is Peek.END:
            return found.literal in syntax.parameter_close or cursor.finish == "stop"
        return isinstance(following, Found)


def end_call(syntax: Tags, prose: Prose, cursor: Cursor, out: Emitter, found: Found | Peek, *, tail: str, recovered: bool) -> State:
    """The body is complete: the call leaves, without waiting for the block's end. Anything but the call's own closer is left
    to be read."""
    closed = isinstance(found, Found) and found.literal in syntax.call_close
    if isinstance(found, Found):
        cursor.at = found.end if closed else found.start
    elif found is Peek.END:  # at most the beginning of the closer
        cursor.at = len(cursor.text)
    out.close_call(tail, "complete" if closed and not recovered else "recovered", cursor.offset())
    return Between(syntax, prose.after_call()) if syntax.block_open else prose.after_call()


def _followers(syntax: Tags, marker: str) -> Spellings:
    """What must follow a closer inside a value, so that it is one."""
    if marker in syntax.parameter_close:
        return syntax.parameter_open + syntax.call_close + syntax.block_close
    if marker in syntax.call_close:
        return syntax.block_close + syntax.call_open
    return syntax.block_open


@lru_cache(maxsize=64)
def value_markers(*spellings: str) -> MarkerSet:
    """What may end a value."""
    return MarkerSet(spellings)
