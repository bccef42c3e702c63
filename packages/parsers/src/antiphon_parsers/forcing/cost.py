"""What a shape costs, in tokens: how little room a value of it needs and how much it could use.

The unit is a bound, not an estimate, for text the model invents (one token per byte), and generous for text the grammar
dictates (one token per two bytes): no tokenizer splits familiar words further.
"""

from collections.abc import Sequence

from antiphon_parsers.forcing.patterns import shortest
from antiphon_parsers.forcing.shapes import Anything, Choice, Listing, Literals, Mapping, Never, Number, Shape, Text

ENDLESS = 1 << 40
JSON_MARKUP = 4
_FORM_COST = {"date": 14, "time": 12, "date-time": 24, "uuid": 40}
_PATTERN_COST = 40
_ENTRY = 2  # brackets of a container; a separator between entries


def literal_cost(text: str) -> int:
    """Tokens the grammar's own text takes at most."""
    return len(text.encode("utf-8", "replace")) // 2 + 1


def key_cost(key: str) -> int:
    """The same for a member's key in JSON, with its separators."""
    return literal_cost(key) + JSON_MARKUP


def least(shape: Shape) -> int:
    """Tokens the smallest value needs."""
    match shape:
        case Literals():
            return max(literal_cost(text) for text in shape.texts)
        case Text():
            if shape.form is not None:
                return _FORM_COST[shape.form]
            return max(_PATTERN_COST if shape.tree else 0, 3 + 2 * max(shape.low, shortest(shape.tree) or 0 if shape.tree else 0))
        case Number():
            return 4 + max(len(str(bound)) for bound in (shape.low or 0, shape.high or 0))
        case Listing():
            items = [*shape.first[: shape.low], *[shape.rest] * (max(0, shape.low - len(shape.first)))]
            return _ENTRY + sum(least(item) + _ENTRY for item in items)
        case Mapping():
            return _ENTRY + sum(key_cost(member.key) + least(member.shape) for member in shape.members if member.required)
        case Choice():
            return max(least(option) for option in shape.options)
        case Anything():
            return 4
        case Never():
            return 0


def most(shape: Shape) -> int:
    """Tokens the largest value could use; ENDLESS when only the budget bounds it."""
    match shape:
        case Literals() | Never():
            return least(shape)
        case Number():
            return max(least(shape), 24)
        case Text():
            if shape.form:
                return least(shape)
            return ENDLESS if shape.high is None else max(least(shape), 3 + 2 * shape.high)
        case Listing():
            if shape.high is None:
                return ENDLESS
            items = [*shape.first[: shape.high], *[shape.rest] * min(1, max(0, shape.high - len(shape.first)))]
            return min(ENDLESS, _ENTRY + shape.high * (_ENTRY + max(map(most, items), default=0)))
        case Mapping():
            extra = 0 if shape.extra is None else ENDLESS
            return min(ENDLESS, extra + _ENTRY + sum(key_cost(member.key) + most(member.shape) for member in shape.members))
        case Choice():
            return max(map(most, shape.options))
        case Anything():
            return ENDLESS


def weight(shape: Shape) -> int:
    """How strongly a shape asks for room beside others: the strings it may hold, roughly."""
    match shape:
        case Listing():
            return 2 * max((weight(item) for item in (*shape.first, shape.rest)), default=1)
        case Mapping():
            return max(1, sum(weight(member.shape) for member in shape.members))
        case Choice():
            return max(map(weight, shape.options))
        case Anything():
            return 2
        case _:
            return 1


def shares(room: int, wants: Sequence[tuple[int, int, int]]) -> list[int]:
    """Divides `room` among (least, most, weight) claims: everyone gets its least, the rest goes by weight up to its most."""
    given = [low for low, _, _ in wants]
    left = max(0, room - sum(given))
    growing = [k for k, (low, high, _) in enumerate(wants) if high > low]
    while left > 0 and growing:
        total = sum(wants[k][2] for k in growing)
        unit = left // total
        if unit == 0:
            break
        for k in growing:
            step = min(unit * wants[k][2], wants[k][1] - given[k])
            given[k] += step
            left -= step
        growing = [k for k in growing if given[k] < wants[k][1]]
    return given
