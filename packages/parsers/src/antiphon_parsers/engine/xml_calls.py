"""Calls written as tags: a function tag that names the tool, parameter tags with raw values.

::

    wrapper_open  function_open NAME >  ( parameter_open KEY > VALUE parameter_close )*  function_close  wrapper_close

Values are untyped: string parameters stream as JSON string text while they are decoded, all others are held and typed
by the declared schema. A value may contain the grammar's own closers, so a closer counts only when the grammar goes
on behind it.
"""

from functools import lru_cache

import msgspec

from antiphon_parsers.engine.closing import AfterBody
from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek
from antiphon_parsers.engine.cut import cut_attempt, cut_call
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import NAME_SLACK, name_end
from antiphon_parsers.engine.xml_values import Arguments, DroppedValue, Sink, pour


class XmlCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a format. A bare function tag (no wrapper) begins a call only for a known tool. `framed_values`: one line
    feed on either side of a value is framing."""

    wrapper_open: str
    wrapper_close: str
    function_open: str
    function_close: str
    parameter_open: str
    parameter_close: str
    framed_values: bool = True
    line_start_in_reasoning: bool = True

    @property
    def openers(self) -> tuple[str, ...]:
        return (self.wrapper_open, self.function_open)

    @property
    def closers(self) -> tuple[str, ...]:
        return (self.wrapper_close,)

    def attempt(self, mention: Mention) -> State:
        return FunctionTag(self, mention, only_known=mention.only_known or mention.marker == self.function_open)


class Header(msgspec.Struct, frozen=True):
    """A function tag: the name, when it is whole, and where the body begins, when the body has begun."""

    name: str | None = None
    end: int | None = None


class FunctionTag:
    """A call opener was seen. It begins a call when a whole function tag follows and a body behind that."""

    def __init__(self, syntax: XmlCalls, mention: Mention, *, only_known: bool) -> None:
        self._syntax = syntax
        self._mention = mention
        self._only_known = only_known
        self._name: str | None = None

    @property
    def in_reasoning(self) -> bool:
        return self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        header = self._read(cursor)
        if header is None:
            return self._mention.decline(cursor, out)
        self._name = header.name
        if header.end is None or header.name is None:
            named = self._mention.is_named_only(cursor) and not cursor.text[cursor.at + self._mention.size :].strip()
            return self._mention.refuse(cursor, out) if named else None
        prose = self._mention.prose
        prose.leave(out, cursor.offset(cursor.at + self._mention.lead))
        cursor.at = header.end
        out.open("tool_call", header.name)
        return Body(self._syntax, prose, Arguments(prose.tools.parameters(header.name)))

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_attempt(self._mention, self._name, cursor, out)

    def _read(self, cursor: Cursor) -> Header | None:
        """The tag as far as it is there; None when this is no call."""
        syntax, tools = self._syntax, self._mention.tools
        start = cursor.at + self._mention.size
        if self._mention.marker == syntax.wrapper_open:
            found = cursor.peek(start, (syntax.function_open,))
            if not isinstance(found, Found):
                return None if found is Peek.ABSENT else Header()
            start = found.end
        end = name_end(cursor.text, start)
        name = cursor.text[start:end]
        if end == len(cursor.text):
            growing = tools.knows_prefix(name) if self._only_known else len(name) <= tools.longest + NAME_SLACK
            return Header() if growing else None
        if cursor.text[end] != ">" or not tools.accepts(name, only_known=self._only_known):
            return None
        body = cursor.peek(end + 1, (syntax.parameter_open, syntax.function_close, syntax.wrapper_close))
        if body is Peek.ABSENT:
            return None
        return Header(name, end + 1 if isinstance(body, Found) else None)


class Body:
    """Between the parameters of a call."""

    in_reasoning = False

    def __init__(self, syntax: XmlCalls, prose: Prose, arguments: Arguments) -> None:
        self._syntax = syntax
        self._prose = prose
        self._arguments = arguments

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        syntax = self._syntax
        cursor.skip_space()
        ends = (syntax.parameter_open, syntax.function_close, syntax.wrapper_close, syntax.function_open, syntax.wrapper_open)
        found = cursor.peek(cursor.at, ends)
        if found is Peek.ABSENT:
            self._arguments.skip_junk(cursor, out, upto="<")
            return self
        if not isinstance(found, Found):
            return None
        if found.literal == syntax.parameter_open:
            return self._parameter(cursor, out, found)
        if found.literal == syntax.function_close:
            cursor.at = found.end
        else:  # the function's own closer is missing
            self._arguments.recovered = True
        return self._complete()

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_call(cursor, out)

    def _complete(self) -> State:
        syntax = self._syntax
        return AfterBody(
            self._prose,
            closer=syntax.wrapper_close,
            tail=self._arguments.closing,
            status="recovered" if self._arguments.recovered else "complete",
            surplus_markers=(syntax.function_close, syntax.parameter_close),
            chain=(syntax.function_open, self._chained),
        )

    def _chained(self, prose: Prose) -> State:
        """Another function tag in the same wrapper."""
        syntax = self._syntax
        return FunctionTag(syntax, Mention(prose, syntax.function_open, 0, line_start=True), only_known=False)

    def _parameter(self, cursor: Cursor, out: Emitter, found: Found) -> State | None:
        arguments = self._arguments
        end = arguments.parameters.key_end(cursor.text, found.end)
        key = cursor.text[found.end : end]
        bound = arguments.parameters.longest + NAME_SLACK
        if end == len(cursor.text) and len(key) <= bound:
            return None
        if end == len(cursor.text) or cursor.text[end] != ">" or not key or len(key) > bound:
            cursor.at = found.end
            out.anomaly("dropped_parameter")
            return Value(self._syntax, self, DroppedValue())
        lead = cursor.text[end + 1 : end + 3]
        if not self._syntax.framed_values:
            cursor.at = end + 1
            return Value(self._syntax, self, arguments.begin(key, out))
        if lead in ("", "\r") and cursor.finish is None:
            return None
        framing = next((feed for feed in ("\r\n", "\n") if lead.startswith(feed)), "")
        cursor.at = end + 1 + len(framing)
        return Value(self._syntax, self, arguments.begin(key, out), framing=framing)

    def opens_parameter(self, cursor: Cursor, found: Found, *, framed: bool) -> bool | None:
        """Whether a parameter tag inside a value begins the next parameter (the value's closer is missing): it must be
        whole, declared and new and, in a value that began on a line of its own, do the same. None while undecided."""
        parameters = self._arguments.parameters
        if framed and found.literal == self._syntax.parameter_open:
            return False
        end = parameters.key_end(cursor.text, found.end)
        key = cursor.text[found.end : end]
        if end == len(cursor.text):
            undecided = cursor.finish is None and len(key) <= parameters.longest + NAME_SLACK
            return None if undecided else False
        if cursor.text[end] != ">" or not key or key in self._arguments.keys:
            return False
        return parameters.declares(key) if parameters.any_declared else cursor.text.startswith("\n", found.start)

    def close_value(self, *, missing: bool) -> None:
        """A value has ended; `missing` without its own closer."""
        self._arguments.recovered = self._arguments.recovered or missing


class Value:
    """Inside a parameter's value."""

    in_reasoning = False

    def __init__(self, syntax: XmlCalls, body: Body, sink: Sink, *, framing: str = "") -> None:
        self._syntax = syntax
        self._body = body
        self._sink = sink
        self._framed = framing != ""
        leads = ("", "\n", framing) if framing else ("", "\n")
        self._markers = value_markers(syntax, leads if syntax.framed_values else ("",))

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
        closed = found.literal.endswith(self._syntax.parameter_close)
        self._body.close_value(missing=not closed)
        cursor.at = found.end if closed else found.end - len(found.literal.lstrip("\r\n"))
        return self._body

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return self._body.finish(cursor, out)

    def _ends(self, cursor: Cursor, found: Found) -> bool | None:
        """Whether the marker ends the value; None while undecided."""
        syntax = self._syntax
        marker = found.literal.lstrip("\r\n")
        if marker == syntax.parameter_open:
            return self._body.opens_parameter(cursor, found, framed=self._framed)
        following = cursor.peek(found.end, _followers(syntax, marker))
        if following is Peek.PENDING:
            return None
        if following is Peek.END:
            return marker == syntax.parameter_close or cursor.finish == "stop"
        return isinstance(following, Found)


def _followers(syntax: XmlCalls, marker: str) -> tuple[str, ...]:
    """What must follow a closer inside a value, so that it is one."""
    if marker == syntax.parameter_close:
        return (syntax.parameter_open, syntax.function_close, syntax.wrapper_close)
    if marker == syntax.function_close:
        return (syntax.wrapper_close, syntax.function_open)
    return (syntax.wrapper_open,)


@lru_cache(maxsize=64)
def value_markers(syntax: XmlCalls, leads: tuple[str, ...]) -> MarkerSet:
    """What may end a value, each with every lead that is its framing."""
    ends = (syntax.parameter_close, syntax.function_close, syntax.wrapper_close, syntax.parameter_open)
    return MarkerSet([lead + marker for marker in ends for lead in leads])
