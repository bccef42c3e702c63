"""The text that no state has taken yet, and bounded look-ahead into it.

Every decision is made from content alone, never from where a delta ended: a look-ahead answers PENDING until the text
that decides is there (I2).
"""

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from antiphon_parsers.engine.record import Record
from antiphon_turns import FinishReason

SPACE_LIMIT = 64
"""White space that look-ahead skips, in characters; more of it decides against the marker (I7)."""

_SPACE = re.compile(r"\s*")


class Peek(Enum):
    """PENDING: more text decides. ABSENT: something else stands there. END: the turn ends there, at most with
    the beginning of a literal."""

    PENDING = "pending"
    ABSENT = "absent"
    END = "end"


class Found(NamedTuple):
    """A literal in the cursor's text: `start` and `end` index `Cursor.text`."""

    literal: str
    start: int
    end: int


class Cursor(Record):
    """`text[at:]` is what is left. `finish` is the reason once no more text can come. Text before the position `prompt_end`
    in the whole turn belongs to the prompt."""

    __slots__ = ("_base", "at", "finish", "prompt_end", "text")

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.finish: FinishReason | None = None
        self.prompt_end = 0
        self._base = 0

    def push(self, text: str) -> None:
        """Appends new text and forgets what was taken."""
        self._base += self.at
        self.text = self.text[self.at :] + text
        self.at = 0

    def pass_over(self, size: int) -> None:
        """Counts `size` characters as taken that never were in the empty cursor."""
        self._base += self.at + size
        self.text = ""
        self.at = 0

    def forget(self) -> None:
        """Forgets what was taken."""
        self.push("")

    def unread(self, text: str) -> None:
        """Gives the text that was taken last back, to be read again."""
        if len(text) <= self.at:
            self.at -= len(text)
            return
        self._base += self.at - len(text)
        self.text = text + self.text[self.at :]
        self.at = 0

    def offset(self, at: int | None = None) -> int:
        """The position of `at` (default: the next character) in the whole turn."""
        return self._base + (self.at if at is None else at)

    def skip_space(self) -> None:
        """Takes white space."""
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def peek(self, at: int, literals: tuple[str, ...], *, ignoring: str = "") -> Found | Peek:
        """Which literal follows at `at`, behind at most SPACE_LIMIT characters of white space or of `ignoring`."""
        start, stop = at, min(len(self.text), at + SPACE_LIMIT)
        while start < stop and (self.text[start].isspace() or self.text[start] in ignoring):
            start += 1
        if start == len(self.text):
            return Peek.END if self.finish is not None else Peek.PENDING
        for literal in literals:
            if self.text.startswith(literal, start):
                return Found(literal, start, start + len(literal))
        left = len(self.text) - start
        growing = (literal for literal in literals if len(literal) > left)
        if any(literal.startswith(self.text[start:]) for literal in growing):
            return Peek.PENDING if self.finish is None else Peek.END
        return Peek.ABSENT


class MarkerSet:
    """Finds the first of a set of markers, and where the text must be held because one may be beginning.

    `newlines`: so many line feeds before any of them may belong to it, so trailing ones are held too.
    """

    def __init__(self, markers: Iterable[str], *, newlines: int = 0) -> None:
        known = sorted(set(markers), key=len, reverse=True)
        self.markers = tuple(known)
        self._newlines = newlines
        self._longest = len(known[0]) if known else 0
        prefixes = sorted({marker[:size] for marker in known for size in range(1, len(marker))}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, known)) if known else r"(?!)")
        self._partial = re.compile("(?:" + "|".join(map(re.escape, prefixes)) + r")\Z" if prefixes else r"(?!)")
        firsts = "".join(sorted({marker[0] for marker in known} | ({"\n"} if newlines else set())))
        self.first = re.compile(f"[{re.escape(firsts)}]" if firsts else r"(?!)")
        """The characters that a marker, or what belongs to it, may begin with."""

    def find(self, text: str, at: int) -> Found | None:
        """The first whole marker from `at` on."""
        found = self._pattern.search(text, at)
        return Found(found[0], found.start(), found.end()) if found else None

    def held_from(self, text: str, at: int) -> int:
        """Where the suffix begins that may still grow into a marker; the length of the text when there is none."""
        partial = self._partial.search(text, max(at, len(text) - self._longest))
        start = partial.start() if partial else len(text)
        if self._newlines and start > at and text[start - 1] == "\n":
            return lines_before(text, at, start, self._newlines)
        return start


def lines_before(text: str, at: int, end: int, most: int) -> int:
    """Where the at most `most` line feeds begin that stand right before `end`, not before `at`."""
    start = end
    while end - start < most and start > at and text[start - 1] == "\n":
        start -= 1
    return start
