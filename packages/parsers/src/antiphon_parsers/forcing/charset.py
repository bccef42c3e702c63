"""Sets of characters as sorted, disjoint code point ranges without surrogates, and their spelling in grammar dialects."""

import re
import string
from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_ESCAPE_LAST = re.compile(r"\\[xuU][0-9A-F]+$")
ALL_CHARS: Ranges = ((0, 0xD7FF), (0xE000, LAST))


def charset(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The set of all characters in these inclusive ranges."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(part for given in ranges for part in _without_surrogates(*given)):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def chars(text: str) -> Ranges:
    """The set of the characters of a text."""
    return charset((ord(char), ord(char)) for char in text)


def complement(ranges: Ranges) -> Ranges:
    """All characters but these."""
    found: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges:
        found.append((start, low - 1))
        start = high + 1
    return charset([*found, (start, LAST)])


def union(*sets: Ranges) -> Ranges:
    """The characters of any of the sets."""
    return charset(part for ranges in sets for part in ranges)


def minus(left: Ranges, right: Ranges) -> Ranges:
    """The characters of the first set that are not in the second."""
    return complement(union(complement(left), right))


def has(ranges: Ranges, char: str) -> bool:
    """Whether the character is in the set."""
    code = ord(char)
    return any(low <= code <= high for low, high in ranges)


def _without_surrogates(low: int, high: int) -> Iterable[tuple[int, int]]:
    first, last = _SURROGATES
    below, above = (low, min(high, first - 1)), (max(low, last + 1), min(high, LAST))
    return [part for part in (below, above) if part[0] <= part[1]]


def regex_class(ranges: Ranges) -> str:
    """A class of the regular expressions of Rust; no character in it needs an escape from Lark's slashes."""
    return "[" + "".join(_span(low, high) for low, high in ranges) + "]"


def gbnf_class(ranges: Ranges) -> str:
    """A class of GBNF and of EBNF dialects like it: said by what is not in it where that is less."""
    if ranges and ranges[-1][1] == LAST:
        return f"[^{_gbnf_spans(complement(ranges) or ((0, 0),))}]"
    return f"[{_gbnf_spans(ranges)}]"


def _gbnf_spans(ranges: Ranges) -> str:
    written = ""
    for low, high in ranges:
        written += _gbnf_char(low, written)
        if high > low:
            written += "-" + _gbnf_char(high, written + "-")
    return written


def gbnf_string(text: str) -> str:
    """A GBNF string for exactly this text."""
    written = ""
    for char in text:
        written += _gbnf_char(ord(char), written)
    return f'"{written}"'


def _gbnf_char(code: int, before: str) -> str:
    """One character. Some readers take more than two digits behind \\x, so a digit that follows one is escaped as well."""
    char = chr(code)
    if char in '"\\':
        return "\\" + char
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    if char.isprintable() and char not in "[]^-" and not (char in string.hexdigits and _ESCAPE_LAST.search(before)):
        return char
    return f"\\x{code:02X}" if code < 0x80 else (f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}")


def regex_char(code: int) -> str:
    """One character within a regular expression of Rust, in a class or outside."""
    char = chr(code)
    return char if char.isascii() and (char.isalnum() or char in " _<>=,:;") else f"\\u{{{code:X}}}"


def _span(low: int, high: int) -> str:
    return regex_char(low) if low == high else f"{regex_char(low)}-{regex_char(high)}"
