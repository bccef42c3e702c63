"""Calls written as Python calls with keyword arguments, in a list or one a line, with or without markers around.

::

    [NAME(KEY=VALUE, ...), NAME(...)]        wrapper_open ... wrapper_close

Without a marker a list counts only at the start of a line, and only for declared tools: brackets are common in prose.
"""

import re

import msgspec

from antiphon_parsers.engine.call_tag import CallTag, Head
from antiphon_parsers.engine.cursor import SPACE_LIMIT, Cursor, Found, Peek
from antiphon_parsers.engine.cut import cut_attempt
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.engine.noted_body import Notation, NotedBody
from antiphon_parsers.engine.noted_calls import CALLEE
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import NAME_SLACK, ToolTable
from antiphon_turns import SegmentStatus

_KEYWORD = re.compile(r"\s{0,8}(?:\)|[^\W\d]\w{0,99}\s{0,8}=)")
_KEYWORD_BEGUN = re.compile(r"\s{0,8}(?:[^\W\d]\w{0,99}\s{0,8})?")


class ListedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The markers around calls. `bare`: a list without markers is one too. `json`: calls that the model may write instead,
    as JSON objects at the start of the turn or, if it has the same opener, between the markers."""

    wrapper_open: str
    wrapper_close: str
    bare: bool
    json: JsonCalls | None = None
    notation: Notation = Notation(close=")", assign="=", quote="", words=False, end="]")
    line_start_in_reasoning: bool = True

    @property
    def openers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.wrapper_open, *(("[",) if self.bare else ()), *(self.json.openers if self.json else ()))))

    @property
    def closers(self) -> tuple[str, ...]:
        return (self.wrapper_close,)

    def attempt(self, mention: Mention) -> State:
        if self.json is not None and mention.marker in self.json.openers:
            if mention.marker == self.wrapper_open:
                return ListedOpener(self, mention)
            if mention.line_start:
                return self.json.attempt(mention)
        return CallTag(self, mention, only_known=mention.only_known or mention.marker != self.wrapper_open)

    def head(self, cursor: Cursor, mention: Mention, *, only_known: bool) -> Head | None:
        wrapped = mention.marker == self.wrapper_open
        if not wrapped and not mention.line_start:
            return None
        bracket = cursor.peek(cursor.at + mention.size, ("[",) if wrapped else ("",))
        if bracket is Peek.PENDING or bracket is Peek.END:
            return Head(plausible=False)
        start = bracket.end if isinstance(bracket, Found) else cursor.at + mention.size
        return self._callee(cursor, mention.tools, _behind_space(cursor.text, start), only_known=only_known)

    def begin(self, out: Emitter, prose: Prose, name: str, *, is_json: bool) -> State:
        out.open("tool_call", name)
        out.delta("{")
        return NotedBody(self.notation, prose, prose.tools.parameters(name), openers=self.openers, syntax=self)

    def chained(self, prose: Prose, marker: str) -> State:
        return CallTag(self, Mention(prose, marker, 0, line_start=True), only_known=False)

    def behind_arguments(self, prose: Prose, status: SegmentStatus) -> State:
        return ListedEnd(self, prose, status)

    def _callee(self, cursor: Cursor, tools: ToolTable, start: int, *, only_known: bool) -> Head | None:
        """The name, the bracket, and the first keyword or the closing bracket."""
        found = CALLEE.match(cursor.text, start)
        end = found.end() if found else start
        name = cursor.text[start:end]
        if end == len(cursor.text):
            growing = tools.knows_prefix(name) if only_known else len(name) <= tools.longest + NAME_SLACK
            return Head() if growing else None
        if cursor.text[end] != "(" or not tools.accepts(name, only_known=only_known):
            return None
        if _KEYWORD.match(cursor.text, end + 1):
            return Head(name, end + 1)
        begun = _KEYWORD_BEGUN.match(cursor.text, end + 1)
        return Head() if begun and begun.end() == len(cursor.text) else None


class ListedOpener(State):
    """Behind an opener of calls in either notation: the first element of the list tells which."""

    __slots__ = ("_mention", "_syntax")

    def __init__(self, syntax: ListedCalls, mention: Mention) -> None:
        self._syntax = syntax
        self._mention = mention

    @property
    def in_reasoning(self) -> bool:
        return self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        syntax, mention = self._syntax, self._mention
        bracket = cursor.peek(cursor.at + mention.size, ("[",))
        brace = cursor.peek(bracket.end, ("{",)) if isinstance(bracket, Found) else bracket
        if brace is Peek.PENDING:
            return None
        if isinstance(brace, Found) and isinstance(bracket, Found) and syntax.json is not None:
            return syntax.json.attempt(mention)
        return CallTag(syntax, mention, only_known=mention.only_known)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_attempt(self._mention, None, cursor, out)


class ListedEnd(State):
    """Behind a call: it leaves, then another one follows, or the end of the list and its marker."""

    __slots__ = ("_listed", "_prose", "_status", "_syntax")

    def __init__(self, syntax: ListedCalls, prose: Prose, status: SegmentStatus) -> None:
        self._syntax = syntax
        self._prose = prose
        self._status: SegmentStatus | None = status
        self._listed = False

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        if self._status is not None:
            out.close_call("}", self._status, cursor.offset())
            self._status = None
        found = cursor.peek(cursor.at, self._syntax.closers if self._listed else (",", "]", *self._syntax.closers))
        if found is Peek.PENDING:
            return None
        prose = self._prose.after_call()
        if not isinstance(found, Found):
            following = _behind_space(cursor.text, cursor.at)
            if not self._syntax.bare and not self._listed and CALLEE.match(cursor.text, following):
                return self._syntax.chained(prose, "")
            return prose
        if found.literal == ",":
            cursor.at = found.start
            return self._syntax.chained(prose, found.literal)
        cursor.at = found.end
        if found.literal == "]":
            self._listed = True
            return self
        return prose

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False


def _behind_space(text: str, at: int) -> int:
    """Where the next word begins, behind at most SPACE_LIMIT characters of white space."""
    stop = min(len(text), at + SPACE_LIMIT)
    while at < stop and text[at].isspace():
        at += 1
    return at
