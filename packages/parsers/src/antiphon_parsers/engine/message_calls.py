"""Turns written as messages: a header of control tokens says what the message is, its body follows, an end marker closes.

::

    start ROLE  channel CHANNEL  to=RECIPIENT  constrain TYPE  body  TEXT  end

A message to a recipient is a call whatever its channel; the recipient may stand anywhere in the header. Reasoning and text are
told apart by the channel. What the prompt has written of the header may be missing: a turn may begin with the recipient.
"""

import re
from functools import lru_cache

import msgspec

from antiphon_parsers.engine.cursor import Cursor, MarkerSet
from antiphon_parsers.engine.cut import cut_attempt
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.json_body import JsonBody
from antiphon_parsers.engine.json_calls import PassedOver
from antiphon_parsers.engine.prose import Mention
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import NAME_SLACK

_HEADER_SLACK = 128
"""Characters of a header beside the recipient's name (I7)."""

_RECIPIENT = re.compile(r"(?<!\S)to=([^\s<]+)")


class MessageCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The control tokens of a header, the end markers (that of a call first), and what its words mean."""

    start: str
    channel: str
    constrain: str
    body: str
    ends: tuple[str, ...]
    reasoning_channels: tuple[str, ...]
    recipient_prefix: str
    no_recipients: tuple[str, ...]
    line_start_in_reasoning: bool = False

    @property
    def tokens(self) -> tuple[str, ...]:
        """The control tokens."""
        return (*self.header_tokens, *self.ends)

    @property
    def header_tokens(self) -> tuple[str, ...]:
        """Those of a header."""
        return (self.start, self.channel, self.constrain, self.body)

    @property
    def addressed(self) -> str:
        """What a header begins with whose start and role the prompt has written."""
        return f" to={self.recipient_prefix}"

    @property
    def openers(self) -> tuple[str, ...]:
        return (*self.header_tokens, self.addressed)

    @property
    def closers(self) -> tuple[str, ...]:
        return ()

    def attempt(self, mention: Mention) -> State:
        if mention.marker == self.addressed and not mention.starts_turn:
            return PassedOver(mention)
        return MessageHeader(self, mention)


class MessageHeader(State):
    """A header up to its body marker. One that never comes makes the header's tokens stray."""

    __slots__ = ("_mention", "_syntax")

    def __init__(self, syntax: MessageCalls, mention: Mention) -> None:
        self._syntax = syntax
        self._mention = mention

    @property
    def in_reasoning(self) -> bool:
        return self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        markers = _header_ends(self._syntax)
        found = markers.find(cursor.text, cursor.at)
        end = found.start if found else markers.held_from(cursor.text, cursor.at)
        too_long = end - cursor.at > self._mention.tools.longest + NAME_SLACK + _HEADER_SLACK
        if too_long or (found is not None and found.literal != self._syntax.body):
            plain = self._mention.marker == self._syntax.addressed
            return self._mention.pass_over(cursor, out) if plain else self._mention.drop(cursor, out)
        if found is None:
            return None
        header = cursor.text[cursor.at : found.start]
        prose = self._mention.prose
        prose.leave(out, cursor.offset())
        cursor.at = found.end
        content = prose.enter("reasoning" if self._channel(header) in self._syntax.reasoning_channels else "text")
        name = self._recipient(header)
        if name is None:
            return content
        syntax = self._syntax
        ends = (*syntax.ends, syntax.start)
        return JsonBody(prose, name, ends=ends, openers=syntax.header_tokens, closer=syntax.ends[0], refused=content)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        header = cursor.text[cursor.at :]
        name = self._recipient(header)
        if name is not None:
            is_whole = self._recipient(header[:-1]) == name  # something stands behind it
            return cut_attempt(self._mention, name if is_whole else None, cursor, out)
        self._mention.prose.leave(out, cursor.offset())
        cursor.at = len(cursor.text)
        return False

    def _channel(self, header: str) -> str:
        """The last channel named."""
        _, named, behind = header.rpartition(self._syntax.channel)
        words = behind.split() if named else []
        return words[0].partition("<")[0] if words else ""

    def _recipient(self, header: str) -> str | None:
        found = _RECIPIENT.search(header)
        name = found[1].removeprefix(self._syntax.recipient_prefix) if found else ""
        if not name or name in self._syntax.no_recipients or not self._mention.tools.accepts(name, only_known=False):
            return None
        return name


@lru_cache(maxsize=16)
def _header_ends(syntax: MessageCalls) -> MarkerSet:
    return MarkerSet((syntax.body, *syntax.ends))
