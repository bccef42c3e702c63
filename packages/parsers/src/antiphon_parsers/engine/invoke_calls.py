"""Calls as tags with attributes: `call_open "NAME">  (parameter_open "KEY" [string="true|false"]> VALUE parameter_close)*
call_close`, several in one block. Quotes may be double, single or absent."""

import re

import msgspec

from antiphon_parsers.engine.call_tag import CallTag, Head
from antiphon_parsers.engine.cursor import Cursor, Found, Peek
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tag_calls import ParameterHead, Spellings, begin_call, chained_call, read_head
from antiphon_parsers.engine.tools import NAME_SLACK, Parameters, ToolTable
from antiphon_parsers.engine.xml_values import ValueForm

ATTRIBUTE_SLACK = 24
"""Characters of a tag beside its name: quotes, spaces and the string attribute (I7)."""

_QUOTED = r"""(?:"([^"<>\n]*)"|'([^'<>\n]*)'|([^\s"'<>]+))"""
_NAME = re.compile(rf"[ \t]*{_QUOTED}[ \t]*")
_KEY = re.compile(rf"[ \t]*{_QUOTED}(?:[ \t]+string[ \t]*=[ \t]*[\"']?(true|false)[\"']?)?[ \t]*")
_STOP = re.compile(r"[<>\n]")


class InvokeCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of a format. `typed`: parameters say whether they are strings, as JSON types do not follow from the
    schema. In a format with blocks a call outside one begins only for a known tool. `wrappers`: keys that
    models put round all arguments."""

    block_open: Spellings
    block_close: Spellings
    call_open: Spellings
    call_close: Spellings
    parameter_open: Spellings
    parameter_close: Spellings
    typed: bool = False
    json_bodies: bool = False
    shares_end: bool = False
    wrappers: Spellings = ()
    line_start_in_reasoning: bool = True

    @property
    def openers(self) -> Spellings:
        return self.block_open + self.call_open

    @property
    def closers(self) -> Spellings:
        return self.block_close

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
        text = cursor.text
        bound = tools.longest + NAME_SLACK + ATTRIBUTE_SLACK
        stop = _STOP.search(text, at, at + bound)
        if stop is None:
            begun = text[at:].lstrip(" \t\"'")
            return Head(plausible=begun != "" and tools.knows_prefix(begun)) if len(text) - at < bound else None
        found = _NAME.fullmatch(text, at, stop.start())
        name = _first(found) if found and stop[0] == ">" else ""
        if not name or not tools.accepts(name, only_known=only_known):
            return None
        begins = self.parameter_open + self.call_close + self.block_close + (("{",) if self.json_bodies else ())
        body = cursor.peek(stop.end(), begins)
        if body is Peek.ABSENT:
            return None
        return Head(name, stop.end() if isinstance(body, Found) else None)

    def parameter(self, cursor: Cursor, at: int, parameters: Parameters) -> ParameterHead | None:
        text = cursor.text
        bound = parameters.longest + NAME_SLACK + ATTRIBUTE_SLACK
        stop = _STOP.search(text, at, at + bound)
        if stop is None and len(text) - at < bound:
            return None
        found = _KEY.fullmatch(text, at, stop.start()) if stop and stop[0] == ">" else None
        key = _first(found) if found else ""
        if not key or found is None or stop is None:
            return ParameterHead(None, at)
        return ParameterHead(key, stop.end(), self._form(found[4], key, parameters))

    def _form(self, string: str | None, key: str, parameters: Parameters) -> ValueForm:
        if not self.typed or (string is None and parameters.types(key)):
            return "schema"
        return "string" if string == "true" else "json"


def _first(found: re.Match[str]) -> str:
    """The value of a name attribute in whichever quotes it stands."""
    return next((group for group in found.groups()[:3] if group), "")
