"""Ids on the wire. They carry the turn tag and the segment index, so that order and replay records can be
found again from what a client sends back. Randomness is passed in."""

import base64
import re

TAG_BYTES = 10
_CALL = re.compile(r"call([a-z2-7]{16})([0-9]{1,6})")


def turn_tag(random: bytes) -> str:
    """80 random bits as 16 characters of lower-case base32. `random` must be TAG_BYTES long."""
    if len(random) != TAG_BYTES:
        raise ValueError(f"a turn tag needs {TAG_BYTES} bytes")
    return base64.b32encode(random).decode("ascii").lower()


def call_id(tag: str, index: int) -> str:
    """`call_` + tag + segment index: at most 27 characters, alphanumerics only after the prefix."""
    return f"call_{tag}{index}"


def split_call_id(wire_id: str) -> tuple[str, int] | None:
    """(turn tag, segment index) of one of our ids, also after a client dropped its non-alphanumerics."""
    found = _CALL.fullmatch("".join(c for c in wire_id if c.isalnum()))
    return (found[1], int(found[2])) if found else None


def carrier(tag: str, index: int) -> str:
    """The value a reasoning segment carries until seals exist: turn tag + segment index."""
    return f"antiphon.{tag}.{index}"


def split_carrier(value: str) -> tuple[str, int] | None:
    """(turn tag, segment index) of one of our carriers, None for anything else."""
    parts = value.split(".")
    if len(parts) != 3 or parts[0] != "antiphon" or not parts[2].isdecimal():
        return None
    return parts[1], int(parts[2])
