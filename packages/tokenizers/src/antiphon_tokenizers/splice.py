"""Past turns through the frame: a template renders a slot as the turn's content, and everything between the frame's
header and its end of turn is replaced by the turn's own text (design: "Splicing"). Any token that ends generation also
ends a turn: in formats without an end of turn of their own it says who speaks next."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from antiphon_turns import Frame


class Spliced(NamedTuple):
    """`end` is the place behind the last turn put in (0: none); `missing` are the slots whose frame was not found."""

    text: str
    end: int
    missing: frozenset[str]


def splice(text: str, turns: Mapping[str, str], frame: Frame) -> Spliced:
    """Replaces each slot's frame content by its turn, in the order of `turns`; a turn that brings its own end replaces the
    frame's too. The text around a slot without a frame stays as it is."""
    own_ends = (frame.end_of_turn, *frame.stop_tokens)
    parts: list[str] = []
    missing: set[str] = set()
    cursor = size = end = 0
    for slot, turn in turns.items():
        place = text.find(slot, cursor)
        start = frame.header_end(text, cursor, place) if place >= 0 else -1
        found = _ends(frame).search(text, place + len(slot)) if start >= 0 else None
        stop = found.start() if found else -1
        # A header before the end means that the template left this turn's end out.
        if stop < 0 or (frame.assistant_header and frame.header_end(text, place, stop) >= 0):
            missing.add(slot)
            continue
        parts += (text[cursor:start], turn)
        size += start - cursor + len(turn)
        cursor, end = found.end() if found and turn.endswith(own_ends) else stop, size
    parts.append(text[cursor:])
    return Spliced("".join(parts), end, frozenset(missing))


@lru_cache(maxsize=16)
def _ends(frame: Frame) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, (frame.end_of_turn, *frame.stop_tokens))))
