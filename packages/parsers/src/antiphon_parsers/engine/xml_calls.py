"""Calls as tags that hold a name or a key: `block_open call_open NAME> (parameter_open KEY> VALUE parameter_close)* call_close
block_close`. A block holds one call, sometimes several."""

import msgspec

from antiphon_parsers.engine.call_tag import CallTag, Head
from antiphon_parsers.engine.cursor import Cursor, Found, Peek
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tag_calls import NO_LEADS, ParameterHead, Spellings, begin_call, chained_call, read_head
from antiphon_parsers.engine.tools import NAME_SLACK, Parameters, ToolTable, name_end

_INLINE: Spellings = ("", "\n")


class XmlCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a format. A call outside a block begins only for a known tool. `framed_values`: one line feed on either side
    of a value is framing."""

    block_open: Spellings
    block_close: Spellings
    call_open: Spellings
    call_close: Spellings
    parameter_open: Spellings
    parameter_close: Spellings
    framed_values: bool = True
    shares_end: bool = True
    json_bodies: bool = False
    wrappers: Spellings = ()
    line_start_in_reasoning: bool = True

    @property
    def openers(self) -> Spellings:
        return self.block_open + self.call_open

    @property
    def closers(self) -> Spellings:
        return self.block_close

    def attempt(self, mention: Mention) -> State:
        return CallTag(self, mention, only_known=mention.only_known or mention.marker in self.call_open)

    def head(self, cursor: Cursor, mention: Mention, *, only_known: bool) -> Head | None:
        return read_head(self, cursor, mention, only_known=only_known)

    def begin(self, out: Emitter, prose: Prose, name: str, *, is_json: bool) -> State:
        return begin_call(self, out, prose, name)

    def chained(self, prose: Prose, marker: str) -> State:
        return chained_call(self, prose, marker)

    def call_head(self, cursor: Cursor, at: int, tools: ToolTable, *, only_known: bool) -> Head | None:
        end = name_end(cursor.text, at)
        name = cursor.text[at:end]
        if end == len(cursor.text):
            growing = tools.knows_prefix(name) if only_known else len(name) <= tools.longest + NAME_SLACK
            return Head() if growing else None
        if cursor.text[end] != ">" or not tools.accepts(name, only_known=only_known):
            return None
        body = cursor.peek(end + 1, self.parameter_open + self.call_close + self.block_close)
        if body is Peek.ABSENT:
            return None
        return Head(name, end + 1 if isinstance(body, Found) else None)

    def parameter(self, cursor: Cursor, at: int, parameters: Parameters) -> ParameterHead | None:
        text = cursor.text
        end = parameters.key_end(text, at)
        key = text[at:end]
        bound = parameters.longest + NAME_SLACK
        if end == len(text) and len(key) <= bound:
            return None
        leads = _INLINE if self.framed_values else NO_LEADS
        if end == len(text) or text[end] != ">" or not key or len(key) > bound:
            return ParameterHead(None, at, leads=leads)
        lead = text[end + 1 : end + 3]
        if not self.framed_values:
            return ParameterHead(key, end + 1)
        if lead in ("", "\r") and cursor.finish is None:
            return None
        framing = next((feed for feed in ("\r\n", "\n") if lead.startswith(feed)), "")
        return ParameterHead(key, end + 1 + len(framing), leads=(*leads, framing), framed=framing != "")
