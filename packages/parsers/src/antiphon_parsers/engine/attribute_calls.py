"""Calls written as tags with attributes, which name the tool, each argument and its type.

::

    open call tool="NAME" sep   ( open argument key="KEY" type="TYPE" sep  VALUE  close argument sep )*   close call sep

String values are raw and stream; others are JSON and are held. A value may contain the grammar's own tags, so its end counts only
when the grammar goes on behind it. Instead of arguments there may be one JSON object.
"""

import re
from functools import lru_cache

import msgspec

from antiphon_parsers.engine.call_tag import CallTag, Head
from antiphon_parsers.engine.closing import AfterBody
from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek
from antiphon_parsers.engine.cut import cut_call
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.json_body import JsonBody
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import NAME_SLACK
from antiphon_parsers.engine.xml_values import Arguments, DroppedValue, Sink, ValueForm, pour
from antiphon_turns import SegmentStatus

_TAG_SLACK = 64
"""Characters of a tag beside the name in it (I7)."""

_ATTRIBUTE = re.compile(r'([a-z]+)="([^"]*)"')
_FORMS: dict[str, ValueForm] = {
    "string": "string",
    **dict.fromkeys(("number", "boolean", "null", "object", "array"), "json"),
}


class AttributeCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The tags: openers up to their attributes, closers whole. `after_call` are the markers that may follow a whole call."""

    sep: str
    call_open: str
    call_close: str
    argument_open: str
    argument_close: str
    json_open: str
    json_close: str
    after_call: tuple[str, ...]
    line_start_in_reasoning: bool = False

    @property
    def openers(self) -> tuple[str, ...]:
        return (self.call_open,)

    @property
    def closers(self) -> tuple[str, ...]:
        return ()

    def attempt(self, mention: Mention) -> State:
        return CallTag(self, mention, only_known=mention.only_known)

    def head(self, cursor: Cursor, mention: Mention, *, only_known: bool) -> Head | None:
        start = cursor.at + mention.size
        bound = start + 2 * mention.tools.longest + NAME_SLACK + _TAG_SLACK
        end = cursor.text.find(self.sep, start, bound)
        if end < 0:
            return Head() if len(cursor.text) < bound else None
        name = attributes(cursor.text[start:end]).get("tool", "")
        if not mention.tools.accepts(name, only_known=only_known):
            return None
        behind = end + len(self.sep)
        found = cursor.peek(behind, (self.json_open,))
        if not isinstance(found, Found):
            return Head(name, behind if found is Peek.ABSENT else None)
        end = cursor.text.find(self.sep, found.end, found.end + _TAG_SLACK)
        if end < 0:
            return Head(name) if len(cursor.text) < found.end + _TAG_SLACK else None
        return Head(name, end + len(self.sep), is_json=True)

    def begin(self, out: Emitter, prose: Prose, name: str, *, is_json: bool) -> State:
        if is_json:
            ends = (self.json_close, self.call_close)
            return JsonBody(prose, name, ends=ends, openers=self.openers, closer=self.json_close, refused=prose.enter("text"))
        out.open("tool_call", name)
        return TagBody(self, prose, Arguments(prose.tools.parameters(name)))


def attributes(text: str) -> dict[str, str]:
    """The attributes of a tag, decoded."""
    return {key: value.replace("&quot;", '"').replace("&amp;", "&") for key, value in _ATTRIBUTE.findall(text)}


class TagBody(State):
    """Between the arguments of a call."""

    __slots__ = ("_arguments", "_prose", "_syntax")

    def __init__(self, syntax: AttributeCalls, prose: Prose, arguments: Arguments) -> None:
        self._syntax = syntax
        self._prose = prose
        self._arguments = arguments

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        syntax = self._syntax
        cursor.skip_space()
        found = cursor.peek(cursor.at, (syntax.argument_open, syntax.call_close, syntax.call_open, *syntax.after_call))
        if found is Peek.ABSENT:
            self._arguments.skip_junk(cursor, out, upto="<")
            return self
        if not isinstance(found, Found):
            return None
        if found.literal == syntax.argument_open:
            return self._argument(cursor, out, found)
        self._arguments.recovered = self._arguments.recovered or found.literal != syntax.call_close
        status: SegmentStatus = "recovered" if self._arguments.recovered else "complete"
        return AfterBody(self._prose, closer=syntax.call_close, tail=self._arguments.closing, status=status)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_call(cursor, out)

    def end_value(self, *, closed: bool) -> None:
        """A value has ended; not `closed`: without its own closer."""
        self._arguments.recovered = self._arguments.recovered or not closed

    def _argument(self, cursor: Cursor, out: Emitter, found: Found) -> State | None:
        syntax, arguments = self._syntax, self._arguments
        bound = found.end + 2 * arguments.parameters.longest + NAME_SLACK + _TAG_SLACK
        end = cursor.text.find(syntax.sep, found.end, bound)
        if end < 0 and len(cursor.text) < bound:
            return None
        given = attributes(cursor.text[found.end : end]) if end >= 0 else {}
        if "key" not in given:
            cursor.at = end + len(syntax.sep) if end >= 0 else found.end
            out.anomaly("dropped_parameter")
            return TagValue(syntax, self, DroppedValue())
        cursor.at = end + len(syntax.sep)
        return TagValue(syntax, self, arguments.begin(given["key"], out, form=_FORMS.get(given.get("type", ""), "schema")))


class TagValue(State):
    """Inside an argument's value."""

    __slots__ = ("_body", "_sink", "_syntax")

    def __init__(self, syntax: AttributeCalls, body: TagBody, sink: Sink) -> None:
        self._syntax = syntax
        self._body = body
        self._sink = sink

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        self._sink, found = pour(self._sink, _value_ends(self._syntax), cursor, out)
        if found is None:
            return None
        closed = found.literal == self._syntax.argument_close
        following = cursor.peek(found.end, self._followers(closed=closed))
        if following is Peek.PENDING:
            return None
        if following is Peek.ABSENT or (following is Peek.END and not closed and cursor.finish != "stop"):
            self._sink = self._sink.write(found.literal, out)
            cursor.at = found.end
            return self
        self._sink.end(out)
        self._body.end_value(closed=closed)
        cursor.at = found.end if closed else found.start
        return self._body

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return self._body.finish(cursor, out)

    def plain(self, text: str, out: Emitter) -> str | None:
        return self._sink.plain(text, _value_ends(self._syntax))

    def _followers(self, *, closed: bool) -> tuple[str, ...]:
        """What must follow a closer inside a value, so that it is one."""
        syntax = self._syntax
        behind_call = (syntax.call_open, *syntax.after_call)
        return (syntax.argument_open, syntax.call_close, *behind_call) if closed else behind_call


@lru_cache(maxsize=16)
def _value_ends(syntax: AttributeCalls) -> MarkerSet:
    return MarkerSet((syntax.argument_close, syntax.call_close))
