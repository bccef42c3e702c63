"""Regular expressions of clients as trees.

The subset that every dialect reads alike: characters, classes, groups, alternatives, repetition. Look-around, back-references and
inline flags are not in it. `.` is any character but a line feed; \\d, \\w and \\s are the ASCII ones, and their complements stay
within ASCII, since dialects differ about the rest.
"""

from functools import lru_cache

from antiphon_parsers.forcing.charset import ALL_CHARS, Ranges, chars, charset, complement, minus, union
from antiphon_parsers.forcing.patterns import ANY_TEXT, Chars, Loop, Tree, fork, row

_DIGIT = charset([(48, 57)])
_WORD = union(_DIGIT, charset([(65, 90), (97, 122)]), chars("_"))
_SPACE = chars(" \t\n\r\f\v")
_ASCII = charset([(0, 127)])
_ESCAPED_SETS = {
    "d": _DIGIT,
    "w": _WORD,
    "s": _SPACE,
    "D": minus(_ASCII, _DIGIT),
    "W": minus(_ASCII, _WORD),
    "S": minus(complement(_SPACE), charset([(0x80, 0xA0), (0x1680, 0x1680), (0x2000, 0x200F), (0x2028, 0x202F), (0x3000, 0x3000)])),
}
_ESCAPED_CHARS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
MAX_REPEAT = 10_000


class Unreadable(ValueError):
    """The text is no regular expression of the subset; the message says why."""


@lru_cache(maxsize=512)
def read(pattern: str, *, flags: str = "") -> Tree:
    """A regular expression that has to match a whole text. Flags: i, s. Raises Unreadable."""
    return _whole(_Reader(pattern, flags).alternatives(0))


@lru_cache(maxsize=512)
def found_in(pattern: str) -> Tree:
    """The texts in which the regular expression is found. Raises Unreadable."""
    options = _Reader(pattern, "").alternatives(0)
    return fork(*(row(*(() if opens else (ANY_TEXT,)), tree, *(() if closes else (ANY_TEXT,))) for opens, tree, closes in options))


def _whole(options: "list[tuple[bool, Tree, bool]]") -> Tree:
    return fork(*(tree for _, tree, _ in options))


class _Reader:
    def __init__(self, pattern: str, flags: str) -> None:
        self._text = pattern
        self._at = 0
        self._dot = ALL_CHARS if "s" in flags else complement(chars("\n"))
        self._any_case = "i" in flags
        if set(flags) - set("isu"):
            raise Unreadable(f"the flags {flags}")

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise Unreadable("it ends too early")
        self._at += 1
        return char

    def alternatives(self, depth: int) -> list[tuple[bool, Tree, bool]]:
        """(begins with an anchor, what stands between, ends with one), up to the end or the closing bracket."""
        if depth > 32:
            raise Unreadable("groups nested too deeply")
        found = [self._alternative(depth)]
        while self._peek() == "|":
            self._at += 1
            found.append(self._alternative(depth))
        if depth == 0 and self._peek():
            raise Unreadable("an unmatched bracket")
        return found

    def _alternative(self, depth: int) -> tuple[bool, Tree, bool]:
        opens = closes = False
        parts: list[Tree] = []
        if depth == 0 and self._peek() == "^":
            self._at += 1
            opens = True
        while self._peek() not in ("", "|", ")"):
            if depth == 0 and self._peek() == "$" and self._peek(1) in ("", "|"):
                self._at += 1
                closes = True
                break
            parts.append(self._repeated(self._atom(depth)))
        return opens, row(*parts), closes

    def _atom(self, depth: int) -> Tree:
        char = self._take()
        match char:
            case "(":
                return self._group(depth)
            case "[":
                return Chars(self._cased(self._class()))
            case ".":
                return Chars(self._dot)
            case "\\":
                return Chars(self._cased(self._escape(in_class=False)))
            case "^" | "$":
                raise Unreadable("an anchor inside")
            case "*" | "+" | "?":
                raise Unreadable("a repetition of nothing")
        return Chars(self._cased(chars(char)))

    def _group(self, depth: int) -> Tree:
        if self._text.startswith("?:", self._at):
            self._at += 2
        elif self._peek() == "?":
            raise Unreadable("look-around, a named group or inline flags")
        inner = _whole(self.alternatives(depth + 1))
        if self._take() != ")":
            raise Unreadable("an unmatched bracket")
        return inner

    def _cased(self, ranges: Ranges) -> Ranges:
        if not self._any_case:
            return ranges
        letters = [chr(code) for code in range(128) if chr(code).isalpha() and any(low <= code <= high for low, high in ranges)]
        return union(ranges, chars("".join(letters).lower()), chars("".join(letters).upper()))

    def _escape(self, *, in_class: bool) -> Ranges:
        char = self._take()
        if char in _ESCAPED_SETS:
            return _ESCAPED_SETS[char]
        if char == "b" and in_class:
            return chars("\b")
        if char in "xuU":
            return charset([(code := self._code(char), code)])
        if char in _ESCAPED_CHARS:
            return chars(_ESCAPED_CHARS[char])
        if char.isalnum():
            raise Unreadable(f"the escape \\{char}")
        return chars(char)

    def _code(self, kind: str) -> int:
        if self._peek() == "{":
            end = self._text.find("}", self._at)
            digits, self._at = self._text[self._at + 1 : end], end + 1
        else:
            size = {"x": 2, "u": 4, "U": 8}[kind]
            digits = self._text[self._at : self._at + size]
            self._at += size
        if not digits or len(digits) > 8 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise Unreadable("a broken escape")
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise Unreadable("an escape of no character")
        return code

    def _class(self) -> Ranges:
        negated = self._peek() == "^"
        self._at += negated
        found: list[Ranges] = []
        while self._peek() != "]" or not found:
            first = self._member()
            if self._peek() == "-" and self._peek(1) not in ("", "]"):
                self._at += 1
                last = self._member()
                if len(first) != 1 or len(last) != 1 or first[0][0] > last[0][0]:
                    raise Unreadable("a broken range")
                first = charset([(first[0][0], last[0][0])])
            found.append(first)
        self._at += 1
        ranges = self._cased(union(*found))
        return complement(ranges) if negated else ranges

    def _member(self) -> Ranges:
        char = self._take()
        if char == "[" and self._peek() in (":", "="):
            raise Unreadable("a named class")
        return self._escape(in_class=True) if char == "\\" else chars(char)

    def _repeated(self, tree: Tree) -> Tree:
        while True:
            bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek())
            if bounds is not None:
                self._at += 1
            elif (bounds := self._counted()) is None:
                return tree
            if self._peek() in ("?", "+"):
                if self._peek() == "+":
                    raise Unreadable("a possessive repetition")
                self._at += 1
            tree = Loop(tree, *bounds)

    def _counted(self) -> tuple[int, int | None] | None:
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not low.isdecimal() or not (high.isdecimal() or high == ""):
            return None
        self._at = end + 1
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise Unreadable("a repetition out of bounds")
        return least, most
