"""Members in their order, optional ones skipped at will, at most one of them big."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from antiphon_parsers.forcing.nodes import Node, Rules
from antiphon_parsers.forcing.shapes import Member, Shape


class Tail(NamedTuple):
    """What can follow a member: `more` behind the separator, `end` behind the closing text. None: that cannot be."""

    more: Node | None
    end: Node | None


class Place(NamedTuple):
    """A member and its rooms in tokens: its share, and (one member of a chain at most) nearly all there is."""

    member: Member
    ordinary: int
    big: int | None = None


Follow = Callable[[str, Shape, int, Tail], Node]
"""Name, value of the shape within the room, then the tail."""


def chain(rules: Rules, places: Sequence[Place], last: Tail, follow: Follow) -> Tail:
    """The members from the first on, as the tail of what stands before them. Built from the end; `last` follows the last one."""
    plain = big = last
    may_be_big = any(place.big is not None for place in places)
    for place in reversed(places):
        ways = [_way(place, place.ordinary, plain, follow)]
        if place.big is not None:
            ways.append(_way(place, place.big, big, follow))
        before = _before(rules, place, ways, plain)
        big = _before(rules, place, [_way(place, place.ordinary, big, follow)], big) if may_be_big else before
        plain = before
    return plain


def _way(place: Place, room: int, tail: Tail, follow: Follow) -> Node | None:
    dead = tail.more is None and tail.end is None
    return None if dead else follow(place.member.key, place.member.shape, room, tail)


def _before(rules: Rules, place: Place, ways: Sequence[Node | None], after: Tail) -> Tail:
    options = [way for way in ways if way is not None]
    if not place.member.required and after.more is not None:
        options.append(after.more)
    return Tail(rules.either(options) if options else None, None if place.member.required else after.end)


def joined(rules: Rules, tail: Tail, separator: Node, closing: Node) -> Node:
    """The tail with its texts in front, as one node; the tail is not dead."""
    ways = [rules.run(text, node) for text, node in ((separator, tail.more), (closing, tail.end)) if node is not None]
    return rules.either(ways)
