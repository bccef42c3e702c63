"""The regular expressions of a declaration, as pieces that can be matched while the text is still coming.

What is read: text; white space (`\\s*`, `\\n?`, ...); one named run of characters (`(?P<name>\\w+)`, `[^>]+`, ...); anything up to the
text that follows (`.*?`); alternatives of texts. Every other construct is refused by name: look-around, anchors, back-references, and
repeats of groups can depend on text that has not come, or has gone.
"""

import re
from typing import NamedTuple

import msgspec

from antiphon_parsers.declared.template import refuse

_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?")
_GROUP_NAME = re.compile(r"\(\?P<(\w+)>")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ALTERNATIVE = re.compile(r"((?:\\.|[^|\\])*)\|")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}
_CLASSES = "swdSWD"


class Text(msgspec.Struct, frozen=True):
    """This text."""

    text: str


class Space(msgspec.Struct, frozen=True):
    """White space, perhaps none. `line`: the expression demands some, which is written as a line feed."""

    line: bool = False


class Run(msgspec.Struct, frozen=True):
    """One or more characters of a class; `name` is that of the capture, "" when nothing is captured."""

    name: str
    chars: str


class Anything(msgspec.Struct, frozen=True):
    """Any text up to the piece that follows; `name` as in Run."""

    name: str = ""


class Either(msgspec.Struct, frozen=True):
    """One of the texts, of which "" may be one."""

    texts: tuple[str, ...]


Piece = Text | Space | Run | Anything | Either


class Unit(NamedTuple):
    """An element of an expression before its quantifier: a text or a class of characters."""

    text: str
    chars: str
    end: int


def read_pattern(where: str, pattern: str) -> tuple[Piece, ...]:
    """The pieces of a regular expression. ConfigError names what is not read."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise refuse(where, f"{pattern!r} is no regular expression: {error}") from error
    pieces: list[Piece] = []
    at = 0
    while at < len(pattern):
        piece, at = _group(where, pattern, at) if pattern[at] == "(" else _element(where, pattern, at)
        if pieces and isinstance(piece, Text) and isinstance(pieces[-1], Text):
            piece = Text(pieces.pop().text + piece.text)  # type: ignore[union-attr]
        pieces.append(piece)
    return tuple(pieces)


def _element(where: str, pattern: str, at: int) -> tuple[Piece, int]:
    unit = _unit(where, pattern, at)
    found = _QUANTIFIER.match(pattern, unit.end)
    quantifier, end = (found[0], found.end()) if found else ("", unit.end)
    blank = unit.chars == r"\s" or (unit.text != "" and unit.text.isspace())
    if blank and quantifier:
        return Space(line=quantifier[0] == "+"), end
    if unit.chars == ".":
        if quantifier[:1] in ("*", "+"):
            return Anything(), end
    elif unit.chars:
        if quantifier[:1] in ("*", "+"):
            return Run("", unit.chars), end
    elif not quantifier:
        return Text(unit.text), end
    elif quantifier in ("?", "??"):
        return Either((unit.text, "")), end
    raise refuse(where, f"{pattern[at:end]!r} in {pattern!r} is not read")


def _unit(where: str, pattern: str, at: int) -> Unit:
    char = pattern[at]
    if char == "\\":
        escaped = pattern[at + 1]
        if escaped in _CLASSES:
            return Unit("", "\\" + escaped, at + 2)
        if escaped.isalnum() and escaped not in _CONTROLS:
            raise refuse(where, f"{pattern[at : at + 2]!r} in {pattern!r} is not read")
        return Unit(_CONTROLS.get(escaped, escaped), "", at + 2)
    if char == "[":
        found = _CLASS.match(pattern, at)
        if found:
            return Unit("", found[0], found.end())
    if char == ".":
        return Unit("", ".", at + 1)
    if char in "^$|)*+?":
        raise refuse(where, f"{char!r} in {pattern!r} is not read")
    return Unit(char, "", at + 1)


def _group(where: str, pattern: str, at: int) -> tuple[Piece, int]:
    end = _closing(pattern, at)
    found = _QUANTIFIER.match(pattern, end + 1)
    quantifier, behind = (found[0], found.end()) if found else ("", end + 1)
    named = _GROUP_NAME.match(pattern, at)
    if named and not quantifier:
        inner, stop = _element(where, pattern, named.end())
        if stop == end and isinstance(inner, Run | Anything):
            return msgspec.structs.replace(inner, name=named[1]), behind
    elif not named and quantifier in ("", "?"):
        start = at + 3 if pattern.startswith("(?:", at) else at + 1
        if not pattern.startswith("(?", at) or start == at + 3:
            texts = tuple(_plain(where, option) for option in _ALTERNATIVE.findall(pattern[start:end] + "|"))
            return Either((*texts, *(("",) if quantifier else ()))), behind
    raise refuse(where, f"{pattern[at:behind]!r} in {pattern!r} is not read")


def _closing(pattern: str, at: int) -> int:
    """Where the group that opens at `at` closes; the expression is known to be sound."""
    depth = 0
    while True:
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "[" and (found := _CLASS.match(pattern, at)):
            at = found.end() - 1
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if not depth:
                return at
        at += 1


def _plain(where: str, pattern: str) -> str:
    """The text an alternative is."""
    pieces = read_pattern(where, pattern)
    if any(not isinstance(piece, Text) for piece in pieces):
        raise refuse(where, f"the alternative {pattern!r} is not plain text")
    return "".join(piece.text for piece in pieces if isinstance(piece, Text))


def regex(pieces: tuple[Piece, ...]) -> str:
    """An expression that matches the whole of them."""
    return "".join(map(_regex, pieces))


def _regex(piece: Piece) -> str:
    match piece:
        case Text():
            return re.escape(piece.text)
        case Space():
            return r"\s*"
        case Either():
            return f"(?:{'|'.join(map(re.escape, piece.texts))})"
        case Anything():
            return f"(?P<{piece.name}>[\\s\\S]*?)" if piece.name else r"[\s\S]*?"
        case Run():
            return f"(?P<{piece.name}>{piece.chars}+)" if piece.name else f"{piece.chars}*"


def growing(pieces: tuple[Piece, ...]) -> str:
    """An expression that matches every beginning of them."""
    if not pieces:
        return ""
    match pieces[0]:
        case Text(text):
            begun = _beginnings(text)
        case Either(texts):
            begun = "(?:" + "|".join(map(_beginnings, texts)) + ")"
        case Run(_, chars):
            begun = f"{chars}*"
        case Space():
            begun = r"\s*"
        case Anything():
            begun = r"[\s\S]*"
    whole = _regex(pieces[0]).replace("?P<" + getattr(pieces[0], "name", "") + ">", "?:")
    return f"(?:{begun}|{whole}{growing(pieces[1:])})"


def _beginnings(text: str) -> str:
    """Every beginning of a text."""
    return "".join(f"(?:{re.escape(char)}" for char in text) + ")?" * len(text)


def sample(pieces: tuple[Piece, ...], name: str) -> str:
    """Text that they match, with `name` for what is captured."""
    return "".join(_sample(piece, name) for piece in pieces)


def _sample(piece: Piece, name: str) -> str:
    match piece:
        case Text():
            return piece.text
        case Space():
            return "\n" if piece.line else ""
        case Either():
            return piece.texts[0]
        case Run() | Anything():
            return name if piece.name else ""
