"""Calls written as one JSON object between two markers, or as a list of them: name and arguments under agreed keys.

The argument object passes verbatim while it arrives, as long as it is JSON; what comes before the name is known is held.
The closing marker is looked for only behind the object, because a string may contain it.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from antiphon_parsers.engine.closing import AfterBody, Unreadable
from antiphon_parsers.engine.cursor import Cursor, Found, Peek
from antiphon_parsers.engine.cut import cut_attempt, cut_call
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.json_list import AfterItem, ListEnd
from antiphon_parsers.engine.json_members import ArgumentObject, ArgumentString, Member, Name, NoArguments, Skipped, StringMember
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State
from antiphon_turns import SegmentStatus

HELD_LIMIT = 1 << 20
"""Characters of a block that are held before its name is known (I7)."""

Arguments = ArgumentObject | ArgumentString | NoArguments


class JsonCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The markers and keys of a format. A closer is "" where a format has none. `listed`: the objects stand in brackets, the
    first of which may belong to the opener.
    `separator` stands between objects. `bare`: an object that begins the turn needs no opener if it calls a declared
    tool; `bare_keys` are what else it may hold."""

    opener: str
    closer: str
    listed: bool = False
    separator: str = ""
    bare: bool = False
    bare_keys: tuple[str, ...] = ("type",)
    name_keys: tuple[str, ...] = ("name",)
    argument_keys: tuple[str, ...] = ("arguments", "parameters")
    line_start_in_reasoning: bool = True

    @property
    def openers(self) -> tuple[str, ...]:
        return (self.opener, "{") if self.bare else (self.opener,)

    @property
    def closers(self) -> tuple[str, ...]:
        return (self.closer,) if self.closer else ()

    def attempt(self, mention: Mention) -> State:
        if mention.marker == "{" and not mention.starts_turn:
            return PassedOver(mention)
        return Envelope(self, mention, in_list=self.listed and mention.marker.endswith("["))

    def chained(self, prose: Prose, marker: str) -> State:
        return Envelope(self, Mention(prose, "", 0, line_start=True))

    def next_item(self, prose: Prose) -> State:
        """The state that reads another object of a list in brackets."""
        return Envelope(self, Mention(prose, "", 0, line_start=True), in_list=True)


class PassedOver(State):
    """What looks like an opener is none at this place."""

    __slots__ = ("_mention",)

    def __init__(self, mention: Mention) -> None:
        self._mention = mention

    @property
    def in_reasoning(self) -> bool:
        return self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        return self._mention.pass_over(cursor, out)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return False


Step = Literal["marker", "open", "key", "in_key", "colon", "value", "in_value", "after_value", "after_comma"]


class Envelope(State):
    """A call block being read. Until the name is known and the arguments have begun, it may still be prose: then
    all of it is given back."""

    __slots__ = (
        *("_arguments", "_bare", "_held", "_in_list", "_member", "_mention", "_name"),
        *("_raw", "_repaired", "_started", "_step", "_syntax"),
    )

    def __init__(self, syntax: JsonCalls, mention: Mention, *, in_list: bool = False) -> None:
        self._syntax = syntax
        self._mention = mention
        self._in_list = in_list
        self._bare = mention.marker == "{"
        self._step: Step = "marker"
        self._raw: list[str] = []
        self._held = 0
        self._started = False
        self._repaired = False
        self._name: str | None = None
        self._member: Member = Skipped()
        self._arguments: Arguments | None = None

    @property
    def in_reasoning(self) -> bool:
        return not self._started and self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        following = _STEPS[self._step](self, cursor, out)
        if following is None and not self._started:
            if self._name is None and self._held > HELD_LIMIT:
                return self._fail(cursor, out)
            ended = self._bare and self._name is None and cursor.finish is not None
            if ended or (self._step == "open" and self._mention.is_named_only(cursor)):
                return self._fail(cursor, out)
        return following

    @property
    def held(self) -> int:
        return 0 if self._started else self._held

    def plain(self, text: str, out: Emitter) -> str | None:
        arguments = self._arguments
        if self._step != "in_value" or not self._started or self._member is not arguments or not isinstance(arguments, ArgumentObject):
            return None
        return arguments.plain(text)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        if self._started:
            return cut_call(cursor, out)
        cursor.unread("".join(self._raw))
        return cut_attempt(self._mention, self._name, cursor, out)

    def _take(self, cursor: Cursor, end: int) -> None:
        """Takes text up to `end`; it is kept while the block may still be prose."""
        if not self._started and end > cursor.at:
            self._raw.append(cursor.text[cursor.at : end])
            self._held += end - cursor.at
        cursor.at = end

    def _next_char(self, cursor: Cursor) -> str:
        """The next character that is not white space; "" when there is none yet."""
        at = cursor.at
        cursor.skip_space()
        end, cursor.at = cursor.at, at
        self._take(cursor, end)
        return cursor.text[end : end + 1]

    def _marker(self, cursor: Cursor, out: Emitter) -> State | None:
        self._take(cursor, cursor.at + self._mention.size)
        self._step = "key" if self._bare else "open"
        return self

    def _open(self, cursor: Cursor, out: Emitter) -> State | None:
        char = self._next_char(cursor)
        if char == "{":
            self._take(cursor, cursor.at + 1)
            self._step = "key"
            return self
        if not char:
            return None
        doubled = self._mention.doubled(cursor, cursor.at)
        if doubled is Peek.PENDING:
            return None
        if isinstance(doubled, Found):
            cursor.unread("".join(self._raw))
            return self._mention.drop(cursor, out)
        if char == "[" and self._syntax.listed and not self._in_list:
            self._in_list = True
            self._take(cursor, cursor.at + 1)
            return self
        if char == "]" and self._in_list and self._mention.marker:
            cursor.at += 1
            return ListEnd(self._mention.prose, self._syntax.closer)
        return self._fail(cursor, out)

    def _key(self, cursor: Cursor, out: Emitter) -> State | None:
        char = self._next_char(cursor)
        if char == "}":
            return self._end(cursor, out)
        if char in ('"', "'"):
            self._member = StringMember()
            self._step = "in_key"
            return self
        return self._fail(cursor, out) if char else None

    def _in_key(self, cursor: Cursor, out: Emitter) -> State | None:
        following = self._feed(cursor, out)
        if following is self and self._member.done:
            self._step = "colon"
        return following

    def _colon(self, cursor: Cursor, out: Emitter) -> State | None:
        char = self._next_char(cursor)
        if char == ":":
            self._take(cursor, cursor.at + 1)
            self._step = "value"
            return self
        return self._fail(cursor, out) if char else None

    def _value(self, cursor: Cursor, out: Emitter) -> State | None:
        char = self._next_char(cursor)
        if not char:
            return None
        key = self._member.text if isinstance(self._member, StringMember) else ""
        member = self._begin_member(key, char, out)
        if member is None:
            return self._fail(cursor, out)
        self._member = member
        self._step = "in_value"
        return self

    def _begin_member(self, key: str, char: str, out: Emitter) -> Member | None:
        """The reader for the value of `key`, None when a value that begins so cannot be."""
        if key in self._syntax.name_keys and self._name is None:
            only_known = self._mention.only_known or self._bare
            return Name(self._mention.tools, only_known=only_known) if char in "\"'" else None
        if key not in self._syntax.argument_keys or self._arguments is not None:
            if key in (*self._syntax.name_keys, *self._syntax.argument_keys):
                out.anomaly("repeated_call_key", key)
            elif self._bare and not self._started and key not in self._syntax.bare_keys:
                return None
            return Skipped()
        if char == "{":
            self._arguments = ArgumentObject()
        elif char in "\"'":
            self._arguments = ArgumentString()
        elif char in "nN":
            self._arguments = NoArguments()
        return self._arguments

    def _in_value(self, cursor: Cursor, out: Emitter) -> State | None:
        following = self._feed(cursor, out)
        if following is self and self._member.done:
            self._repaired = self._repaired or self._member.repaired
            self._step = "after_value"
        return following

    def _feed(self, cursor: Cursor, out: Emitter) -> State | None:
        """Feeds the member being read. Self once it is done, None while it goes on."""
        member = self._member
        taken = member.feed(cursor.text, cursor.at)
        self._take(cursor, cursor.at + taken)
        if isinstance(member, Name) and member.done:
            if self._held > HELD_LIMIT:
                return self._fail(cursor, out)
            self._name = member.text
        self._begin_call(cursor, out)
        if self._started and self._arguments is not None:
            out.delta(self._arguments.take())
        if member.done:
            return self
        return self._cut_braces(cursor, out) if member.failed else None

    def _cut_braces(self, cursor: Cursor, out: Emitter) -> State | None:
        """The member cannot go on. When the block's closing marker stands here, only braces may be missing."""
        found = cursor.peek(cursor.at, self._syntax.closers, ignoring="]" if self._in_list else "")
        if found in (Peek.PENDING, Peek.END):
            return None
        arguments = self._arguments
        if isinstance(found, Found) and self._member is arguments and self._name is not None and arguments.close_braces():
            self._begin_call(cursor, out)
            return self._complete(cursor, out, repaired=True)
        return self._fail(cursor, out)

    def _after_value(self, cursor: Cursor, out: Emitter) -> State | None:
        char = self._next_char(cursor)
        if char == ",":
            self._take(cursor, cursor.at + 1)
            self._step = "after_comma"
            return self
        if char == "}":
            return self._end(cursor, out)
        if not char:
            return None
        found = cursor.peek(cursor.at, self._syntax.closers, ignoring="]" if self._in_list else "")
        if found in (Peek.PENDING, Peek.END):
            return None
        if isinstance(found, Found) and self._name is not None:
            return self._complete(cursor, out, repaired=True)
        return self._fail(cursor, out)

    def _after_comma(self, cursor: Cursor, out: Emitter) -> State | None:
        char = self._next_char(cursor)
        if not char:
            return None
        self._repaired = self._repaired or char == "}"
        self._step = "key"
        return self

    def _end(self, cursor: Cursor, out: Emitter) -> State | None:
        if self._name is None:
            return self._fail(cursor, out)
        self._take(cursor, cursor.at + 1)
        return self._complete(cursor, out, repaired=self._repaired)

    def _complete(self, cursor: Cursor, out: Emitter, *, repaired: bool) -> State:
        """The object is over, or as good as over."""
        if self._arguments is None:
            self._arguments = NoArguments()
        if not self._arguments.is_object:
            return self._fail(cursor, out)
        self._begin_call(cursor, out)
        out.delta(self._arguments.take())
        status: SegmentStatus = "recovered" if repaired else "complete"
        if self._in_list or self._syntax.separator:
            return AfterItem(
                self._mention.prose,
                closer=self._syntax.closer,
                separator=self._syntax.separator,
                bracket="]" if self._in_list else "",
                tail=self._arguments.tail,
                status=status,
                syntax=self._syntax,
            )
        return AfterBody(
            self._mention.prose,
            closer=self._syntax.closer,
            tail=self._arguments.tail,
            status=status,
            surplus="}]",
            chain=("{", self._syntax),
        )

    def _begin_call(self, cursor: Cursor, out: Emitter) -> None:
        """Once the name is known and the arguments are an object, this is a call."""
        if self._started or self._name is None or self._arguments is None or not self._arguments.is_object:
            return
        self._started = True
        marker = cursor.offset() - self._held + self._mention.lead
        self._raw = []
        self._mention.prose.leave(out, marker)
        out.open("tool_call", self._name)

    def _fail(self, cursor: Cursor, out: Emitter) -> State:
        """Not readable: prose if no call has begun, a cut call otherwise."""
        if self._name is None and self._held > HELD_LIMIT:
            out.anomaly("held_call_too_long")
        if self._started:
            openers = ("\n" + self._syntax.opener,)
            return Unreadable(self._mention.prose, closers=self._syntax.closers, openers=openers)
        cursor.unread("".join(self._raw))
        return self._mention.refuse(cursor, out)


_STEPS: dict[Step, Callable[[Envelope, Cursor, Emitter], State | None]] = {
    "marker": Envelope._marker,
    "open": Envelope._open,
    "key": Envelope._key,
    "in_key": Envelope._in_key,
    "colon": Envelope._colon,
    "value": Envelope._value,
    "in_value": Envelope._in_value,
    "after_value": Envelope._after_value,
    "after_comma": Envelope._after_comma,
}
