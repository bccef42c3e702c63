"""Arguments in a notation near JSON, turned into JSON while they arrive: bare keys, bare words, strings between markers.

Strings stream; a number or a bare word is held until it ends. A string between markers is raw, and its end counts only where the
notation goes on behind it.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, Protocol

import msgspec

from antiphon_parsers.coercion import JsonType, coerce, json_string
from antiphon_parsers.engine.closing import Unreadable
from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek
from antiphon_parsers.engine.cut import cut_call
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.json_members import StringMember
from antiphon_parsers.engine.lenient import LenientJson
from antiphon_parsers.engine.loose_strings import LooseString
from antiphon_parsers.engine.prose import Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import NAME_SLACK, Parameters
from antiphon_parsers.engine.xml_values import HELD_LIMIT
from antiphon_turns import SegmentStatus
from antiphon_turns.json_scan import MAX_DEPTH

_BRACKETS = {"{": "}", "[": "]"}
_LITERALS: frozenset[JsonType] = frozenset(("null", "integer", "number", "boolean"))
_PYTHON_WORDS = {"None": "null", "True": "true", "False": "false"}


class Notation(msgspec.Struct, frozen=True, kw_only=True):
    """`close` ends the arguments, `assign` stands between a key and its value (":" in nested objects). `quote` sets raw strings
    off ("": there are none). `words`: a bare word is text; otherwise it is an error. `end` is the marker behind a block. `loose`: quotes
    inside strings need not be escaped."""

    close: str
    assign: str
    quote: str
    words: bool
    end: str
    loose: bool = False


class NotedSyntax(Protocol):
    """What the body asks of its syntax."""

    def behind_arguments(self, prose: Prose, status: SegmentStatus) -> State:
        """The state behind the bracket that closes the arguments; the last one has not been said."""
        ...


Step = Literal["member", "in_key", "assign", "item", "value", "quoted", "loosely", "raw", "bare", "behind"]


class NotedBody(State):
    """Behind the bracket that opens the arguments. The call is open."""

    __slots__ = (
        *("_filled", "_held", "_json", "_key", "_loose", "_notation", "_openers", "_parameters", "_prose"),
        *("_quoted_key", "_recovered", "_size", "_stack", "_step", "_syntax"),
    )

    def __init__(self, notation: Notation, prose: Prose, parameters: Parameters, *, openers: tuple[str, ...], syntax: NotedSyntax) -> None:
        self._notation = notation
        self._prose = prose
        self._parameters = parameters
        self._openers = openers
        self._syntax = syntax
        self._step: Step = "member"
        self._stack = [notation.close]
        self._filled = [False]
        self._key = ""
        self._json = LenientJson()
        self._loose = LooseString("")
        self._quoted_key = StringMember()
        self._held: list[str] = []
        self._size = 0
        self._recovered = False

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        return _STEPS[self._step](self, cursor, out)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_call(cursor, out)

    def plain(self, text: str, out: Emitter) -> str | None:
        if self._step == "quoted":
            return self._json.plain(text)
        if self._step == "raw" and _quotes(self._notation.quote).first.search(text) is None:
            return json_string(text)
        return None

    def _next(self, cursor: Cursor, literals: tuple[str, ...]) -> Found | Peek:
        """Which literal stands next, behind white space."""
        cursor.skip_space()
        return cursor.peek(cursor.at, literals)

    def _starts(self) -> tuple[str, ...]:
        quote = self._notation.quote
        return ((quote,) if quote else ()) + (self._notation.end, '"', "'")

    def _member(self, cursor: Cursor, out: Emitter) -> State | None:
        """Before a key."""
        found = self._next(cursor, (*self._starts(), self._stack[-1]))
        if found is Peek.PENDING or cursor.at == len(cursor.text):
            return None
        if not isinstance(found, Found):
            return self._bare_key(cursor, out)
        if found.literal == self._stack[-1]:
            return self._close(cursor, out)
        if found.literal == self._notation.end:
            return self._repair(out)
        if found.literal in ('"', "'"):
            self._quoted_key = StringMember()
            self._size = 0
            self._step = "in_key"
            return self
        bound = found.end + self._parameters.longest + NAME_SLACK
        end = cursor.text.find(found.literal, found.end, bound + len(found.literal))
        if end < 0:
            return self._fail() if len(cursor.text) >= bound + len(found.literal) else None
        self._key = cursor.text[found.end : end]
        cursor.at = end + len(found.literal)
        self._step = "assign"
        return self

    def _in_key(self, cursor: Cursor, out: Emitter) -> State | None:
        """Inside a key that is written as a string."""
        taken = self._quoted_key.feed(cursor.text, cursor.at)
        cursor.at += taken
        self._size += taken
        if self._quoted_key.done:
            self._key, self._size = self._quoted_key.text, 0
            self._step = "assign"
            return self
        too_long = self._size > 6 * (self._parameters.longest + NAME_SLACK)
        return self._fail() if too_long or self._quoted_key.failed else None

    def _bare_key(self, cursor: Cursor, out: Emitter) -> State | None:
        bound = cursor.at + self._parameters.longest + NAME_SLACK
        end = cursor.text.find(self._assignment, cursor.at, bound)
        key = cursor.text[cursor.at : end if end >= 0 else bound].strip()
        if any(char in key for char in "{}[](),"):
            return self._fail()
        if end < 0:
            return self._fail() if len(cursor.text) >= bound else None
        self._key = key
        cursor.at = end
        self._step = "assign"
        return self

    @property
    def _assignment(self) -> str:
        return self._notation.assign if len(self._stack) == 1 else ":"

    def _assign(self, cursor: Cursor, out: Emitter) -> State | None:
        found = self._next(cursor, (self._assignment,))
        if not isinstance(found, Found):
            return self._fail() if found is Peek.ABSENT else None
        cursor.at = found.end
        self._separate(out, f'"{json_string(self._key)}": ')
        self._step = "value"
        return self

    def _separate(self, out: Emitter, text: str) -> None:
        out.delta((", " if self._filled[-1] else "") + text)
        self._filled[-1] = True

    def _item(self, cursor: Cursor, out: Emitter) -> State | None:
        """Before an element of a list."""
        found = self._next(cursor, (self._notation.end, "]"))
        if found is Peek.PENDING or cursor.at == len(cursor.text):
            return None
        if isinstance(found, Found):
            return self._close(cursor, out) if found.literal == "]" else self._repair(out)
        self._separate(out, "")
        self._step = "value"
        return self

    def _value(self, cursor: Cursor, out: Emitter) -> State | None:
        found = self._next(cursor, (*self._starts(), *_BRACKETS))
        if found is Peek.PENDING or cursor.at == len(cursor.text):
            return None
        literal = found.literal if isinstance(found, Found) else ""
        if literal in _BRACKETS:
            return self._nest(cursor, out, literal)
        if literal in ('"', "'") and self._notation.loose:
            out.delta('"')
            cursor.at += 1
            self._loose = LooseString(literal)
            self._step = "loosely"
        elif literal in ('"', "'"):
            self._json = LenientJson()
            self._step = "quoted"
        elif literal and literal == self._notation.quote:
            out.delta('"')
            cursor.at += len(literal)
            self._step = "raw"
        else:
            self._step = "bare"
        return self

    def _nest(self, cursor: Cursor, out: Emitter, bracket: str) -> State:
        if len(self._stack) >= MAX_DEPTH - 1:
            return self._fail()
        cursor.at += 1
        out.delta(bracket)
        self._stack.append(_BRACKETS[bracket])
        self._filled.append(False)
        self._step = "member" if bracket == "{" else "item"
        return self

    def _quoted(self, cursor: Cursor, out: Emitter) -> State | None:
        cursor.at += self._json.feed(cursor.text, cursor.at)
        out.delta(self._json.take())
        if self._json.done:
            self._step = "behind"
            return self
        return self._fail() if self._json.failed else None

    def _loosely(self, cursor: Cursor, out: Emitter) -> State | None:
        """Inside a string in whose text quotes may stand."""
        out.delta(self._loose.read(cursor))
        if not self._loose.done:
            return None
        out.delta('"')
        self._recovered = self._recovered or self._loose.repaired
        self._step = "behind"
        return self

    def _raw(self, cursor: Cursor, out: Emitter) -> State | None:
        markers = _quotes(self._notation.quote)
        found = markers.find(cursor.text, cursor.at)
        end = found.start if found else markers.held_from(cursor.text, cursor.at)
        if end > cursor.at:
            out.delta(json_string(cursor.text[cursor.at : end]))
            cursor.at = end
        if found is None:
            return None
        following = cursor.peek(found.end, (",", "}", "]", self._notation.end))
        if following is Peek.PENDING:
            return None
        cursor.at = found.end
        if following is Peek.ABSENT:
            out.delta(json_string(found.literal))
        else:
            out.delta('"')
            self._step = "behind"
        return self

    def _bare(self, cursor: Cursor, out: Emitter) -> State | None:
        """A number or a word, up to what ends it."""
        notation = self._notation
        ends = _bare_ends(notation)
        found = ends.find(cursor.text, cursor.at)
        end = found.start if found else ends.held_from(cursor.text, cursor.at)
        if end > cursor.at:
            self._held.append(cursor.text[cursor.at : end])
            self._size += end - cursor.at
            cursor.at = end
        if self._size > HELD_LIMIT:
            out.anomaly("held_value_too_long")
            return self._fail()
        if found is None:
            return None
        word = "".join(self._held).strip()
        self._held, self._size = [], 0
        text = self._typed(_PYTHON_WORDS.get(word, word))
        if text.startswith('"') and not notation.words:
            return self._fail()
        out.delta(text)
        self._step = "behind"
        return self

    def _typed(self, word: str) -> str:
        """A bare word as the declared type, else as what it is by itself."""
        types = self._parameters.types(self._key) if len(self._stack) == 1 else frozenset[JsonType]()
        if not self._notation.words:
            return coerce(word, _LITERALS)
        declared = coerce(word, types) if types else '"'
        return declared if "string" in types or not declared.startswith('"') else coerce(word, _LITERALS)

    def _behind(self, cursor: Cursor, out: Emitter) -> State | None:
        """Behind a value."""
        found = self._next(cursor, (",", self._stack[-1], self._notation.end))
        if not isinstance(found, Found):
            return self._fail() if found is Peek.ABSENT else None
        if found.literal == ",":
            cursor.at = found.end
            self._step = "item" if self._stack[-1] == "]" else "member"
            return self
        return self._close(cursor, out) if found.literal == self._stack[-1] else self._repair(out)

    def _close(self, cursor: Cursor, out: Emitter) -> State:
        cursor.at += 1
        closed = self._stack.pop()
        self._filled.pop()
        if not self._stack:
            return self._syntax.behind_arguments(self._prose, "recovered" if self._recovered else "complete")
        out.delta(closed)
        self._step = "behind"
        return self

    def _repair(self, out: Emitter) -> State:
        """The block's end stands here, so closing brackets are missing."""
        out.delta("".join(reversed(self._stack[1:])))
        return self._syntax.behind_arguments(self._prose, "recovered")

    def _fail(self) -> State:
        notation = self._notation
        return Unreadable(self._prose, closers=(notation.end,), openers=tuple("\n" + opener for opener in self._openers))


@lru_cache(maxsize=16)
def _quotes(quote: str) -> MarkerSet:
    return MarkerSet((quote,))


@lru_cache(maxsize=16)
def _bare_ends(notation: Notation) -> MarkerSet:
    return MarkerSet((",", "}", "]", notation.close, notation.end))


_STEPS: dict[Step, Callable[[NotedBody, Cursor, Emitter], State | None]] = {
    "member": NotedBody._member,
    "in_key": NotedBody._in_key,
    "assign": NotedBody._assign,
    "item": NotedBody._item,
    "value": NotedBody._value,
    "quoted": NotedBody._quoted,
    "loosely": NotedBody._loosely,
    "raw": NotedBody._raw,
    "bare": NotedBody._bare,
    "behind": NotedBody._behind,
}
