"""Framing of server-sent events: bytes only, no meaning.

Format: WHATWG HTML, section 9.2 (event stream). One event is `event:` line (optional), one `data:` line, blank line.
"""

import msgspec

_ENCODER = msgspec.json.Encoder()
_LINE_BREAKS = (("\u2028", b"\\u2028"), ("\u2029", b"\\u2029"), ("\x85", b"\\u0085"))
_LINE_BREAK_BYTES = tuple((char.encode(), escape) for char, escape in _LINE_BREAKS)

DONE = b"data: [DONE]\n\n"


def json_text(text: str) -> bytes:
    """`text` as a JSON string that no line splitter can cut: Unicode line breaks, which several
    clients' line readers honour inside a data line, leave as escapes."""
    encoded = _ENCODER.encode(text)
    if not text.isascii():
        for raw, escape in _LINE_BREAK_BYTES:
            if raw in encoded:
                encoded = encoded.replace(raw, escape)
    return encoded


def one_line(json: bytes) -> bytes:
    """The same JSON (compact already) without the line breaks that `json_text` keeps out."""
    if not json.isascii():
        for raw, escape in _LINE_BREAK_BYTES:
            if raw in json:
                json = json.replace(raw, escape)
    return json


def event(name: str, data: bytes) -> bytes:
    """A named event. `data` is one line of JSON."""
    return b"event: %b\ndata: %b\n\n" % (name.encode("ascii"), data)


def data(payload: bytes) -> bytes:
    """An unnamed event. `payload` is one line of JSON."""
    return b"data: %b\n\n" % payload


def comment(text: str) -> bytes:
    """A comment; every reader drops it. `text` is ASCII without line breaks."""
    return b": %b\n\n" % text.encode("ascii")
