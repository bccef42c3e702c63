"""Regular languages inside quoted strings: what the text of a string looks like when it must match a tree."""

from typing import Literal

from antiphon_parsers.forcing.charset import chars, charset, has, minus
from antiphon_parsers.forcing.patterns import Chars, Fork, Loop, Row, Tree, exactly, fork, row

Quote = Literal['"', "'"]
"""Double quotes: JSON strings. Single quotes: strings of Python with the escapes that JSON knows."""

SHORT = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_CONTROL = charset([(0, 0x1F)])


def quoted(tree: Tree, quote: Quote) -> Tree:
    """What stands between the quotes of a string whose text matches the tree: one spelling for each text. Texts with control
    characters that have no short escape are left out."""
    match tree:
        case Chars():
            return _characters(tree, quote)
        case Row():
            return row(*(quoted(part, quote) for part in tree.parts))
        case Fork():
            return fork(*(quoted(option, quote) for option in tree.options))
        case Loop():
            return Loop(quoted(tree.body, quote), tree.low, tree.high)


def _characters(tree: Chars, quote: Quote) -> Tree:
    plain = minus(minus(tree.ranges, _CONTROL), chars("\\" + quote))
    options: list[Tree] = [Chars(plain)] if plain else []
    options += [exactly(spelling) for char, spelling in {**SHORT, quote: "\\" + quote}.items() if has(tree.ranges, char)]
    return fork(*options)
