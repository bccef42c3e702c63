"""Ids on the wire. They carry the turn tag and the segment index, so that order and replay records can be
found again from what a client sends back. Randomness is passed in."""

import base64
import re

TAG_BYTES = 10
_CALL = re.compile(r"call([a-z2-7]{16})([0-9]{1,6})", re.ASCII)
_CARRIER = re.compile(r"antiphon\.([a-z2-7]{16})\.([0-9]{1,6})(?:\.([A-Za-z0-9_-]+))?", re.ASCII)


def turn_tag(random: bytes) -> str:
    """80 random bits as 16 characters of lower-case base32. `random` must be TAG_BYTES long."""
    if len(random) != TAG_BYTES:
        raise ValueError(f"a turn tag needs {TAG_BYTES} bytes")
    return base64.b32encode(random).decode("ascii").lower()


def call_id(tag: str, index: int) -> str:
    """`call_` + tag + segment index: at most 27 characters, alphanumerics only after the prefix."""
    return f"call_{tag}{index}"


def fold(wire_id: str) -> str:
    """The form in which call ids are compared: some clients drop every character that is not alphanumeric."""
    return "".join(c for c in wire_id if c.isascii() and c.isalnum())


def split_call_id(wire_id: str) -> tuple[str, int] | None:
    """(turn tag, segment index) of one of our ids, as sent or folded."""
    found = _CALL.fullmatch(fold(wire_id))
    return (found[1], int(found[2])) if found else None


def carrier(tag: str, index: int, seal: str = "") -> str:
    """The value a reasoning segment carries: turn tag, segment index and, if there is one, the seal (base64url text)."""
    return f"antiphon.{tag}.{index}.{seal}" if seal else f"antiphon.{tag}.{index}"


def split_carrier(value: str) -> tuple[str, int] | None:
    """(turn tag, segment index) of one of our carriers, sealed or not; None for anything else. Neither is proved by this."""
    found = _CARRIER.fullmatch(value)
    return (found[1], int(found[2])) if found else None


def seal_of(value: str) -> str:
    """The seal within one of our carriers; "" where there is none."""
    found = _CARRIER.fullmatch(value)
    return (found[3] or "") if found else ""
