"""Calls whose name stands in a header before the arguments.

::

    [section]  ( opener HEADER OBJECT [fence] [closer] )+  [section end]

The header ends where the JSON object begins; a pattern says what a header is and where its name stands. The closing
marker is looked for only behind the object, because a string may contain it.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec

from antiphon_parsers.engine.closing import Unreadable
from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek
from antiphon_parsers.engine.cut import cut_attempt, cut_call
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.engine.json_members import ArgumentObject, ArgumentString
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import NAME_SLACK, ToolTable
from antiphon_turns import SegmentStatus


def plain_name(text: str, tools: ToolTable) -> str:
    """The header holds the name itself."""
    return text


class NamedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The markers of a format.

    `header` is a pattern with the groups `name` and, where only a declared tool makes it a call, `known`; `growing` matches
    every beginning of one. `read_name` makes the tool's name of what stands there. `separators` are the markers inside
    headers, `strays` those that mean nothing in text. The closer is "" where the object ends the call; `fence` may stand
    before it. A body that begins with a bracket is read as `listed`.
    """

    opener: str
    header: str
    growing: str
    closer: str = ""
    sections: tuple[str, ...] = ()
    section_ends: tuple[str, ...] = ()
    separators: tuple[str, ...] = ()
    fence: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    read_name: Callable[[str, ToolTable], str] = plain_name
    listed: JsonCalls | None = None
    line_start_in_reasoning: bool = False

    @property
    def openers(self) -> tuple[str, ...]:
        return (*self.sections, self.opener)

    @property
    def closers(self) -> tuple[str, ...]:
        calls = (self.closer,) if self.closer else ()
        lists = (self.listed.closer,) if self.listed is not None and self.listed.closer else ()
        return (*calls, *self.section_ends, *self.strays, *lists)

    def attempt(self, mention: Mention) -> State:
        return Header(self, mention)

    def behind_call(self, prose: Prose) -> State:
        return Between(self, prose)


@lru_cache(maxsize=64)
def header_ends(syntax: NamedCalls) -> MarkerSet:
    """What a header ends at: the arguments, or a marker that cannot stand in it."""
    ends = (*syntax.openers, *syntax.section_ends, *((syntax.closer,) if syntax.closer else ()))
    return MarkerSet(["{", '"{', *ends])


class Header(State):
    """An opener was seen. It begins a call when a whole header with a name follows, and arguments behind that."""

    __slots__ = ("_growing", "_limit", "_mention", "_pattern", "_syntax")
    derived = ("_growing", "_limit", "_pattern")

    def __init__(self, syntax: NamedCalls, mention: Mention) -> None:
        self._syntax = syntax
        self._mention = mention
        self.derive()

    def derive(self) -> None:
        syntax = self._syntax
        self._pattern = re.compile(syntax.header)
        self._growing = re.compile(syntax.growing)
        self._limit = self._mention.tools.longest + NAME_SLACK + sum(map(len, syntax.separators))

    @property
    def in_reasoning(self) -> bool:
        return self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        start = cursor.at + self._mention.size
        if self._mention.marker in self._syntax.sections:
            found = cursor.peek(start, (*self._syntax.openers, *self._syntax.section_ends))
            if isinstance(found, Found) and found.literal in self._syntax.section_ends:
                cursor.at = found.end  # nothing in it
                return self._mention.prose
            if isinstance(found, Found) and found.literal != self._syntax.opener:
                return self._mention.drop(cursor, out)
            if not isinstance(found, Found):
                return self._undecided(cursor, out) if found is not Peek.ABSENT else self._mention.refuse(cursor, out)
            start = found.end
        if self._syntax.listed is not None:
            listed = cursor.peek(start, ("[",))
            if not isinstance(listed, Found) and listed is not Peek.ABSENT:
                return self._undecided(cursor, out)
            if isinstance(listed, Found):
                return self._syntax.listed.attempt(self._mention)
        return self._read(cursor, out, start)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        text = cursor.text[cursor.at + self._mention.size :]
        opener = text.find(self._syntax.opener)
        header = text[opener + len(self._syntax.opener) :] if opener >= 0 else text
        name = self._name_in(header) if self._has_separator(header) else None
        # A declared name that something stands behind is whole; any other may be the beginning of one, or another word.
        ended = header.endswith(self._syntax.separators) or self._name_in(header[:-1]) == name
        is_whole = ended and name is not None and self._mention.tools.knows(name)
        return cut_attempt(self._mention, name if is_whole else None, cursor, out)

    def _undecided(self, cursor: Cursor, out: Emitter) -> State | None:
        """No whole header stands behind the marker yet. At the end of the turn, a sentence may only have named it."""
        return self._mention.refuse(cursor, out) if self._mention.is_named_only(cursor) else None

    def _read(self, cursor: Cursor, out: Emitter, start: int) -> State | None:
        ends = header_ends(self._syntax)
        end = ends.find(cursor.text, start)
        stop = end.start if end else ends.held_from(cursor.text, start)
        text = cursor.text[start:stop]
        if len(text) > self._limit or self._growing.fullmatch(text) is None:
            return self._mention.refuse(cursor, out)
        if end is None:
            return self._undecided(cursor, out) if not self._has_separator(text) else None
        if end.literal == self._syntax.opener and not text.strip() and self._mention.line_start:
            cursor.at = end.start
            out.anomaly("stray_marker", end.literal)
            return Header(self._syntax, Mention(self._mention.prose, end.literal, 0, line_start=True))
        name = self._name_in(text)
        begins = end.literal in ("{", '"{') or end.literal == self._syntax.closer
        if name is None or not begins:
            # Behind a section's marker the opener is looked at once more, by itself.
            whole = self._mention.marker == self._syntax.opener and self._has_separator(text)
            return self._mention.refuse(cursor, out, header=stop - start if whole else 0)
        self._mention.prose.leave(out, cursor.offset(cursor.at + self._mention.lead))
        out.open("tool_call", name)
        cursor.at = end.start
        if end.literal == self._syntax.closer:
            return AfterArguments(self._syntax, self._mention.prose, "{}", "complete")
        return Body(self._syntax, self._mention.prose, ArgumentObject() if end.literal == "{" else ArgumentString())

    def _has_separator(self, text: str) -> bool:
        return any(marker in text for marker in self._syntax.separators)

    def _name_in(self, header: str) -> str | None:
        """The tool's name in a header, when it may be one."""
        found = self._pattern.fullmatch(header)
        if found is None:
            return None
        groups = found.groupdict()
        known = groups.get("known")
        name = self._syntax.read_name(known or groups["name"], self._mention.tools)
        only_known = self._mention.only_known or known is not None
        return name if self._mention.tools.accepts(name, only_known=only_known) else None


class Body(State):
    """The argument object of a call that has begun."""

    __slots__ = ("_arguments", "_prose", "_syntax")

    def __init__(self, syntax: NamedCalls, prose: Prose, arguments: ArgumentObject | ArgumentString) -> None:
        self._syntax = syntax
        self._prose = prose
        self._arguments = arguments

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        arguments = self._arguments
        cursor.at += arguments.feed(cursor.text, cursor.at)
        out.delta(arguments.take())
        if arguments.done:
            return AfterArguments(self._syntax, self._prose, arguments.tail, "recovered" if arguments.repaired else "complete")
        return self._repair(cursor, out) if arguments.failed else None

    def plain(self, text: str, out: Emitter) -> str | None:
        return self._arguments.plain(text) if isinstance(self._arguments, ArgumentObject) else None

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_call(cursor, out)

    def _repair(self, cursor: Cursor, out: Emitter) -> State | None:
        """The object cannot go on. When the call's closing marker stands here, only braces may be missing."""
        closer = self._syntax.closer
        found = cursor.peek(cursor.at, (*self._syntax.fence, closer)) if closer else Peek.ABSENT
        if found in (Peek.PENDING, Peek.END):
            return None
        if isinstance(found, Found) and self._arguments.close_braces():
            out.delta(self._arguments.take())
            return AfterArguments(self._syntax, self._prose, self._arguments.tail, "recovered")
        closers = (closer, *self._syntax.section_ends) if closer else ()
        return Unreadable(self._prose, closers=closers, openers=self._syntax.openers, then=self._syntax)


class AfterArguments(State):
    """Behind the arguments: the call leaves at its closing marker, or as soon as that cannot come any more."""

    __slots__ = ("_prose", "_status", "_syntax", "_tail")

    def __init__(self, syntax: NamedCalls, prose: Prose, tail: str, status: SegmentStatus) -> None:
        self._syntax = syntax
        self._prose = prose
        self._tail = tail
        self._status = status

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        syntax = self._syntax
        found = cursor.peek(cursor.at, (syntax.closer, *syntax.fence), ignoring="}]") if syntax.closer else Peek.ABSENT
        if found is Peek.PENDING:
            return None
        if isinstance(found, Found):
            surplus = cursor.text[cursor.at : found.start].strip()
            if surplus:
                out.anomaly("surplus_braces", surplus)
            cursor.at = found.end
            if found.literal != syntax.closer:
                return self
        elif found is Peek.END:  # at most the beginning of the marker
            cursor.at = len(cursor.text)
        out.close_call(self._tail, self._status, cursor.offset())
        return Between(syntax, self._prose.after_call())

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False


class Between(State):
    """Behind a call: another one, the end of the section, or text."""

    __slots__ = ("_prose", "_syntax")

    def __init__(self, syntax: NamedCalls, prose: Prose) -> None:
        self._syntax = syntax
        self._prose = prose

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        found = cursor.peek(cursor.at, (self._syntax.opener, *self._syntax.section_ends)) if self._syntax.sections else Peek.ABSENT
        if found is Peek.PENDING:
            return None
        if isinstance(found, Found) and found.literal == self._syntax.opener:
            cursor.at = found.start
            return Header(self._syntax, Mention(self._prose, found.literal, 0, line_start=True))
        if isinstance(found, Found):
            cursor.at = found.end
        elif found is Peek.END:  # at most the beginning of a marker
            cursor.at = len(cursor.text)
        return self._prose

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False
