"""Arguments in tags: strings raw, other values JSON between the same tags. Undeclared arguments are not written."""

from antiphon_parsers.forcing.chain import Tail, chain, joined
from antiphon_parsers.forcing.cost import literal_cost
from antiphon_parsers.forcing.forms import TagArguments
from antiphon_parsers.forcing.nodes import NOTHING, Exact, Node, Rules, Words, Written, said
from antiphon_parsers.forcing.rooms import divide_call
from antiphon_parsers.forcing.shapes import Anything, Choice, Listing, Literals, Mapping, Number, Shape, Text, bare_text
from antiphon_parsers.forcing.structure import forbidden_in_value
from antiphon_parsers.forcing.values import ValueLowering, tree_of


def tag_arguments(rules: Rules, form: TagArguments, shape: Mapping, room: int, close: str) -> Node:
    """All arguments, and the call's closing text."""
    keys = tuple(form.escape(member.key) for member in shape.members)
    writer = _Tags(rules, form, ValueLowering(rules, forbidden=forbidden_in_value(form.syntax, keys)), close)
    places, _ = divide_call(shape, room, markup=writer.markup)
    tail = chain(rules, places, Tail(None, NOTHING), writer.follow)
    opened = None if tail.more is None else rules.run(Exact(form.open), tail.more)
    empty = Exact(form.empty + close)
    if opened is None:
        return empty
    return opened if tail.end is None or shape.low > 0 else rules.either([opened, empty])


class _Tags:
    def __init__(self, rules: Rules, form: TagArguments, values: ValueLowering, close: str) -> None:
        self._rules = rules
        self._form = form
        self._values = values
        self._separator = form.close + form.open
        self._close = form.close + close
        self._kinds = dict(form.kinds)
        self.markup = literal_cost(form.open + max([form.key_end, *self._kinds.values()], key=len) + form.close) + 1

    def follow(self, key: str, shape: Shape, room: int, tail: Tail) -> Node:
        """Key, value and tail, behind the opening of the tag."""
        options = shape.options if isinstance(shape, Choice) else (shape,)
        if any(isinstance(option, Anything) and not option.only_objects for option in options):
            options = (Text(),)
        return self._rules.either(way for option in options for way in self._ways(self._form.escape(key), option, room, tail))

    def _ways(self, key: str, shape: Shape, room: int, tail: Tail) -> list[Node]:
        rules = self._rules
        if isinstance(shape, Text):
            return [rules.run(said(key), self._head("string"), self._raw(shape, room, tail))]
        behind = joined(rules, tail, Exact(self._separator), Exact(self._close))
        if not isinstance(shape, Literals):
            return [rules.run(said(key), self._head(_kind(shape)), self._values.value(shape, room), behind)]
        words: dict[str, list[str]] = {}
        for text in shape.texts:
            words.setdefault(self._head(_literal_kind(text)).text, []).append(bare_text(text))
        return [rules.run(said(key), Exact(head), Words(tuple(texts)), behind) for head, texts in words.items()]

    def _head(self, kind: str) -> Exact:
        return Exact(self._kinds.get(kind, self._form.key_end))

    def _raw(self, shape: Text, room: int, tail: Tail) -> Node:
        """A string as it is. Its end is what closes it and what goes on behind that: a closer by itself is part of it."""
        ways = [
            self._rules.run(
                Written(
                    form="raw",
                    room=room,
                    low=shape.low,
                    high=shape.high,
                    tree=tree_of(shape),
                    forbidden=self._values.forbidden,
                    end=text,
                ),
                node,
            )
            for text, node in ((self._separator, tail.more), (self._close, tail.end))
            if node is not None
        ]
        return self._rules.either(ways)


def _kind(shape: Shape) -> str:
    match shape:
        case Number():
            return "number"
        case Listing():
            return "array"
        case _:
            return "object"


def _literal_kind(text: str) -> str:
    return {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}.get(text[0], "number")
