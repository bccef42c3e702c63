"""Readers for the members of a JSON call envelope. Each takes its value's characters and says when it is complete."""

import json
import re

from antiphon_parsers.engine.lenient import LenientJson
from antiphon_parsers.engine.record import Record
from antiphon_parsers.engine.tools import NAME_SLACK, ToolTable

_DECODABLE = re.compile(
    r'(?:[^\\"]|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+"
)
_LONE_SURROGATE = re.compile(r"\\u[dD](?:[c-fC-F][0-9a-fA-F]{2}|[89abAB][0-9a-fA-F]{2}(?=[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F]|\Z))")


class Member(Record):
    """A value of no interest. `feed` returns how many characters of `text` from `at` on belong to it."""

    __slots__ = ("_json",)

    def __init__(self) -> None:
        self._json = LenientJson()

    @property
    def done(self) -> bool:
        """Whether the value is complete."""
        return self._json.done

    @property
    def failed(self) -> bool:
        """Whether the next character cannot belong to it."""
        return self._json.failed

    @property
    def repaired(self) -> bool:
        """Whether it was not quite JSON."""
        return self._json.repaired

    def feed(self, text: str, at: int) -> int:
        taken = self._json.feed(text, at)
        self._taken()
        return taken

    def _taken(self) -> None:
        self._json.take()


class Skipped(Member):
    """A member that means nothing to us."""

    __slots__ = ()


KEY_LIMIT = 1 << 20
"""Characters of a key that are held (I7)."""


class StringMember(Member):
    """A key or another short string; `text` is its value once it is done, "" when it was too long to be held."""

    __slots__ = ("_kept", "_parts")

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._kept = 0

    @property
    def text(self) -> str:
        """The decoded string; "" when it is none."""
        return self._text() if self.done else ""

    def _text(self) -> str:
        value = json.loads("".join(self._parts)) if self._parts else ""
        return _whole(value) if isinstance(value, str) else ""

    def _taken(self) -> None:
        text = self._json.take()
        self._kept += len(text)
        if self._kept > KEY_LIMIT:
            self._parts = []
        elif text:
            self._parts.append(text)


def _whole(text: str) -> str:
    """The text with replacement characters for surrogates that stand alone: no encoding has those."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Name(StringMember):
    """The tool's name. Fails as soon as it cannot be one."""

    __slots__ = ("_only_known", "_refused", "_size", "_tools")

    def __init__(self, tools: ToolTable, *, only_known: bool) -> None:
        super().__init__()
        self._tools = tools
        self._only_known = only_known
        self._size = 0
        self._refused = False

    @property
    def done(self) -> bool:
        return super().done and not self._refused

    @property
    def failed(self) -> bool:
        return self._refused or super().failed

    def feed(self, text: str, at: int) -> int:
        taken = super().feed(text, at)
        self._size += taken
        if super().done:
            self._refused = not self._tools.accepts(self._text(), only_known=self._only_known)
        else:
            self._refused = self._size > 6 * (self._tools.longest + NAME_SLACK)
        return taken


class ArgumentObject(Member):
    """The argument object, verbatim."""

    __slots__ = ("tail",)
    is_object = True

    def __init__(self) -> None:
        super().__init__()
        self.tail = ""

    def take(self) -> str:
        """Argument text that may go out; the last brace stays in `tail` (I12)."""
        text = self._json.take()
        if self._json.done and text:
            self.tail = text[-1]
            return text[:-1]
        return text

    def plain(self, text: str) -> str | None:
        """Takes the text the short way (see `State.plain`)."""
        return self._json.plain(text)

    def close_braces(self) -> bool:
        """Adds missing final braces; False when more is missing."""
        return self._json.close_braces()

    def _taken(self) -> None:
        pass


class ArgumentString(Member):
    """The argument object inside a JSON string: decoded once, while it arrives. An empty string is an empty object."""

    __slots__ = ("_begun", "_encoded", "_inner", "_opened", "_unreadable", "tail")

    def __init__(self) -> None:
        super().__init__()
        self._encoded = ""
        self._inner = LenientJson()
        self._begun = False
        self._unreadable = False
        self._opened = False
        self.tail = ""

    @property
    def is_object(self) -> bool:
        """Whether the string holds an object, as far as it is there."""
        return self._begun or self.done

    @property
    def done(self) -> bool:
        return super().done and not self.failed and (self._inner.done or not self._begun)

    @property
    def failed(self) -> bool:
        cut = super().done and self._begun and not self._inner.done
        return super().failed or self._unreadable or cut

    @property
    def repaired(self) -> bool:
        return super().repaired or self._inner.repaired

    def take(self) -> str:
        """Argument text that may go out; the last brace stays in `tail`."""
        if self.done and not self._begun:
            self.tail = "{}"
            return ""
        text = self._inner.take()
        if self._inner.done and text:
            self.tail = text[-1]
            return text[:-1]
        return text

    def close_braces(self) -> bool:
        """A string that is not closed cannot be completed."""
        return False

    def _taken(self) -> None:
        piece = self._json.take()
        if not self._opened and piece:
            self._opened = True
            piece = piece[1:]
        self._encoded += piece
        while self._encoded and not self._unreadable:
            size = self._decodable()
            if not size:
                return
            self._encoded = self._encoded[size:]

    def _decodable(self) -> int:
        """Decodes what is complete at the front; returns how much that was."""
        found = _DECODABLE.match(self._encoded)
        size = found.end() if found else 0
        if size:
            self._feed_inner(json.loads(f'"{self._encoded[:size]}"', strict=False))
            return size
        lone = _LONE_SURROGATE.match(self._encoded)
        if lone and (lone.end() < len(self._encoded) or self._json.done):
            self._feed_inner(lone[0])  # the same character inside the inner string, still escaped
            return lone.end()
        return len(self._encoded) if self._encoded == '"' else 0

    def _feed_inner(self, text: str) -> None:
        if not self._begun:
            text = text.lstrip()
            if not text:
                return
            if text[0] != "{":
                self._unreadable = True
                return
            self._begun = True
        taken = self._inner.feed(text)
        if taken < len(text) and text[taken:].strip():
            self._unreadable = True


class NoArguments(Member):
    """`null`, or no arguments at all: an empty object."""

    __slots__ = ()
    tail = "{}"

    @property
    def is_object(self) -> bool:
        """Always: it stands for one."""
        return True

    def take(self) -> str:
        """Nothing goes out before the end."""
        return ""

    def close_braces(self) -> bool:
        """Nothing can be missing."""
        return False
