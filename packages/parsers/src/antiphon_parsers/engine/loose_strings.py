"""Python strings as models write them that were never shown an escaped quote: one inside the text is text, and only a quote behind which
the notation goes on ends the string."""

import re

from antiphon_parsers.coercion import json_string
from antiphon_parsers.engine.cursor import Cursor, Found, Peek
from antiphon_parsers.engine.record import Record

_ENDS = (",", ")", "]", "}", ":")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", "'": "'", '"': '"', "/": "/"}
_CODE = {"x": 2, "u": 4}
_SPECIAL = {quote: re.compile(rf"{quote}|\\") for quote in "'\""}
_HEX = re.compile(r"[0-9a-fA-F]*")


class LooseString(Record):
    """Reads one string behind its opening `quote`. `repaired`: a quote stood inside it."""

    __slots__ = ("_quote", "done", "repaired")

    def __init__(self, quote: str) -> None:
        self.done = False
        self.repaired = False
        self._quote = quote

    def read(self, cursor: Cursor) -> str:
        """Takes what is certain, and the closing quote with the end; returns it as the inside of a JSON string."""
        parts: list[str] = []
        while not self.done:
            found = _SPECIAL[self._quote].search(cursor.text, cursor.at)
            end = found.start() if found else len(cursor.text)
            parts.append(json_string(cursor.text[cursor.at : end]))
            cursor.at = end
            if found is None:
                break
            piece = self._escape(cursor) if found[0] == "\\" else self._close(cursor)
            if piece is None:
                break
            parts.append(piece)
        return "".join(parts)

    def _close(self, cursor: Cursor) -> str | None:
        """At a quote."""
        following = cursor.peek(cursor.at + 1, _ENDS)
        if following is Peek.PENDING:
            return None
        cursor.at += 1
        if isinstance(following, Found):
            self.done = True
            return ""
        self.repaired = True
        return json_string(self._quote)

    def _escape(self, cursor: Cursor) -> str | None:
        """At a backslash; one that escapes nothing is text."""
        kind = cursor.text[cursor.at + 1 : cursor.at + 2]
        if not kind:
            return None
        digits = _CODE.get(kind, 0)
        code = _HEX.match(cursor.text, cursor.at + 2, cursor.at + 2 + digits)
        if digits and code is not None and len(code[0]) < digits and code.end() == len(cursor.text):
            return None
        if digits and code is not None and len(code[0]) == digits:
            cursor.at += 2 + digits
            # Pairs of surrogates stay the pair they are.
            return f"\\u{code[0].zfill(4)}" if digits == 4 else json_string(chr(int(code[0], 16)))
        cursor.at += 2
        return json_string(_ESCAPES.get(kind, "\\" + kind))
