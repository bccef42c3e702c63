"""Calls as a name and pairs of key and value tags: `call_open NAME [separator] (key_open K key_close value_open V value_close)*
call_close`, alone or in a block."""

import msgspec

from antiphon_parsers.engine.call_tag import CallTag, Head
from antiphon_parsers.engine.cursor import Cursor, Found, Peek
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tag_calls import ParameterHead, Spellings, begin_call, chained_call, read_head
from antiphon_parsers.engine.tools import NAME_SLACK, Parameters, ToolTable, name_end


class PairCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a format. In a format with blocks a call outside one begins only for a known tool. `strays` end a turn and
    are dropped from text."""

    call_open: Spellings
    call_close: Spellings
    parameter_open: Spellings
    key_close: Spellings
    value_open: Spellings
    parameter_close: Spellings
    block_open: Spellings = ()
    block_close: Spellings = ()
    separator: Spellings = ()
    strays: Spellings = ()
    line_start_in_reasoning: bool = True
    json_bodies: bool = False
    shares_end: bool = False
    wrappers: Spellings = ()

    @property
    def openers(self) -> Spellings:
        return self.block_open + self.call_open

    @property
    def closers(self) -> Spellings:
        return self.call_close + self.block_close + self.strays

    def attempt(self, mention: Mention) -> State:
        bare = bool(self.block_open) and mention.marker in self.call_open
        return CallTag(self, mention, only_known=mention.only_known or bare)

    def head(self, cursor: Cursor, mention: Mention, *, only_known: bool) -> Head | None:
        return read_head(self, cursor, mention, only_known=only_known)

    def begin(self, out: Emitter, prose: Prose, name: str, *, is_json: bool) -> State:
        return begin_call(self, out, prose, name)

    def chained(self, prose: Prose, marker: str) -> State:
        return chained_call(self, prose, marker)

    def call_head(self, cursor: Cursor, at: int, tools: ToolTable, *, only_known: bool) -> Head | None:
        """The name is all text up to the next tag. One that is not declared has no white space in it and stands right
        behind the tag or on the next line, which tells it from prose."""
        text = cursor.text
        bound = tools.longest + NAME_SLACK
        found = text.find("<", at, at + bound)
        end = found if found >= 0 else len(text)
        name = text[at:end].strip()
        declared = tools.knows(name) if found >= 0 else tools.knows_prefix(name)
        if not declared and (only_known or not _is_plain(text[at:end])):
            return None
        if found < 0:
            return Head(plausible=name != "") if end - at < bound else None
        if not tools.accepts(name, only_known=only_known):
            return None
        body = cursor.peek(found, self.separator + self.parameter_open + self.call_close)
        if body is Peek.ABSENT:
            return None
        if not isinstance(body, Found):
            return Head(name)
        return Head(name, body.end if body.literal in self.separator else body.start)

    def parameter(self, cursor: Cursor, at: int, parameters: Parameters) -> ParameterHead | None:
        text = cursor.text
        bound = at + parameters.longest + NAME_SLACK
        ends = [(end, literal) for literal in self.key_close if (end := text.find(literal, at, bound + len(literal))) >= 0]
        if not ends:
            if len(text) <= bound + max(map(len, self.key_close)):
                return None
            return ParameterHead(None, at)
        end, literal = min(ends)
        key = text[at:end].strip()
        value = cursor.peek(end + len(literal), self.value_open)
        if value is Peek.PENDING or value is Peek.END:
            return None
        if value is Peek.ABSENT:
            return ParameterHead(None, end + len(literal), valueless=True)
        return ParameterHead(key or None, value.end)


def _is_plain(text: str) -> bool:
    """Whether this is a name as models write them, or the beginning of one, with at most line feeds before it and white
    space behind it."""
    start = len(text) - len(text.lstrip("\r\n"))
    return not text[name_end(text, start) :].strip() and (start == len(text) or not text[start].isspace())
