"""Shapes lowered to llguidance Lark (the dialect's syntax is described in llguidance's docs/syntax.md), within a token budget.

No free white space, the separators ", " and ": ", members in schema order. Every string, list and number gets a bound from the
budget, because a small model at temperature 0 never ends them by itself.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from antiphon_parsers.number_lark import integer_regex, number_regex
from antiphon_parsers.schema_cost import JSON_MARKUP, key_cost, least, literal_cost, most, shares, weight
from antiphon_parsers.schema_shape import Anything, Choice, Listing, Literals, Mapping, Member, Never, Number, Shape, Text, json_text

_PLAIN = r'[^"\\\x00-\x1F\x7F-\u{10FFFF}]|\\["\\bfnrt]'  # a JSON character of one byte, or a short escape
_WIDE = r"[\u{80}-\u{10FFFF}]"
FORMS = {
    "date": r"[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])",
    "time": r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
}
FORMS["date-time"] = rf"{FORMS['date']}T{FORMS['time']}"
_MAX_ITEMS = 64
_MAX_DIGITS = 15
EXTRA_MEMBERS = 8
_ANYTHING_DEPTH = 2


State = tuple[bool, bool]
"""Where a chain of members stands: (one was written, a big one was written)."""


class Variant(NamedTuple):
    """Bodies of one member's value: within its share of the room, and with nearly all of it (one member of a chain at most)."""

    ordinary: str
    big: str | None = None


class Lark:
    """A grammar text in the making: rules and terminals named by number, equal bodies only once."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def rule(self, body: str) -> str:
        """The name of a rule with this body."""
        return self._names.setdefault(body, f"r{len(self._names)}")

    def terminal(self, body: str) -> str:
        """The name of a terminal (one lexeme) with this body."""
        return self._names.setdefault(body, f"T{len(self._names)}")

    def rule_ending(self, terminal: str, suffix: str) -> str:
        """The name of a rule: the shortest text of the terminal that `suffix` can follow, and the suffix."""
        return self._names.setdefault(f"{terminal}\0{suffix}", f"s{len(self._names)}")

    def text(self, start: str) -> str:
        """The whole grammar; `start` is the body of the root."""
        lines = [_definition(name, body) for body, name in self._names.items()]
        return "\n".join(["%llguidance {}", f"start: {start}", *lines, ""])


def _definition(name: str, body: str) -> str:
    terminal, ends, suffix = body.partition("\0")
    return f"{name}[suffix={literal(suffix)}]: {terminal}" if ends else f"{name}: {body}"


def literal(text: str) -> str:
    """A Lark string for exactly this text."""
    return json.dumps(text, ensure_ascii=False)


def more_of(body: str, low: int, high: int) -> str:
    """`low` to `high` further entries of a list, each behind its separator; nothing for none (the dialect refuses {0,0})."""
    return f'( ", " {body} ){{{low},{high}}}' if high > 0 else ""


def any_of(bodies: Iterable[str]) -> str:
    """One of several bodies."""
    distinct = list(dict.fromkeys(bodies))
    return distinct[0] if len(distinct) == 1 else "( " + " | ".join(distinct) + " )"


def bounded(plain: str, wide: str, low: int, room: int, high: int | None) -> str:
    """Terminal body: `low` to `high` characters that never take more than `room` tokens.

    A plain character takes one token at most, a wide one four. Mostly plain text gets most of the room as characters, text in
    other scripts a third of that.
    """
    size = max(low, 1, min(room * 8 // 11, 1 << 30 if high is None else high))
    if high == 0:
        return '""'
    mixed = f"/({plain}|{wide}){{{low},{size}}}/"
    if room >= 4 * size:
        return mixed
    sparse = f"/(({plain})*{wide}){{0,{size // 8}}}({plain})*/"
    third = max(1, size // 3)
    return f"({mixed} & {sparse})" + (f" | /({plain}|{wide}){{{low},{third}}}/" if third >= low else "")


def unanchored(pattern: str) -> str:
    """Terminal body of the texts in which a vetted pattern is found; its anchors count at the outer ends only."""
    any_text = "(?s:.)*"
    opens, closes = pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")
    inner = pattern.removeprefix("^")
    inner = inner.removesuffix("$") if closes else inner
    escaped = re.sub(r"(?<!\\)((?:\\\\)*)/", r"\1\\/", inner)
    return f"/{'' if opens else any_text}({escaped}){'' if closes else any_text}/"


def without(words: Sequence[str]) -> str:
    """Regular expression of the texts in which none of these words occurs. Each begins with "<" and has no other one.

    Written out as what may follow each "<", because complements (`~`) exceed llguidance's limits on ordinary text.
    """
    begun, broken = _trie([word[1:] for word in words])
    return f"([^<]|(<{begun})*<{broken})*(<{begun})*"


def _trie(words: Sequence[str]) -> tuple[str, str]:
    """Of what follows a "<": the beginnings of words, none of them whole; and the shortest texts that are none."""
    heads: dict[str, list[str]] = {}
    for word in words:
        heads.setdefault(word[0], []).append(word[1:])
    begun: list[str] = []
    broken = ["[^<" + "".join(re.escape(head).replace("/", "\\/") for head in heads) + "]"]
    for head, rests in heads.items():
        if "" not in rests:
            inner_begun, inner_broken = _trie(rests)
            escaped = re.escape(head).replace("/", "\\/")
            begun.append(escaped + inner_begun)
            broken.append(escaped + inner_broken)
    return (f"({'|'.join(begun)})?" if begun else ""), f"({'|'.join(broken)})"


class ValueLowering:
    """Lowers JSON values into one `Lark`. Every method returns a rule body of at most `room` tokens where that is possible."""

    def __init__(self, lark: Lark) -> None:
        self._lark = lark

    def value(self, shape: Shape, room: int) -> str:
        match shape:
            case Literals():
                return self._lark.terminal(any_of(literal(text) for text in shape.texts))
            case Text():
                return self._text(shape, room)
            case Number():
                return self.number(shape, room)
            case Listing():
                return self._listing(shape, room)
            case Mapping():
                return self.mapping(shape, room)
            case Choice():
                return self._lark.rule(any_of(self.value(option, room) for option in shape.options))
            case Anything():
                return self._anything(room, _ANYTHING_DEPTH, only_objects=shape.only_objects)
            case Never():
                return self._anything(room, 0, only_objects=False)

    def _text(self, shape: Text, room: int) -> str:
        if shape.form is not None:
            return self._lark.terminal(f'"\\"" /{FORMS[shape.form]}/ "\\""')
        if shape.pattern is not None:
            high = max(shape.low, room - 2) if shape.high is None else shape.high
            schema = {"type": "string", "pattern": shape.pattern, "minLength": shape.low, "maxLength": high}
            return self._lark.rule(f"%json {json.dumps(schema)}")
        return self._lark.terminal(f'"\\"" ({bounded(_PLAIN, _WIDE, shape.low, room - 2, shape.high)}) "\\""')

    def number(self, shape: Number, room: int) -> str:
        """Numbers are spelled alike in JSON and as bare text."""
        digits = max(1, min(_MAX_DIGITS, (room - 2) if shape.kind == "integer" else (room - 3) // 2))
        if shape.kind == "integer" or shape.multiple is not None:
            regex = integer_regex(shape.low, shape.high, digits=digits, multiple=shape.multiple)
        else:
            regex = number_regex(shape.low, shape.high, digits=digits)
        return self._lark.terminal(f"/{regex}/")

    def _listing(self, shape: Listing, room: int) -> str:
        lark = self._lark
        firsts = shares(room - 2, [(least(item) + 2, most(item) + 2, weight(item)) for item in shape.first])
        heads = [self.value(item, given - 2) for item, given in zip(shape.first, firsts, strict=True)]
        left = room - 2 - sum(firsts)
        low = max(0, shape.low - len(heads))
        high = _MAX_ITEMS if shape.high is None else shape.high - len(heads)
        count = max(low, min(high, _MAX_ITEMS, left // (least(shape.rest) + 2), self._affordable(shape.rest, left)))
        if count <= 0:
            return lark.rule(" ".join(['"["', *_joined(heads), '"]"']))
        each = min(left // count - 2, most(shape.rest))
        item = self.value(shape.rest, each)
        if heads:
            more = more_of(item, low, count)
            return lark.rule(" ".join(['"["', *_joined(heads), more, '"]"']))
        some = f"{item} {more_of(item, max(0, low - 1), count - 1)}"
        return lark.rule(f'"[" {some} "]"' if low else f'"[" ( {some} )? "]"')

    def _affordable(self, item: Shape, room: int) -> int:
        """How many items, so that each still has a decent size."""
        if most(item) <= 64:
            return room // (most(item) + 2)
        return max(1, min(32 // weight(item), room // (least(item) + 24)))

    def mapping(self, shape: Mapping, room: int) -> str:
        """An object; members the room cannot hold even at their smallest are left out if optional."""
        fitting, claims = fit_members(shape, room, markup=JSON_MARKUP)
        rooms = shares(room - 2, claims)
        variants = [Variant(self.value(member.shape, rooms[k] - key_cost(member.key))) for k, member in enumerate(fitting)]
        return self.members(shape, fitting, variants, rooms[-1] if shape.extra is not None else 0)

    def members(self, shape: Mapping, fitting: Sequence[Member], variants: Sequence[Variant], extra_room: int) -> str:
        """An object whose members' values are lowered already."""
        endings = self._endings(self._extra(shape, extra_room), at_least_one=shape.low > 0)
        return self._lark.rule(f'"{{" {chain(self._lark, fitting, variants, endings, _json_key)}')

    def _endings(self, extra: str | None, *, at_least_one: bool) -> dict[State, str | None]:
        """What may follow the declared members, by state."""
        written: str = '"}"'
        bare: str | None = None if at_least_one else '"}"'
        if extra is not None:
            written = self._lark.rule(f"{more_of(extra, 0, EXTRA_MEMBERS - 1)} {written}")
            bare = self._lark.rule(f"{extra} {written}" + ("" if at_least_one else ' | "}"'))
        return {(False, False): bare, (False, True): bare, (True, False): written, (True, True): written}

    def _extra(self, shape: Mapping, room: int) -> str | None:
        """An undeclared member: a word that is no declared key, and its value; None when the object may not have one."""
        each = room // (EXTRA_MEMBERS + 1)
        closed = shape.high is not None and shape.high < len(shape.members) + EXTRA_MEMBERS
        if shape.extra is None or closed or each < 40:
            return None
        word = "/[A-Za-z_][A-Za-z0-9_.-]{0,23}/"
        taken = [literal(member.key) for member in shape.members]
        free = f"({word} & ~({' | '.join(taken)}))" if taken else word
        key = self._lark.terminal(f'"\\"" {free} "\\""')
        return self._lark.rule(f'{key} ": " {self.value(shape.extra, each - 30)}')

    def _anything(self, room: int, depth: int, *, only_objects: bool) -> str:
        lark = self._lark
        string = self._text(Text(), room)
        scalars = [string, lark.terminal('"true" | "false" | "null"'), self.number(Number("number"), min(room, 24))]
        count = min(8, room // 40)
        if depth == 0 or count == 0:
            return '"{}"' if only_objects else lark.rule(any_of(scalars))
        each = room // count
        item = self._anything(each - 3, depth - 1, only_objects=False)
        key = lark.terminal('"\\"" /[A-Za-z_][A-Za-z0-9_.-]{0,15}/ "\\""')
        pair = f'{key} ": " {self._anything(each - 22, depth - 1, only_objects=False)}'
        mapping = lark.rule(f'"{{" ( {pair} {more_of(pair, 0, count - 1)} )? "}}"')
        listing = lark.rule(f'"[" ( {item} {more_of(item, 0, count - 1)} )? "]"')
        return mapping if only_objects else lark.rule(any_of([*scalars, listing, mapping]))


def _json_key(name: str, state: State) -> str:
    return literal((", " if state[0] else "") + json_text(name) + ": ")


def chain(
    lark: Lark, members: Sequence[Member], variants: Sequence[Variant], endings: dict[State, str | None], key: Callable[[str, State], str]
) -> str:
    """Rule body of members in their order: optional ones skipped at will, at most one of them big.

    Built from the end. `endings` says for each state what closes the chain there (None: it may not end so); when no way leads
    to an end the chain is the ending of a chain with members.
    """
    reachable = [{(False, False)}]
    for member, variant in zip(members, variants, strict=True):
        reachable.append(
            {after for state in reachable[-1] for after in _next_states(state, member, variant)},
        )
    tails = {state: endings[state] for state in reachable[-1]}
    for k in range(len(members) - 1, -1, -1):
        tails = {state: _step(lark, _ways(members[k], variants[k], tails, state, key)) for state in reachable[k]}
    return tails[False, False] or endings[True, True] or ""


def _next_states(state: State, member: Member, variant: Variant) -> set[State]:
    after = {(True, state[1])}
    if variant.big is not None:
        after.add((True, True))
    return after if member.required else after | {state}


def _step(lark: Lark, ways: list[str]) -> str | None:
    return lark.rule(" | ".join(ways)) if ways else None


def _ways(member: Member, variant: Variant, tails: dict[State, str | None], state: State, key: Callable[[str, State], str]) -> list[str]:
    """How a chain may go on at one member."""
    used = state[1]
    head = key(member.key, state)
    ways: list[str] = []
    if (after := tails.get((True, used))) is not None:
        ways.append(f"{head} {variant.ordinary} {after}")
    if variant.big is not None and not used and (after := tails.get((True, True))) is not None:
        ways.append(f"{head} {variant.big} {after}")
    if not member.required and (after := tails.get(state)) is not None:
        ways.append(after)
    return ways


def fit_members(shape: Mapping, room: int, *, markup: int) -> tuple[list[Member], list[tuple[int, int, int]]]:
    """The members that fit, required ones always, and the claims of each (one more for undeclared ones). `markup` is what the
    format writes around a member beside its key and value, in tokens."""
    left = room - 2 - sum((literal_cost(member.key) + markup) + least(member.shape) for member in shape.members if member.required)
    fitting: list[Member] = []
    for member in shape.members:
        need = (literal_cost(member.key) + markup) + least(member.shape)
        if member.required:
            fitting.append(member)
        elif need <= left:
            left -= need
            fitting.append(member)
    claims = [
        ((literal_cost(m.key) + markup) + least(m.shape), (literal_cost(m.key) + markup) + most(m.shape), weight(m.shape)) for m in fitting
    ]
    if shape.extra is not None:
        claims.append((0, 1 << 40, 1))
    return fitting, claims


def _joined(bodies: list[str]) -> list[str]:
    return [part for body in bodies for part in ('", "', body)][1:]
