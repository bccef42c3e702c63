"""Regular languages as trees: regular expressions of clients read into them, escaped for strings, written in grammar dialects.

The subset that every dialect reads alike: characters, classes, groups, alternatives, repetition. Look-around, back-references and
inline flags are not in it. `.` is any character but a line feed; \\d, \\w and \\s are the ASCII ones, and their complements stay
within ASCII, since dialects differ about the rest.
"""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from antiphon_parsers.forcing.charset import (
    ALL_CHARS,
    Ranges,
    chars,
    charset,
    complement,
    gbnf_class,
    gbnf_string,
    minus,
    regex_char,
    regex_class,
    union,
)


class Unreadable(ValueError):
    """The text is no regular expression of the subset; the message says why."""


class Chars(msgspec.Struct, frozen=True):
    """One character of a set."""

    ranges: Ranges


class Row(msgspec.Struct, frozen=True):
    """One tree after the other; none of them: the empty text."""

    parts: "tuple[Tree, ...]" = ()


class Fork(msgspec.Struct, frozen=True):
    """One of several trees; without any, no text at all."""

    options: "tuple[Tree, ...]" = ()


class Loop(msgspec.Struct, frozen=True):
    """`low` to `high` times the same tree; None: without end."""

    body: "Tree"
    low: int = 0
    high: int | None = None


Tree = Chars | Row | Fork | Loop

EMPTY = Row()
ANY_TEXT = Loop(Chars(ALL_CHARS))
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


def row(*parts: Tree) -> Tree:
    """One after the other, flat."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Row) else (part,))]
    return flat[0] if len(flat) == 1 else Row(tuple(flat))


def fork(*options: Tree) -> Tree:
    """One of them; single characters become one set."""
    flat = [inner for option in options for inner in (option.options if isinstance(option, Fork) else (option,))]
    sets = [option.ranges for option in flat if isinstance(option, Chars)]
    kept = ([Chars(union(*sets))] if sets else []) + [option for option in flat if not isinstance(option, Chars)]
    distinct = tuple(dict.fromkeys(kept))
    return distinct[0] if len(distinct) == 1 else Fork(distinct)


def exactly(text: str) -> Tree:
    """Just this text."""
    return row(*(Chars(chars(char)) for char in text))


def in_any_case(text: str) -> Tree:
    """This text in capitals or not."""
    return row(*(Chars(union(chars(char.lower()[:1]), chars(char.upper()[:1]))) for char in text))


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


def shortest(tree: Tree) -> int | None:
    """Characters of the shortest text; None when there is none."""
    match tree:
        case Chars():
            return 1 if tree.ranges else None
        case Row():
            sizes = [shortest(part) for part in tree.parts]
            return None if None in sizes else sum(size or 0 for size in sizes)
        case Fork():
            return min((size for option in tree.options if (size := shortest(option)) is not None), default=None)
        case Loop():
            size = shortest(tree.body)
            return 0 if not tree.low else (None if size is None else size * tree.low)


def longest(tree: Tree) -> int | None:
    """Characters of the longest text; None when there is no longest."""
    match tree:
        case Chars():
            return 1
        case Row() | Fork():
            sizes = [longest(part) for part in (tree.parts if isinstance(tree, Row) else tree.options)]
            if None in sizes:
                return None
            known = [size or 0 for size in sizes]
            return sum(known) if isinstance(tree, Row) else max(known, default=0)
        case Loop():
            size = longest(tree.body)
            return 0 if size == 0 or tree.high == 0 else None if size is None or tree.high is None else size * tree.high


def regex_text(tree: Tree) -> str:
    """The tree as a regular expression of Rust, between slashes."""
    match tree:
        case Chars():
            single = _single(tree)
            return regex_class(tree.ranges) if single is None else regex_char(single)
        case Row():
            return "".join(f"({regex_text(part)})" if isinstance(part, Fork) else regex_text(part) for part in tree.parts)
        case Fork():
            return "|".join(regex_text(option) for option in tree.options)
        case Loop():
            return (regex_text(tree.body) if isinstance(tree.body, Chars) else f"({regex_text(tree.body)})") + _bounds(tree)


def gbnf_text(tree: Tree) -> str:
    """The tree as the body of a GBNF rule."""
    match tree:
        case Chars():
            single = _single(tree)
            return gbnf_class(tree.ranges) if single is None else gbnf_string(chr(single))
        case Row():
            return " ".join(_gbnf_parts(tree)) or '""'
        case Fork():
            return " | ".join(gbnf_text(option) for option in tree.options)
        case Loop():
            return (gbnf_text(tree.body) if isinstance(tree.body, Chars) else f"({gbnf_text(tree.body)})") + _bounds(tree)


def _gbnf_parts(tree: Row) -> Iterator[str]:
    word = ""
    for part in tree.parts:
        single = _single(part) if isinstance(part, Chars) else None
        if single is not None:
            word += chr(single)
            continue
        if word:
            yield gbnf_string(word)
            word = ""
        yield f"({gbnf_text(part)})" if isinstance(part, Fork) else gbnf_text(part)
    if word:
        yield gbnf_string(word)


def _single(tree: Chars) -> int | None:
    """The character of a set of one."""
    return tree.ranges[0][0] if len(tree.ranges) == 1 and tree.ranges[0][0] == tree.ranges[0][1] else None


def _bounds(loop: Loop) -> str:
    usual = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((loop.low, loop.high))
    return usual or f"{{{loop.low},{'' if loop.high is None else loop.high}}}"
