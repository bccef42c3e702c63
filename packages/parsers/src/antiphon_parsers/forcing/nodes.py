"""Grammars as neutral data: what the rest of a turn must look like, before it is written in the dialect of an engine.

Composite nodes hold leaves and references only, so that equal rules are one rule, however many tools use them. There is no
recursion: schemas are finite shapes by now.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from antiphon_parsers.forcing.patterns import Tree

Spellings = tuple[str, ...]


class Exact(msgspec.Struct, frozen=True):
    """Just this text."""

    text: str


class Words(msgspec.Struct, frozen=True):
    """One of these texts."""

    texts: tuple[str, ...]


class Pattern(msgspec.Struct, frozen=True):
    """A text that matches a regular expression of the subset that `patterns` reads."""

    regex: str


class Key(msgspec.Struct, frozen=True):
    """A word that is none of `taken`, between quotes."""

    taken: tuple[str, ...]


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A string of `low` to `high` characters (None: as many as fit) within `room` tokens, whose text matches `tree`.

    `form` "json" and "python" are between quotes, with escapes; "raw" is the text itself and ends with `end`, at its first
    place. `forbidden` are runs of tags that it may not hold: each item of a run is one of several spellings, white space may stand
    between. They are what the parser would take for structure."""

    form: Literal["json", "python", "raw"]
    room: int
    low: int = 0
    high: int | None = None
    tree: Tree | None = None
    forbidden: tuple[tuple[Spellings, ...], ...] = ()
    end: str = ""


class Ref(msgspec.Struct, frozen=True):
    """A rule, by its number."""

    number: int


class Run(msgspec.Struct, frozen=True):
    """One after the other."""

    parts: "tuple[Node, ...]"


class Either(msgspec.Struct, frozen=True):
    """One of several."""

    options: "tuple[Node, ...]"


class Several(msgspec.Struct, frozen=True):
    """`low` to `high` times the same."""

    body: "Node"
    low: int
    high: int


Leaf = Exact | Words | Pattern | Key | Written
Node = Leaf | Ref | Run | Either | Several

NOTHING = Exact("")


def said(text: str) -> "Leaf":
    """Text that a client chose: never read as control tokens, whatever it spells (I13)."""
    return Words((text,)) if any(char in text for char in "<[]>|") else Exact(text)


class Rules:
    """The rules of one grammar, each content once."""

    def __init__(self) -> None:
        self._numbers: dict[Node, int] = {}
        self.bodies: list[Node] = []

    def rule(self, node: Node) -> Node:
        """A reference to a rule with this body; leaves and references stand for themselves."""
        if isinstance(node, Exact | Ref):
            return node
        number = self._numbers.setdefault(node, len(self.bodies))
        if number == len(self.bodies):
            self.bodies.append(node)
        return Ref(number)

    def run(self, *parts: Node) -> Node:
        """One after the other; neighbouring texts become one."""
        flat: list[Node] = []
        for part in parts:
            for piece in part.parts if isinstance(part, Run) else (part,):
                if isinstance(piece, Exact) and flat and isinstance(flat[-1], Exact):
                    flat[-1] = Exact(flat[-1].text + piece.text)
                elif piece != NOTHING:
                    flat.append(self.rule(piece) if isinstance(piece, Either | Several) else piece)
        return flat[0] if len(flat) == 1 else Run(tuple(flat)) if flat else NOTHING

    def either(self, options: Iterable[Node]) -> Node:
        """One of several, at least one; a rule of its own where there is a choice."""
        flat = [inner for option in options for inner in (option.options if isinstance(option, Either) else (option,))]
        distinct = tuple(dict.fromkeys(flat))
        return distinct[0] if len(distinct) == 1 else self.rule(Either(distinct))

    def several(self, body: Node, low: int, high: int) -> Node:
        """`low` to `high` times; nothing for none."""
        return Several(self.rule(body), low, high) if high > 0 else NOTHING


class CallGrammar(msgspec.Struct, frozen=True):
    """`prefix` is the certain beginning; `root` matches what follows it, in the rules `bodies`. `notes` say what could not be
    enforced, a sentence each."""

    prefix: str
    root: Node
    bodies: tuple[Node, ...]
    notes: tuple[str, ...] = ()
