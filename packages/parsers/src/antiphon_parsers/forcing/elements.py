"""Arguments as nested elements: every value between the tags of its name, items of lists in tags of their own.

A name has to stand in both tags, so undeclared members are not written.
"""

from collections.abc import Callable

from antiphon_parsers.engine.element_calls import ElementCalls
from antiphon_parsers.forcing.chain import Place, Tail, chain, joined
from antiphon_parsers.forcing.cost import least, literal_cost, most, weight
from antiphon_parsers.forcing.nodes import NOTHING, Exact, Node, Rules, Words, Written, said
from antiphon_parsers.forcing.rooms import divide_call, divide_evenly
from antiphon_parsers.forcing.shapes import Anything, Choice, Listing, Literals, Mapping, Never, Number, Shape, Text, bare_text
from antiphon_parsers.forcing.structure import Run, forbidden_in_element
from antiphon_parsers.forcing.values import DECENT, item_counts, number_node, tree_of

_MAX_ITEMS = 32
_ITEM = "item"


def element_arguments(rules: Rules, syntax: ElementCalls, shape: Mapping, room: int, close: str, is_text: Callable[[str], bool]) -> Node:
    """All arguments, and the call's closing text. `is_text`: whether the parser reads a parameter as text and nothing else."""
    writer = _Elements(rules, syntax)
    places, _ = divide_call(shape, room, markup=writer.markup)
    first = f"{syntax.marker}<"

    def follow(key: str, value: Shape, space: int, tail: Tail) -> Node:
        name = rules.run(said(key), Exact(">"))
        if not (isinstance(value, Text) and is_text(key)):
            return rules.run(name, writer.value(value, space, f"{syntax.marker}</{key}>"), joined(rules, tail, Exact(first), Exact(close)))
        # One end for both ways on: the first place where one of them can stand is a beginning of the other's.
        text = text_until(value, space, f"{syntax.marker}</{key}>{syntax.marker}", forbidden_in_element(syntax, key))
        ways = joined(rules, tail, Exact("<"), Exact(close.removeprefix(syntax.marker)))
        return rules.run(name, text, ways)

    tail = chain(rules, places, Tail(None, NOTHING), follow)
    if tail.more is None:
        return Exact(close)
    return joined(rules, tail if shape.low == 0 else Tail(tail.more, None), Exact(first), Exact(close))


def text_until(shape: Text, room: int, end: str, forbidden: tuple[Run, ...]) -> Written:
    """Raw text and what ends it."""
    return Written(form="raw", room=room, low=shape.low, high=shape.high, tree=tree_of(shape), forbidden=forbidden, end=end)


class _Elements:
    def __init__(self, rules: Rules, syntax: ElementCalls) -> None:
        self._rules = rules
        self._marker = syntax.marker
        self._forbidden: tuple[Run, ...] = (((f"{syntax.marker}<",),),)
        self.markup = 2 * literal_cost(f"{syntax.marker}</>") + 8

    def value(self, shape: Shape, room: int, end: str) -> Node:
        """A value between its tags, and the closing one."""
        rules = self._rules
        match shape:
            case Choice():
                return rules.either(self.value(option, room, end) for option in shape.options)
            case Literals():
                words = tuple(bare_text(text) for text in shape.texts if text[0] not in "[{")
                return rules.run(Words(words), Exact(end)) if words else Exact(end)
            case Number():
                return rules.run(number_node(shape, room), Exact(end))
            case Listing():
                return self._listing(shape, room, end)
            case Mapping():
                return self._mapping(shape, room, end)
            case Anything(only_objects=True):
                return Exact(end)
            case Text():
                return text_until(shape, room, end, self._forbidden)
            case Anything() | Never():
                return text_until(Text(), room, end, self._forbidden)

    def _element(self, name: str, shape: Shape, room: int) -> Node:
        return self._rules.run(Exact(f"{self._marker}<"), said(name), Exact(">"), self.value(shape, room, f"{self._marker}</{name}>"))

    def _listing(self, shape: Listing, room: int, end: str) -> Node:
        tags = self._tags(shape.rest)
        heads = [self._element(_ITEM, item, least(item) + self._tags(item) + self.markup) for item in shape.first]
        left = room - sum(least(item) + self._tags(item) + 2 * self.markup for item in shape.first)
        low = max(0, shape.low - len(heads))
        high = _MAX_ITEMS if shape.high is None else shape.high - len(heads)
        need = least(shape.rest) + tags + self.markup
        each = min(most(shape.rest), DECENT * weight(shape.rest) + least(shape.rest)) + tags + self.markup
        count = max(low, min(high, _MAX_ITEMS, left // need, max(1, left // each)))
        if count <= 0:
            return self._rules.run(*heads, Exact(end))
        rooms = {size: min(most(shape.rest) + tags, left // size - self.markup) for size in item_counts(low, count, left)}
        items = [self._rules.several(self._element(_ITEM, shape.rest, given), low, size) for size, given in rooms.items()]
        return self._rules.run(*heads, self._rules.either(items), Exact(end))

    def _tags(self, shape: Shape) -> int:
        """Tokens of the tags within a value, one item a list."""
        match shape:
            case Mapping():
                return sum(self.markup + self._tags(member.shape) for member in shape.members)
            case Listing():
                return self.markup + self._tags(shape.rest)
            case Choice():
                return max(map(self._tags, shape.options))
            case _:
                return 0

    def _mapping(self, shape: Mapping, room: int, end: str) -> Node:
        places, _ = divide_evenly(shape, room, markup=self.markup)
        return self._rules.run(*map(self._part, places), Exact(end))

    def _part(self, place: Place) -> Node:
        element = self._element(place.member.key, place.member.shape, place.ordinary)
        return element if place.member.required else self._rules.several(element, 0, 1)
