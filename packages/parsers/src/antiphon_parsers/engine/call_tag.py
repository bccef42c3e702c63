"""A call's opener, and what must stand behind it so that it begins a call: the state that all tagged formats share."""

from typing import NamedTuple, Protocol

from antiphon_parsers.engine.cursor import Cursor
from antiphon_parsers.engine.cut import cut_attempt
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Mention, Prose
from antiphon_parsers.engine.state import State


class Head(NamedTuple):
    """The head of a call as far as it is there: the name, when it is whole, and where the body begins, when it has begun.
    `plausible`: a turn that ends here was cut in a call; else a sentence may have ended that names the marker. `is_json`: the
    body is one JSON object where the format has bodies of two kinds."""

    name: str | None = None
    end: int | None = None
    plausible: bool = True
    is_json: bool = False


class HeadSyntax(Protocol):
    """What the state asks of a syntax."""

    def head(self, cursor: Cursor, mention: Mention, *, only_known: bool) -> Head | None:
        """Reads what follows the opener; None when it is no call."""
        ...

    def begin(self, out: Emitter, prose: Prose, name: str, *, is_json: bool) -> State:
        """The call begins: opens it, and returns the state behind the head."""
        ...


class CallTag(State):
    """A call opener was seen. It begins a call when a whole head follows and a body behind that."""

    __slots__ = ("_mention", "_name", "_only_known", "_syntax")

    def __init__(self, syntax: HeadSyntax, mention: Mention, *, only_known: bool) -> None:
        self._syntax = syntax
        self._mention = mention
        self._only_known = only_known
        self._name: str | None = None

    @property
    def in_reasoning(self) -> bool:
        return self._mention.prose.in_reasoning

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        mention = self._mention
        head = self._syntax.head(cursor, mention, only_known=self._only_known)
        if head is None:
            return mention.decline(cursor, out)
        self._name = head.name
        if head.end is None or head.name is None:
            cut = head.plausible and cursor.text[cursor.at + mention.size :].strip() != ""
            return mention.refuse(cursor, out) if mention.is_named_only(cursor) and not cut else None
        mention.prose.leave(out, cursor.offset(cursor.at + mention.lead))
        cursor.at = head.end
        return self._syntax.begin(out, mention.prose, head.name, is_json=head.is_json)

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        return cut_attempt(self._mention, self._name, cursor, out)
