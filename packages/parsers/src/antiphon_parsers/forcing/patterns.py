"""Regular languages as trees, and how they are written in grammar dialects."""

from collections.abc import Iterator

import msgspec

from antiphon_parsers.forcing.charset import (
    ALL_CHARS,
    Ranges,
    chars,
    gbnf_class,
    gbnf_string,
    regex_char,
    regex_class,
    union,
)


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
