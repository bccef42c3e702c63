"""Calls written as nested elements, every tag of which begins with one marker that data never holds by itself.

::

    M block_open   M call_open NAME ">   ( M <KEY> VALUE M </KEY> )*   M call_close   M block_close

A value is text, or elements again: members of an object, or items of a list; the declared schema says what it is. String
parameters stream. Others are held until they end and another name follows, since a repeated name makes a list.
"""

import re
from functools import lru_cache

import msgspec

from antiphon_parsers.engine.call_tag import CallTag, Head
from antiphon_parsers.engine.closing import AfterBody, Unreadable
from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek
from antiphon_parsers.engine.cut import cut_call
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.record import register
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import NAME_SLACK
from antiphon_parsers.engine.xml_values import HELD_LIMIT, Arguments, StringValue
from antiphon_parsers.shapes import Element, json_of
from antiphon_turns import SegmentStatus

MAX_DEPTH = 128
_TAG = re.compile(r"<(/?)([^<>/][^<>]*)>")
_STRING = frozenset(("string",))


register(Element)


class ElementCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The marker, and the tags behind it. A bare call tag (no block) begins a call only for a known tool."""

    marker: str
    block_open: str
    block_close: str
    call_open: str
    call_close: str
    line_start_in_reasoning: bool = False

    @property
    def openers(self) -> tuple[str, ...]:
        return (self.marker + self.block_open, self.marker + self.call_open)

    @property
    def closers(self) -> tuple[str, ...]:
        return (self.marker + self.block_close,)

    @property
    def ends(self) -> tuple[str, ...]:
        """The tags that end a call: its own, and those that say that it is missing."""
        return tuple(self.marker + tag for tag in (self.call_close, self.block_close, self.call_open, self.block_open))

    def attempt(self, mention: Mention) -> State:
        return CallTag(self, mention, only_known=mention.only_known or mention.marker == self.marker + self.call_open)

    def head(self, cursor: Cursor, mention: Mention, *, only_known: bool) -> Head | None:
        start = cursor.at + mention.size
        call_open = self.marker + self.call_open
        if mention.marker != call_open:
            found = cursor.peek(start, (call_open,))
            if not isinstance(found, Found):
                return None if found is Peek.ABSENT else Head()
            start = found.end
        bound = start + mention.tools.longest + NAME_SLACK
        end = cursor.text.find('">', start, bound)
        if end < 0:
            return Head() if len(cursor.text) < bound else None
        name = cursor.text[start:end]
        return Head(name, end + 2) if mention.tools.accepts(name, only_known=only_known) else None

    def begin(self, out: Emitter, prose: Prose, name: str, *, is_json: bool) -> State:
        out.open("tool_call", name)
        return ElementBody(self, prose, Arguments(prose.tools.parameters(name)))

    def chained(self, prose: Prose, marker: str) -> State:
        return CallTag(self, Mention(prose, marker, 0, line_start=True), only_known=False)


class ElementBody(State):
    """Between the parameters of a call. `pending` are the values of one name that are held."""

    __slots__ = ("_arguments", "_pending", "_prose", "_syntax")

    def __init__(self, syntax: ElementCalls, prose: Prose, arguments: Arguments) -> None:
        self._syntax = syntax
        self._prose = prose
        self._arguments = arguments
        self._pending: list[Element] = []

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        syntax = self._syntax
        cursor.skip_space()
        found = cursor.peek(cursor.at, (*syntax.ends, syntax.marker))
        if found is Peek.ABSENT:
            self._arguments.skip_junk(cursor, out, upto=syntax.marker[0])
            return self
        if not isinstance(found, Found):
            return None
        if found.literal == syntax.marker:
            return self._parameter(cursor, out, found)
        if found.literal == syntax.ends[0]:
            cursor.at = found.end
        else:
            self._arguments.recovered = True
        self._flush(out)
        status: SegmentStatus = "recovered" if self._arguments.recovered else "complete"
        chain = (syntax.marker + syntax.call_open, syntax)
        return AfterBody(self._prose, closer=syntax.closers[0], tail=self._arguments.closing, status=status, chain=chain)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_call(cursor, out)

    def hold(self, element: Element, *, recovered: bool) -> None:
        """The value of a parameter has ended."""
        self._pending.append(element)
        self._arguments.recovered = self._arguments.recovered or recovered

    def end_text(self, *, closed: bool) -> None:
        """A string has ended; not `closed`: without its own closer."""
        self._arguments.recovered = self._arguments.recovered or not closed

    def unreadable(self) -> State:
        """The rest of the block is of no use."""
        syntax = self._syntax
        return Unreadable(self._prose, closers=syntax.closers, openers=syntax.openers)

    def _parameter(self, cursor: Cursor, out: Emitter, found: Found) -> State | None:
        parameters = self._arguments.parameters
        if cursor.finish is None and any(tag.startswith(cursor.text[found.start :]) for tag in self._syntax.ends):
            return None
        following = cursor.text[found.end : found.end + 1]
        end = parameters.key_end(cursor.text, found.end + 1)
        key = cursor.text[found.end + 1 : end]
        if end >= len(cursor.text) and following in ("", "<") and len(key) <= parameters.longest + NAME_SLACK:
            return None
        if following != "<" or not key or key.startswith("/") or cursor.text[end : end + 1] != ">":
            cursor.at = found.end
            self._arguments.skip_junk(cursor, out, upto=self._syntax.marker[0])
            return self
        cursor.at = end + 1
        if self._pending and self._pending[0].name != key:
            self._flush(out)
        if not self._pending and parameters.types(key) == _STRING:
            member = self._arguments.member(key)
            return TextElement(self._syntax, self, StringValue(member, out), key)
        return TreeElement(self._syntax, self, key)

    def _flush(self, out: Emitter) -> None:
        if self._pending:
            key = self._pending[0].name
            out.delta(self._arguments.member(key) + json_of(self._pending, self._arguments.parameters.shape(key)))
            self._pending = []


class TextElement(State):
    """Inside a string parameter: its closing tag ends it where the grammar goes on behind."""

    __slots__ = ("_body", "_closer", "_markers", "_syntax", "_value")
    derived = ("_markers",)

    def __init__(self, syntax: ElementCalls, body: ElementBody, value: StringValue, key: str) -> None:
        self._syntax = syntax
        self._body = body
        self._value = value
        self._closer = f"{syntax.marker}</{key}>"
        self.derive()

    def derive(self) -> None:
        self._markers = MarkerSet((self._closer, self._syntax.ends[0]))

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        found = self._markers.find(cursor.text, cursor.at)
        end = found.start if found else self._markers.held_from(cursor.text, cursor.at)
        self._value.write(cursor.text[cursor.at : end], out)
        cursor.at = end
        if found is None:
            return None
        closed = found.literal == self._closer
        following = cursor.peek(found.end, (self._syntax.marker,) if closed else self._syntax.ends[1:])
        if following is Peek.PENDING:
            return None
        if following is Peek.ABSENT or (following is Peek.END and not closed):
            cursor.at = found.end
            self._value.write(found.literal, out)
            return self
        self._value.end(out)
        cursor.at = found.end if closed else found.start
        self._body.end_text(closed=closed)
        return self._body

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return self._body.finish(cursor, out)

    def plain(self, text: str, out: Emitter) -> str | None:
        return self._value.plain(text, self._markers)


class TreeElement(State):
    """Inside a parameter whose value is held: text and elements."""

    __slots__ = ("_body", "_open", "_recovered", "_root", "_size", "_syntax")

    def __init__(self, syntax: ElementCalls, body: ElementBody, key: str) -> None:
        self._syntax = syntax
        self._body = body
        self._root = Element(key)
        self._open = [self._root]
        self._size = 0
        self._recovered = False

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        markers = _marker(self._syntax)
        found = markers.find(cursor.text, cursor.at)
        end = found.start if found else markers.held_from(cursor.text, cursor.at)
        if end > cursor.at:
            self._text(cursor, end)
        if self._size > HELD_LIMIT:
            out.anomaly("held_value_too_long")
            return self._body.unreadable()
        if found is None:
            return None
        tag = _TAG.match(cursor.text, found.end)
        if tag is None:
            return self._no_tag(cursor, found)
        if cursor.peek(found.start, self._syntax.ends) is not Peek.ABSENT and not self._is_open(tag[2]):
            return self._end(recovered=True)
        if not tag[1] and len(self._open) < MAX_DEPTH:
            element = Element(tag[2])
            self._open[-1].children.append(element)
            self._open.append(element)
        elif tag[1] and self._is_open(tag[2]):
            while self._open.pop().name != tag[2]:
                self._recovered = True
        else:
            self._text(cursor, tag.end())
        cursor.at = tag.end()
        return self if self._open else self._end(recovered=self._recovered)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return self._body.finish(cursor, out)

    def _is_open(self, name: str) -> bool:
        return any(element.name == name for element in self._open)

    def _no_tag(self, cursor: Cursor, found: Found) -> State | None:
        """The marker, and no tag behind it, as far as it is there."""
        rest = cursor.text[found.end : found.end + 2 * NAME_SLACK]
        begun = rest[:1] in ("", "<") and "<" not in rest[1:] and ">" not in rest
        if begun and len(rest) < 2 * NAME_SLACK and cursor.finish is None:
            return None
        self._text(cursor, found.end)
        return self

    def _text(self, cursor: Cursor, end: int) -> None:
        self._open[-1].parts.append(cursor.text[cursor.at : end])
        self._size += end - cursor.at
        cursor.at = end

    def _end(self, *, recovered: bool) -> State:
        self._body.hold(self._root, recovered=recovered)
        return self._body


@lru_cache(maxsize=16)
def _marker(syntax: ElementCalls) -> MarkerSet:
    return MarkerSet((syntax.marker,))
