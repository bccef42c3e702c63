"""From vocabulary entries to bytes, for the two ways vocabularies spell bytes."""

import re

_HEX_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _alphabet() -> dict[str, int]:
    """GPT-2's byte alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 upwards, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in printable}
    rest = [byte for byte in range(256) if byte not in set(printable)]
    return alphabet | {chr(0x100 + place): byte for place, byte in enumerate(rest)}


_BYTE_OF = _alphabet()
_TEXT_OF = {byte: char for char, byte in _BYTE_OF.items()}


def token_to_bytes(token: str, *, bytelevel: bool) -> bytes:
    """The bytes of one vocabulary entry: byte-level spelling, or SentencePiece spelling (U+2581 is a space,
    <0xNN> a byte). A byte-level entry with a foreign character is taken literally."""
    if not bytelevel:
        found = _HEX_BYTE.fullmatch(token)
        return bytes([int(found[1], 16)]) if found else token.replace("\u2581", " ").encode()
    try:
        return bytes([_BYTE_OF[char] for char in token])
    except KeyError:
        return token.encode()


def bytes_to_token(data: bytes) -> str:
    """The inverse of `token_to_bytes` for byte-level vocabularies."""
    return "".join(_TEXT_OF[byte] for byte in data)
