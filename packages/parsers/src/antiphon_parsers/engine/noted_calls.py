"""Calls written as a block of one call each: a word, the tool's name, its arguments in a notation near JSON."""

import re

import msgspec

from antiphon_parsers.engine.closing import AfterBody
from antiphon_parsers.engine.cursor import Cursor, Found, Peek
from antiphon_parsers.engine.cut import cut_attempt
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.noted_body import Notation, NotedBody
from antiphon_parsers.engine.prose import Mention
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import NAME_SLACK
from antiphon_turns import SegmentStatus

CALLEE = re.compile(r"""[^\s<>"'={}()\[\]:,\ud800-\udfff]+""")


class NotedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """opener prefix NAME open ARGUMENTS close closer."""

    opener: str
    prefix: str
    open: str
    notation: Notation
    line_start_in_reasoning: bool = False

    @property
    def openers(self) -> tuple[str, ...]:
        return (self.opener,)

    @property
    def closers(self) -> tuple[str, ...]:
        return (self.notation.end,)

    def attempt(self, mention: Mention) -> State:
        return NotedHeader(self, mention)


class NotedHeader:
    """An opener was seen. It begins a call when prefix, name and opening bracket follow."""

    def __init__(self, syntax: NotedCalls, mention: Mention) -> None:
        self._syntax = syntax
        self._mention = mention
        self._name: str | None = None

    @property
    def in_reasoning(self) -> bool:
        return self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        syntax, mention = self._syntax, self._mention
        start = cursor.at + mention.size
        prefix = cursor.peek(start, (syntax.prefix,))
        if not isinstance(prefix, Found):
            return self._mention.decline(cursor, out) if prefix is Peek.ABSENT or mention.is_named_only(cursor) else None
        found = CALLEE.match(cursor.text, prefix.end)
        end = found.end() if found else prefix.end
        if end == len(cursor.text):
            return None if end - prefix.end <= mention.tools.longest + NAME_SLACK else self._mention.decline(cursor, out)
        name = cursor.text[prefix.end : end]
        if not mention.tools.accepts(name, only_known=mention.only_known):
            return self._mention.decline(cursor, out)
        self._name = name
        bracket = cursor.peek(end, (syntax.open,))
        if not isinstance(bracket, Found):
            return self._mention.decline(cursor, out) if bracket is Peek.ABSENT else None
        prose = mention.prose
        prose.leave(out, cursor.offset(cursor.at + mention.lead))
        cursor.at = bracket.end
        out.open("tool_call", name)
        out.delta("{")
        parameters = mention.tools.parameters(name)
        return NotedBody(syntax.notation, prose, parameters, openers=syntax.openers, after=self._after)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_attempt(self._mention, self._name, cursor, out)

    def _after(self, status: SegmentStatus) -> State:
        return AfterBody(self._mention.prose, closer=self._syntax.notation.end, tail="}", status=status, surplus="}])")
