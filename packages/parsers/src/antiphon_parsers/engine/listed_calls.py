"""Calls written as Python calls with keyword arguments, in a list or one a line, with or without markers around.

::

    [NAME(KEY=VALUE, ...), NAME(...)]        wrapper_open ... wrapper_close

Without a marker a list counts only at the start of a line, and only for declared tools: brackets are common in prose.
"""

import re

import msgspec

from antiphon_parsers.engine.cursor import SPACE_LIMIT, Cursor, Found, Peek
from antiphon_parsers.engine.cut import cut_attempt
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.engine.noted_body import Notation, NotedBody
from antiphon_parsers.engine.noted_calls import CALLEE
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import NAME_SLACK
from antiphon_turns import SegmentStatus

_KEYWORD = re.compile(r"\s{0,8}(?:\)|[^\W\d]\w{0,99}\s{0,8}=)")
_KEYWORD_BEGUN = re.compile(r"\s{0,8}(?:[^\W\d]\w{0,99}\s{0,8})?")
_NOTATION = Notation(close=")", assign="=", quote="", words=False, end="]")
_LOOSE = Notation(close=")", assign="=", quote="", words=False, end="]", loose=True)


class ListedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The markers around calls. `bare`: a list without markers is one too. `json`: calls that the model may write instead,
    as JSON objects at the start of the turn or, if it has the same opener, between the markers. `loose`: quotes
    inside strings need not be escaped."""

    wrapper_open: str
    wrapper_close: str
    bare: bool
    json: JsonCalls | None = None
    loose: bool = False
    line_start_in_reasoning: bool = True

    @property
    def openers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.wrapper_open, *(("[",) if self.bare else ()), *(self.json.openers if self.json else ()))))

    @property
    def closers(self) -> tuple[str, ...]:
        return (self.wrapper_close,)

    def attempt(self, mention: Mention) -> State:
        bare = mention.marker != self.wrapper_open
        return ListedHeader(self, mention, only_known=bare or mention.only_known, line_start=bare)


class ListedHeader:
    """Calls may begin here, or the next of them."""

    def __init__(self, syntax: ListedCalls, mention: Mention, *, only_known: bool, line_start: bool) -> None:
        self._syntax = syntax
        self._mention = mention
        self._only_known = only_known
        self._line_start = line_start
        self._name: str | None = None

    @property
    def in_reasoning(self) -> bool:
        return self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        mention = self._mention
        if self._line_start and not mention.line_start:
            return self._mention.decline(cursor, out)
        json = self._syntax.json
        if json is not None and mention.marker in json.openers and mention.marker != self._syntax.wrapper_open:
            return json.attempt(mention)
        bracket = cursor.peek(cursor.at + mention.size, ("[",) if mention.marker == self._syntax.wrapper_open else ("",))
        if bracket is Peek.PENDING:
            return None
        if bracket is Peek.END:
            return self._mention.decline(cursor, out) if mention.is_named_only(cursor) else None
        start = bracket.end if isinstance(bracket, Found) else cursor.at + mention.size
        if json is not None and mention.marker in json.openers:
            brace = cursor.peek(start, ("{",))
            if brace is Peek.PENDING:
                return None
            if isinstance(brace, Found):
                return json.attempt(mention)
        return self._callee(cursor, out, _behind_space(cursor.text, start))

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_attempt(self._mention, self._name, cursor, out)

    def _callee(self, cursor: Cursor, out: Emitter, start: int) -> State | None:
        mention = self._mention
        tools = mention.tools
        found = CALLEE.match(cursor.text, start)
        end = found.end() if found else start
        name = cursor.text[start:end]
        if end == len(cursor.text):
            growing = tools.knows_prefix(name) if self._only_known else len(name) <= tools.longest + NAME_SLACK
            return None if growing else self._mention.decline(cursor, out)
        if cursor.text[end] != "(" or not tools.accepts(name, only_known=self._only_known):
            return self._mention.decline(cursor, out)
        if not _KEYWORD.match(cursor.text, end + 1):
            begun = _KEYWORD_BEGUN.match(cursor.text, end + 1)
            return None if begun and begun.end() == len(cursor.text) else self._mention.decline(cursor, out)
        self._name = name
        prose = mention.prose
        prose.leave(out, cursor.offset(cursor.at + mention.lead))
        cursor.at = end + 1
        out.open("tool_call", name)
        out.delta("{")
        return NotedBody(
            _LOOSE if self._syntax.loose else _NOTATION, prose, tools.parameters(name), openers=self._syntax.openers, after=self._after
        )

    def _after(self, status: SegmentStatus) -> State:
        return ListedEnd(self._syntax, self._mention.prose, status)


class ListedEnd:
    """Behind a call: it leaves, then another one follows, or the end of the list and its marker."""

    in_reasoning = False

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
                return ListedHeader(self._syntax, Mention(prose, "", 0, line_start=True), only_known=False, line_start=False)
            return prose
        if found.literal == ",":
            cursor.at = found.start
            return ListedHeader(self._syntax, Mention(prose, ",", 0, line_start=True), only_known=False, line_start=False)
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
