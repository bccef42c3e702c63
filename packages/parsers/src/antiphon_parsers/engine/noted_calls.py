"""Calls written as a block of one call each: a word, the tool's name, its arguments in a notation near JSON."""

import re

import msgspec

from antiphon_parsers.engine.call_tag import CallTag, Head
from antiphon_parsers.engine.closing import AfterBody
from antiphon_parsers.engine.cursor import Cursor, Found, Peek
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.noted_body import Notation, NotedBody
from antiphon_parsers.engine.prose import Mention, Prose
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
        return CallTag(self, mention, only_known=mention.only_known)

    def head(self, cursor: Cursor, mention: Mention, *, only_known: bool) -> Head | None:
        prefix = cursor.peek(cursor.at + mention.size, (self.prefix,))
        if not isinstance(prefix, Found):
            return None if prefix is Peek.ABSENT else Head(plausible=False)
        found = CALLEE.match(cursor.text, prefix.end)
        end = found.end() if found else prefix.end
        if end == len(cursor.text):
            return Head() if end - prefix.end <= mention.tools.longest + NAME_SLACK else None
        name = cursor.text[prefix.end : end]
        if not mention.tools.accepts(name, only_known=only_known):
            return None
        bracket = cursor.peek(end, (self.open,))
        if bracket is Peek.ABSENT:
            return None
        return Head(name, bracket.end if isinstance(bracket, Found) else None)

    def begin(self, out: Emitter, prose: Prose, name: str, *, is_json: bool) -> State:
        out.open("tool_call", name)
        out.delta("{")
        return NotedBody(self.notation, prose, prose.tools.parameters(name), openers=self.openers, syntax=self)

    def behind_arguments(self, prose: Prose, status: SegmentStatus) -> State:
        return AfterBody(prose, closer=self.notation.end, tail="}", status=status, surplus="}])")
