"""Shapes as grammar nodes in a notation, within a token budget.

No free white space, members in schema order. Every string, list and number gets a bound from the budget, because a small model at
temperature 0 never ends them by itself. `after` is the text that follows a value: it is part of the node, since raw text ends
where its end and what follows stand together.
"""

from collections.abc import Sequence

from antiphon_parsers.forcing.chain import Place, Tail, chain, joined
from antiphon_parsers.forcing.cost import JSON_MARKUP, least, most, shares, weight
from antiphon_parsers.forcing.forms import JSON, ValueNotation
from antiphon_parsers.forcing.nodes import NOTHING, Exact, Key, Node, Pattern, Rules, Words, Written, said
from antiphon_parsers.forcing.numbers import integer_regex, number_regex
from antiphon_parsers.forcing.pattern_reader import read
from antiphon_parsers.forcing.patterns import Tree
from antiphon_parsers.forcing.rooms import divide_evenly
from antiphon_parsers.forcing.shapes import Anything, Choice, Listing, Literals, Mapping, Never, Number, Shape, Text, json_text
from antiphon_parsers.forcing.structure import Run

FORMS = {
    "date": r"[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])",
    "time": r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
}
FORMS["date-time"] = rf"{FORMS['date']}T{FORMS['time']}"
EXTRA_MEMBERS = 8
_MAX_ITEMS = 64
_MAX_DIGITS = 15
_ENTRY_ROOM = 40  # tokens an entry of an undescribed container needs at least
_KEY_ROOM = 22
_FEW, _FEW_ROOM = 4, 128
DECENT = 24  # tokens that every string of a list's items gets, where there is room for more than one item
_WORD = "[A-Za-z_][A-Za-z0-9_]{0,23}"


def tree_of(shape: Text) -> Tree | None:
    """What the text must match, None when that is anything."""
    return read(FORMS[shape.form]) if shape.form is not None else shape.tree


def item_counts(low: int, count: int, room: int) -> list[int]:
    """How many items a list may have: `count`, or few with more room each."""
    return [max(low, _FEW), count] if low < count > _FEW and room >= _FEW_ROOM else [count]


def number_node(shape: Number, room: int) -> Node:
    """A number; spelled alike in every notation."""
    digits = max(1, min(_MAX_DIGITS, (room - 2) if shape.kind == "integer" else (room - 3) // 2))
    if shape.kind == "integer" or shape.multiple is not None:
        return Pattern(integer_regex(shape.low, shape.high, digits=digits, multiple=shape.multiple))
    return Pattern(number_regex(shape.low, shape.high, digits=digits))


class ValueLowering:
    """Lowers values into one `Rules`. Every method gives a node of at most `room` tokens where that is possible. `forbidden`: runs of
    tags that no string may hold."""

    def __init__(self, rules: Rules, notation: ValueNotation = JSON, forbidden: tuple[Run, ...] = ()) -> None:
        self._rules = rules
        self._notation = notation
        self._raw = notation.quote not in ('"', "'")
        self.forbidden: tuple[Run, ...] = (((notation.quote,), notation.ends),) if self._raw else forbidden
        self._known: dict[tuple[int, int, str], tuple[Shape, Node]] = {}

    def value(self, shape: Shape, room: int, after: str = "") -> Node:
        """A value of the shape, and `after`."""
        key = (id(shape), room, after)
        if key not in self._known:
            self._known[key] = (shape, self._rules.rule(self._value(shape, room, after)))
        return self._known[key][1]

    def _value(self, shape: Shape, room: int, after: str) -> Node:
        rules = self._rules
        match shape:
            case Literals():
                words = tuple(self._notation.spell(text) for text in shape.texts)
                return rules.run(Words(words) if len(words) > 1 else said(words[0]), Exact(after))
            case Text():
                return self._text(shape, room, after)
            case Number():
                return rules.run(number_node(shape, room), Exact(after))
            case Listing():
                return self._listing(shape, room, after)
            case Mapping():
                return self._mapping(shape, room, after)
            case Choice():
                return rules.either(self.value(option, room, after) for option in shape.options)
            case Anything():
                return self._anything(room, shape.nesting, after, only_objects=shape.only_objects)
            case Never():
                return self._anything(room, 0, after, only_objects=False)

    def _text(self, shape: Text, room: int, after: str) -> Node:
        quote, tree = self._notation.quote, tree_of(shape)
        if self._raw:
            text = Written(
                form="raw", room=room - 2, low=shape.low, high=shape.high, tree=tree, forbidden=self.forbidden, end=quote + after
            )
            return self._rules.run(Exact(quote), text)
        form = Written(
            form="json" if quote == '"' else "python",
            room=room - 2,
            low=shape.low,
            high=shape.high,
            tree=tree,
            forbidden=self.forbidden,
        )
        return self._rules.run(form, Exact(after))

    def _listing(self, shape: Listing, room: int, after: str) -> Node:
        rules, separator, close = self._rules, self._notation.item, "]" + after
        firsts = shares(room - 2, [(least(item) + 2, most(item) + 2, weight(item)) for item in shape.first])
        left = room - 2 - sum(firsts)
        heads = len(shape.first)
        low = max(0, shape.low - heads)
        high = _MAX_ITEMS if shape.high is None else shape.high - heads
        count = max(low, min(high, _MAX_ITEMS, left // (least(shape.rest) + 2), self._affordable(shape.rest, left)))
        tail: Tail = Tail(None, NOTHING if low == 0 else None)
        if count > 0:
            rooms = {size: min(left // size - 2, most(shape.rest)) for size in item_counts(low, count, left)}
            ways = [self._items(shape.rest, given, (max(1, low), size), close) for size, given in rooms.items()]
            tail = Tail(rules.either(ways), tail.end)
        for item, given in zip(reversed(shape.first), reversed(firsts), strict=True):
            ways = [
                rules.run(self.value(item, given - 2, text), node)
                for text, node in ((separator, tail.more), (close, tail.end))
                if node is not None
            ]
            tail = Tail(rules.either(ways), None)
        return rules.run(Exact("["), joined(rules, tail, NOTHING, Exact(close)))

    def _items(self, item: Shape, room: int, counts: tuple[int, int], close: str) -> Node:
        low, high = counts
        more = self.value(item, room, self._notation.item)
        return self._rules.run(self._rules.several(more, low - 1, high - 1), self.value(item, room, close))

    def _affordable(self, item: Shape, room: int) -> int:
        """How many items, so that each still has a decent size."""
        if most(item) <= 64:
            return max(1, room // (most(item) + 2))
        return max(1, min(32 // weight(item), room // (least(item) + DECENT * weight(item))))

    def _mapping(self, shape: Mapping, room: int, after: str) -> Node:
        """An object; members the room cannot hold even at their smallest are left out if optional."""
        places, extra_room = divide_evenly(shape, room, markup=JSON_MARKUP)
        return self.members(shape, places, extra_room, after)

    def members(self, shape: Mapping, places: Sequence[Place], extra_room: int, after: str = "") -> Node:
        """An object of these members, each within its room."""
        rules, close = self._rules, "}" + after
        extra = self._extra(shape, extra_room, close)
        tail = chain(rules, places, Tail(extra, NOTHING), lambda key, value, room, tail: self._member(key, value, room, tail, close))
        if tail.more is None:
            return Exact("{" + close)
        return rules.run(Exact("{"), joined(rules, tail if shape.low == 0 else Tail(tail.more, None), NOTHING, Exact(close)))

    def _member(self, key: str, shape: Shape, room: int, tail: Tail, close: str) -> Node:
        name = self._rules.run(said(self._key(key)), Exact(self._notation.assign))
        return self.followed(name, shape, room, tail, (self._notation.item, close))

    def followed(self, name: Node, shape: Shape, room: int, tail: Tail, texts: tuple[str, str]) -> Node:
        """A name, a value and a tail; `texts` are the separator and the closing text."""
        rules = self._rules
        if not self._raw:
            return rules.run(name, self.value(shape, room), joined(rules, tail, Exact(texts[0]), Exact(texts[1])))
        ways = [
            rules.run(self.value(shape, room, text), node)
            for text, node in zip(texts, (tail.more, tail.end), strict=True)
            if node is not None
        ]
        return rules.run(name, rules.either(ways))

    def _key(self, key: str) -> str:
        notation = self._notation
        if notation.bare_keys and read_word(key):
            return key
        return notation.spell(json_text(key))

    def _extra(self, shape: Mapping, room: int, close: str) -> Node | None:
        """Undeclared members up to the end: a word that is no declared key, and its value; None when the object may not have any."""
        each = room // (EXTRA_MEMBERS + 1)
        limit = EXTRA_MEMBERS if shape.high is None else min(EXTRA_MEMBERS, shape.high - len(shape.members))
        if shape.extra is None or limit <= 0 or each < 40 or (shape.members and self._notation != JSON):
            return None
        key: Node = Key(tuple(member.key for member in shape.members))
        return self._pairs(key if self._notation == JSON else self._word(), shape.extra, each - 30, (max(1, shape.low), limit), close)

    def _word(self) -> Node:
        return Pattern(_WORD) if self._notation.bare_keys else Pattern(f"'{_WORD}'")

    def _pairs(self, key: Node, shape: Shape, room: int, counts: tuple[int, int], close: str) -> Node:
        rules = self._rules
        start = rules.run(key, Exact(self._notation.assign))
        more = rules.run(start, self.value(shape, room, self._notation.item))
        high = max(counts)
        return rules.run(rules.several(more, counts[0] - 1, high - 1), start, self.value(shape, room, close))

    def _anything(self, room: int, depth: int, after: str, *, only_objects: bool) -> Node:
        rules, spell = self._rules, self._notation.spell
        words = rules.run(Words(tuple(map(spell, ("true", "false", "null")))), Exact(after))
        scalars = [self._text(Text(), room, after), words, rules.run(number_node(Number("number"), min(room, 24)), Exact(after))]
        inner = Anything(nesting=depth - 1)
        # Many small entries, or two with room for entries of their own.
        counts = sorted({min(most_entries, room // _ENTRY_ROOM) for most_entries in (2, EXTRA_MEMBERS)} - {0}) if depth > 0 else []
        key = Key(()) if self._notation == JSON else self._word()
        mappings: list[Node] = [Exact("{}" + after)]
        mappings += [rules.run(Exact("{"), self._pairs(key, inner, room // count - _KEY_ROOM, (1, count), "}" + after)) for count in counts]
        if only_objects:
            return rules.either(mappings)
        listings: list[Node] = [Exact("[]" + after)] if counts else []
        listings += [rules.run(Exact("["), self._items(inner, room // count - 3, (1, count), "]" + after)) for count in counts]
        return rules.either([*map(rules.rule, scalars), *listings, *(mappings if counts else ())])


def read_word(key: str) -> bool:
    """Whether a key can stand without quotes."""
    return key.isascii() and key.replace("$", "_").replace(".", "_").replace("-", "_").isidentifier()
