"""Calls written as tags, where the head of a call and its parameters are read by the syntax: the states that all such
formats share.

::

    [block_open]  ( head  ( parameter VALUE parameter_close )*  call_close )+  [block_close]

Values are untyped or carry their type. A value may contain the grammar's own closers, so a closer counts only when the
grammar goes on behind it. Every tag may have several spellings; the first is the usual one.
"""

from functools import lru_cache
from typing import NamedTuple, Protocol

from antiphon_parsers.engine.call_tag import CallTag, Head
from antiphon_parsers.engine.closing import AfterBody, Unreadable
from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek
from antiphon_parsers.engine.cut import cut_call
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import Parameters, ToolTable
from antiphon_parsers.engine.xml_values import Arguments, DroppedValue, Sink, ValueForm, pour
from antiphon_turns import SegmentStatus
from antiphon_turns.json_scan import JsonScanner

Spellings = tuple[str, ...]
NO_LEADS: Spellings = ("",)


class ParameterHead(NamedTuple):
    """What stands before a value; without `key` it is unreadable and dropped, with its value unless `valueless`. `leads` may
    stand before what ends the value, as framing; `framed`: framing stands before the value, too."""

    key: str | None
    end: int
    form: ValueForm = "schema"
    valueless: bool = False
    leads: Spellings = NO_LEADS
    framed: bool = False


class Tags(Protocol):
    """What the states ask of a syntax. An empty `block_open` means that calls stand alone. `shares_end`: the block's end
    belongs to the call before it, which leaves there, or as soon as that cannot come any more."""

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

    @property
    def shares_end(self) -> bool: ...

    def call_head(self, cursor: Cursor, at: int, tools: ToolTable, *, only_known: bool) -> Head | None:
        """Reads what follows a call's opening literal; None when it is no call."""
        ...

    def parameter(self, cursor: Cursor, at: int, parameters: Parameters) -> ParameterHead | None:
        """Reads what follows a parameter's opening literal; None while undecided and when the turn ends there."""
        ...

    def head(self, cursor: Cursor, mention: Mention, *, only_known: bool) -> Head | None: ...

    def begin(self, out: Emitter, prose: Prose, name: str, *, is_json: bool) -> State: ...

    def chained(self, prose: Prose, marker: str) -> State: ...


def read_head(syntax: Tags, cursor: Cursor, mention: Mention, *, only_known: bool) -> Head | None:
    """What follows an opener, be it that of a block or of a call."""
    at = cursor.at + mention.size
    if mention.marker not in syntax.block_open:
        return syntax.call_head(cursor, at, mention.tools, only_known=only_known)
    found = cursor.peek(at, syntax.call_open)
    if not isinstance(found, Found):
        return None if found is Peek.ABSENT else Head()
    head = syntax.call_head(cursor, found.end, mention.tools, only_known=only_known)
    return head and head._replace(plausible=True)


def begin_call(syntax: Tags, out: Emitter, prose: Prose, name: str) -> State:
    """The state behind a call's head."""
    out.open("tool_call", name)
    return Body(syntax, prose, Arguments(prose.tools.parameters(name), wrappers=syntax.wrappers))


def chained_call(syntax: Tags, prose: Prose, marker: str) -> State:
    """The state that reads another call in the same block."""
    return CallTag(syntax, Mention(prose, marker, 0, line_start=True), only_known=False)


class Between(State):
    """Behind a call inside a block: another call, the block's end, or what is left of the turn."""

    __slots__ = ("_prose", "_syntax")

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
            return syntax.chained(self._prose, found.literal)
        elif isinstance(found, Found):
            cursor.at = found.end
        return self._prose

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False


class Body(State):
    """Between the parameters of a call."""

    __slots__ = ("_arguments", "_prose", "_syntax")

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
            sink = self._arguments.begin(head.key, out, form=head.form)
            return Value(self._syntax, self, sink, leads=head.leads, framed=head.framed)
        out.anomaly("dropped_parameter")
        return self if head.valueless else Value(self._syntax, self, DroppedValue(), leads=head.leads)

    def opens_parameter(self, cursor: Cursor, found: Found, *, framed: bool) -> bool | None:
        """Whether a parameter's opener inside a value begins the next parameter (the value's closer is missing): its head must
        be whole, its key declared and new and, in a value that is `framed`, do the same. A tool that declares nothing takes any
        key at the start of a line. None while undecided."""
        lead = found.literal not in self._syntax.parameter_open
        if framed and not lead:
            return False
        head = self._syntax.parameter(cursor, found.end, self._arguments.parameters)
        if head is None:
            return None if cursor.finish is None else False
        if head.key is None or head.key in self._arguments.keys:
            return False
        parameters = self._arguments.parameters
        return parameters.declares(head.key) if parameters.any_declared else lead

    def close_value(self, *, missing: bool) -> None:
        """A value has ended; `missing` without its own closer."""
        self._arguments.recovered = self._arguments.recovered or missing


class JsonBody(State):
    """A body that is one JSON object. Its last brace waits until the call is closed."""

    __slots__ = ("_prose", "_scanner", "_syntax")

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

    def plain(self, text: str, out: Emitter) -> str | None:
        return text if self._scanner.take_plain(text) else None


class Value(State):
    """Inside a parameter's value."""

    __slots__ = ("_body", "_framed", "_leads", "_markers", "_sink", "_syntax")
    derived = ("_markers",)

    def __init__(self, syntax: Tags, body: Body, sink: Sink, *, leads: Spellings = NO_LEADS, framed: bool = False) -> None:
        self._syntax = syntax
        self._body = body
        self._sink = sink
        self._leads = leads
        self._framed = framed
        self.derive()

    def derive(self) -> None:
        syntax = self._syntax
        ends = syntax.parameter_close + syntax.call_close + syntax.block_close + syntax.parameter_open
        self._markers = value_markers(ends, self._leads)

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        self._sink, found = pour(self._sink, self._markers, cursor, out)
        if found is None:
            return None
        marker = found.literal.lstrip("\r\n")
        ends = self._ends(cursor, found, marker)
        if ends is None:
            return None
        if not ends:
            self._sink = self._sink.write(found.literal, out)
            cursor.at = found.end
            return self
        self._sink.end(out)
        closed = marker in self._syntax.parameter_close
        self._body.close_value(missing=not closed)
        cursor.at = found.end if closed else found.end - len(marker)
        return self._body

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return self._body.finish(cursor, out)

    def plain(self, text: str, out: Emitter) -> str | None:
        return self._sink.plain(text, self._markers)

    def _ends(self, cursor: Cursor, found: Found, marker: str) -> bool | None:
        """Whether the marker ends the value; None while undecided."""
        syntax = self._syntax
        if marker in syntax.parameter_open:
            return self._body.opens_parameter(cursor, found, framed=self._framed)
        following = cursor.peek(found.end, _followers(syntax, marker))
        if following is Peek.PENDING:
            return None
        if following is Peek.END:
            return marker in syntax.parameter_close or cursor.finish == "stop"
        return isinstance(following, Found)


def end_call(syntax: Tags, prose: Prose, cursor: Cursor, out: Emitter, found: Found | Peek, *, tail: str, recovered: bool) -> State:
    """The body is complete: the call leaves, at the block's end where that is its own. Anything but the call's own closer is
    left to be read."""
    closed = isinstance(found, Found) and found.literal in syntax.call_close
    status: SegmentStatus = "complete" if closed and not recovered else "recovered"
    if isinstance(found, Found):
        cursor.at = found.end if closed else found.start
    elif found is Peek.END:  # at most the beginning of the closer
        cursor.at = len(cursor.text)
    if syntax.shares_end:
        surplus, chain = syntax.call_close + syntax.parameter_close, (syntax.call_open[0], syntax)
        return AfterBody(prose, closer=syntax.block_close[0], tail=tail, status=status, surplus_markers=surplus, chain=chain)
    out.close_call(tail, status, cursor.offset())
    return Between(syntax, prose.after_call()) if syntax.block_open else prose.after_call()


def _followers(syntax: Tags, marker: str) -> Spellings:
    """What must follow a closer inside a value, so that it is one."""
    if marker in syntax.parameter_close:
        return syntax.parameter_open + syntax.call_close + syntax.block_close
    if marker in syntax.call_close:
        return syntax.block_close + syntax.call_open
    return syntax.block_open


@lru_cache(maxsize=64)
def value_markers(ends: Spellings, leads: Spellings) -> MarkerSet:
    """What may end a value, each with every lead that is its framing."""
    return MarkerSet([lead + end for end in ends for lead in leads])
