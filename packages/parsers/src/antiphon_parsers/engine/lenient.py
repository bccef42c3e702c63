"""JSON as models write it, turned into JSON while it arrives.

Valid JSON passes verbatim. Repaired, so that what already came out stays a prefix: line feeds and other control
characters inside strings, Python literals (single quotes, True, False, None, Python escapes), a comma before a closer.
Anything else fails.
"""

import re

from antiphon_parsers.engine.cursor import SPACE_LIMIT
from antiphon_parsers.engine.record import Record, register
from antiphon_turns.json_scan import MAX_DEPTH, JsonScanner

_SINGLE_RUN = re.compile(r"[^'\"\\\x00-\x1f]+")
_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_PYTHON_WORDS = {"T": ("True", "true"), "F": ("False", "false"), "N": ("None", "null")}
_VALUE_STATES = frozenset(("value", "item"))
_QUOTE_STATES = frozenset(("value", "item", "key", "member"))


def escaped(char: str) -> str:
    """A control character as JSON escape."""
    return _CONTROLS.get(char) or f"\\u{ord(char):04x}"


register(JsonScanner)


class LenientJson(Record):
    """One value. `feed` returns how many characters were taken; `take` gives the JSON they became so far (a trailing
    comma is held until it is known not to be one too many). `repaired`: the output differs from the input."""

    __slots__ = ("_literal", "_out", "_scanner", "_single", "_spelled", "failed", "repaired")

    def __init__(self, *, max_depth: int = MAX_DEPTH) -> None:
        self._scanner = JsonScanner(max_depth=max_depth)
        self._out: list[str] = []
        self._single = ""
        self._literal = ""
        self._spelled = ""
        self.failed = False
        self.repaired = False

    @property
    def done(self) -> bool:
        """Whether the value is complete."""
        return self._scanner.done

    def feed(self, text: str, at: int = 0) -> int:
        """Takes characters of `text` from `at` on."""
        start, end = at, len(text)
        while at < end and not self.failed and not self._scanner.done:
            if self._single:
                at = self._single_quoted(text, at)
            elif self._literal:
                at = self._python_word(text, at)
            else:
                taken = self._scanner.feed(text, at)
                if taken:
                    self._out.append(text[at : at + taken])
                    at += taken
                if self._scanner.failed:
                    at = self._repair(text, at)
        return at - start

    def plain(self, text: str) -> str | None:
        """Takes the text and returns it when all of it goes on a string as it is, and nothing waits to be taken."""
        if self._single or self._literal or self._out or not self._scanner.take_plain(text):
            return None
        return text

    def take(self) -> str:
        """The JSON since the last call."""
        out = self._out
        text = out[0] if len(out) == 1 else "".join(out)
        out.clear()
        if self._scanner.after_comma:
            comma = text.rfind(",")
            if comma >= 0 and len(text) - comma <= SPACE_LIMIT:
                out.append(text[comma:])
                return text[:comma]
        return text

    def close_braces(self) -> bool:
        """Adds missing final braces and brackets; False when more than those is missing."""
        if self._single or self._literal:
            return False
        if self._scanner.after_comma and not self._drop_comma():
            return False
        closing = self._scanner.closing()
        if closing.strip("]}"):
            return False
        self._feed_repair(closing)
        self.failed = False
        return True

    def _feed_repair(self, text: str) -> int:
        """Goes on with `text` in place of what was written; returns how much of it was accepted."""
        self._scanner.recover()
        self.repaired = True
        taken = self._scanner.feed(text)
        self._out.append(text[:taken])
        self.failed = taken < len(text)
        return taken

    def _repair(self, text: str, at: int) -> int:
        """Deals with the character at `at`, which JSON does not allow there. Returns how far it got."""
        char, state = text[at], self._scanner.state
        if state == "string":
            self._feed_repair(escaped(char))
            return at + 1
        if state == "escape":
            return self._repair_escape(char, at)
        if char == "'" and state in _QUOTE_STATES:
            self._feed_repair('"')
            self._single = "'"
            return at + 1
        if char in _PYTHON_WORDS and state in _VALUE_STATES:
            self._scanner.recover()
            self._literal, self._spelled = _PYTHON_WORDS[char]
            return at
        if char in "]}" and self._scanner.after_comma and self._drop_comma():
            return at
        self.failed = True
        return at

    def _repair_escape(self, char: str, at: int) -> int:
        if char == "'":
            self._feed_repair("u0027")
        elif char == "x":
            self._feed_repair("u00")
        else:  # an unknown escape means itself, backslash included, as in Python
            self._feed_repair("\\")
            return at
        return at + 1

    def _drop_comma(self) -> bool:
        text = ""  # the end of what came out; never all of it, so that many commas stay linear
        while self._out and "," not in text and len(text) <= SPACE_LIMIT:
            text = self._out.pop() + text
        comma = text.rfind(",")
        if comma < 0 or len(text) - comma > SPACE_LIMIT:
            self._out.append(text)
            return False
        self._out += [text[:comma], text[comma + 1 :]]
        self._scanner.recover()
        self._scanner.retract_comma()
        self.repaired = True
        return True

    def _python_word(self, text: str, at: int) -> int:
        if text[at] != self._literal[0]:
            self.failed = True
            return at
        self._literal = self._literal[1:]
        if not self._literal:
            self._feed_repair(self._spelled)
        return at + 1

    def _single_quoted(self, text: str, at: int) -> int:
        char = text[at]
        if self._single == "\\":
            self._single = "'"
            self._single_escape(char)
        elif char == "\\":
            self._single = "\\"
        elif char == "'":
            self._single = ""
            self._feed_repair('"')
        elif char == '"':
            self._feed_repair('\\"')
        elif found := _SINGLE_RUN.match(text, at):
            return at + self._feed_repair(found[0])
        else:
            self._feed_repair(escaped(char))
        return at + 1

    def _single_escape(self, char: str) -> None:
        if char == "'":
            self._feed_repair("'")
        elif char in '"\\/bfnrtu':
            self._feed_repair("\\" + char)
        elif char == "x":
            self._feed_repair("\\u00")
        else:
            self._feed_repair("\\\\" + (escaped(char) if char < " " else char))
