"""One JSON value, checked while it arrives: what was accepted so far is always a prefix of valid JSON (RFC 8259).

Depth is bounded, because a reader behind us may recurse; nothing here does.
"""

import re
from collections.abc import Callable
from typing import Literal

MAX_DEPTH = 256

ScanState = Literal["value", "item", "key", "member", "colon", "after", "string", "escape", "hex", "number", "word", "done"]
"""What comes next: "item"/"member" = first element or the closer of a fresh array/object; "key" = a key after a comma;
"value" = a value; "after" = comma or closer; the others name the token that is being read."""

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING_RUN = re.compile(r'[^"\\\x00-\x1f]*')
_WORDS = {"t": "true", "f": "false", "n": "null"}
_HEX = frozenset("0123456789abcdefABCDEF")
_DIGITS = frozenset("0123456789")

# Number states: what was read last -> (characters, next state). A number may end in the states of _NUMBER_ENDS.
_NUMBER: dict[str, tuple[tuple[frozenset[str], str], ...]] = {
    "-": ((frozenset("0"), "0"), (frozenset("123456789"), "int")),
    "0": ((frozenset("."), "."), (frozenset("eE"), "e")),
    "int": ((_DIGITS, "int"), (frozenset("."), "."), (frozenset("eE"), "e")),
    ".": ((_DIGITS, "frac"),),
    "frac": ((_DIGITS, "frac"), (frozenset("eE"), "e")),
    "e": ((_DIGITS, "exp"), (frozenset("+-"), "sign")),
    "sign": ((_DIGITS, "exp"),),
    "exp": ((_DIGITS, "exp"),),
}
_NUMBER_ENDS = frozenset(("0", "int", "frac", "exp"))


class JsonScanner:
    """Checks one JSON value fed in any pieces, in O(n).

    `done`: the value is complete (a top-level number only once something follows it). `failed`: the last `feed` met an
    invalid character; everything accepted before it stands, and `recover` allows going on with other text.
    """

    __slots__ = ("_comma", "_digits", "_key", "_max_depth", "_pair", "_part", "_stack", "failed", "state")

    def __init__(self, *, max_depth: int = MAX_DEPTH) -> None:
        self.state: ScanState = "value"
        self.failed = False
        self._stack: list[str] = []
        self._max_depth = max_depth
        self._key = False
        self._comma = False
        self._part = ""
        self._digits = ""
        self._pair = False

    @property
    def done(self) -> bool:
        """Whether the whole value was read."""
        return self.state == "done"

    @property
    def depth(self) -> int:
        """Open containers."""
        return len(self._stack)

    @property
    def after_comma(self) -> bool:
        """Whether the last character that is not white space was a comma."""
        return self._comma and self.state in ("key", "value")

    def feed(self, text: str, start: int = 0) -> int:
        """Takes `text` from `start` on; returns how many characters were accepted: fewer than given when the value is
        complete or invalid."""
        at, end = start, len(text)
        while at < end and not self.failed and self.state != "done":
            at = _STEPS[self.state](self, text, at)
        return at - start

    def take_plain(self, text: str) -> bool:
        """Accepts the whole text when it goes on a string and holds nothing but its characters; else takes nothing of it."""
        if self.state != "string" or _STRING_RUN.fullmatch(text) is None:
            return False
        if text:
            self._pair = False
        return True

    def recover(self) -> None:
        """Forgets a failure: the next `feed` goes on behind the last accepted character."""
        self.failed = False

    def retract_comma(self) -> None:
        """Takes the comma just read back, as if it had never come (`after_comma` must hold)."""
        self.state = "after"
        self._comma = False

    def closing(self) -> str:
        """The shortest text that completes what was accepted to one JSON value that strict decoders take."""
        token = _CLOSING[self.state](self)
        return token + "".join("}" if opener == "{" else "]" for opener in reversed(self._stack))

    def _skip(self, text: str, at: int) -> int:
        found = _SPACE.match(text, at)
        return found.end() if found else at

    def _value(self, text: str, at: int) -> int:
        at = self._skip(text, at)
        if at == len(text):
            return at
        char = text[at]
        if char == '"':
            self._key, self._pair = False, False
            self.state = "string"
        elif char in "{[":
            if len(self._stack) >= self._max_depth:
                self.failed = True
                return at
            self._stack.append(char)
            self.state = "member" if char == "{" else "item"
        elif char in _WORDS:
            self._part = _WORDS[char][1:]
            self.state = "word"
        elif char == "-" or char in _DIGITS:
            self._part = char if char in "-0" else "int"
            self.state = "number"
        else:
            self.failed = True
            return at
        self._comma = False
        return at + 1

    def _item(self, text: str, at: int) -> int:
        at = self._skip(text, at)
        if at < len(text) and text[at] == "]":
            return self._pop(at)
        return self._value(text, at)

    def _key_start(self, text: str, at: int) -> int:
        at = self._skip(text, at)
        if at == len(text):
            return at
        if text[at] == '"':
            self._key, self._pair, self._comma = True, False, False
            self.state = "string"
            return at + 1
        if text[at] == "}" and self.state == "member":
            return self._pop(at)
        self.failed = True
        return at

    def _colon(self, text: str, at: int) -> int:
        at = self._skip(text, at)
        if at == len(text):
            return at
        if text[at] != ":":
            self.failed = True
            return at
        self.state = "value"
        return at + 1

    def _after(self, text: str, at: int) -> int:
        at = self._skip(text, at)
        if at == len(text):
            return at
        inside = self._stack[-1]
        if text[at] == ",":
            self._comma = True
            self.state = "key" if inside == "{" else "value"
            return at + 1
        if text[at] == ("}" if inside == "{" else "]"):
            return self._pop(at)
        self.failed = True
        return at

    def _pop(self, at: int) -> int:
        self._stack.pop()
        self._complete()
        return at + 1

    def _complete(self) -> None:
        self.state = "after" if self._stack else "done"

    def _string(self, text: str, at: int) -> int:
        found = _STRING_RUN.match(text, at)
        end = found.end() if found else at
        if end > at:
            self._pair = False
        if end == len(text):
            return end
        char = text[end]
        if char == "\\":
            self.state = "escape"
        elif char == '"':
            if self._key:
                self.state = "colon"
            else:
                self._complete()
        else:
            self.failed = True
            return end
        return end + 1

    def _escape(self, text: str, at: int) -> int:
        char = text[at]
        if char == "u":
            self._digits = ""
            self.state = "hex"
        elif char in '"\\/bfnrt':
            self._pair = False
            self.state = "string"
        else:
            self.failed = True
            return at
        return at + 1

    def _hex(self, text: str, at: int) -> int:
        if text[at] not in _HEX:
            self.failed = True
            return at
        self._digits += text[at]
        if len(self._digits) == 4:
            self._pair = not self._pair and _is_high(self._digits)
            self.state = "string"
        return at + 1

    def _number(self, text: str, at: int) -> int:
        for chars, following in _NUMBER[self._part]:
            if text[at] in chars:
                self._part = following
                return at + 1
        if self._part in _NUMBER_ENDS:
            self._complete()
        else:
            self.failed = True
        return at

    def _word(self, text: str, at: int) -> int:
        if text[at] != self._part[0]:
            self.failed = True
            return at
        self._part = self._part[1:]
        if not self._part:
            self._complete()
        return at + 1

    def _close_string(self) -> str:
        low = "\\udc00" if self._pair else ""
        return low + '"' + (":0" if self._key else "")

    def _close_hex(self) -> str:
        digits = self._digits
        if self._pair and "dc00".startswith(digits.lower()):
            return "dc00"[len(digits) :] + '"' + (":0" if self._key else "")
        whole = digits.ljust(4, "0")
        low = "\\udc00" if _is_high(whole) else ""
        return whole[len(digits) :] + low + '"' + (":0" if self._key else "")

    def _close_escape(self) -> str:
        if self._pair:
            return 'udc00"' + (":0" if self._key else "")
        return '""' + (":0" if self._key else "")


def _is_high(digits: str) -> bool:
    return 0xD800 <= int(digits, 16) < 0xDC00


_STEPS: dict[ScanState, Callable[[JsonScanner, str, int], int]] = {
    "value": JsonScanner._value,
    "item": JsonScanner._item,
    "key": JsonScanner._key_start,
    "member": JsonScanner._key_start,
    "colon": JsonScanner._colon,
    "after": JsonScanner._after,
    "string": JsonScanner._string,
    "escape": JsonScanner._escape,
    "hex": JsonScanner._hex,
    "number": JsonScanner._number,
    "word": JsonScanner._word,
}

_CLOSING: dict[ScanState, Callable[[JsonScanner], str]] = {
    "value": lambda _: "0",
    "item": lambda _: "",
    "key": lambda _: '"":0',
    "member": lambda _: "",
    "colon": lambda _: ":0",
    "after": lambda _: "",
    "string": JsonScanner._close_string,
    "escape": JsonScanner._close_escape,
    "hex": JsonScanner._close_hex,
    "number": lambda scanner: "" if scanner._part in _NUMBER_ENDS else "0",
    "word": lambda scanner: scanner._part,
    "done": lambda _: "",
}
