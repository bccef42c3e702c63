"""What a state is."""

from abc import abstractmethod

from antiphon_parsers.engine.cursor import Cursor
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.record import Record


class State(Record):
    """One state of the machine, with the data it needs. States are replaced, never re-entered by flags."""

    __slots__ = ()

    @property
    def in_reasoning(self) -> bool:
        """Whether what comes next is reasoning as far as one can tell."""
        return False

    @property
    def held(self) -> int:
        """Characters before the cursor that may still be given back to be read again."""
        return 0

    @abstractmethod
    def advance(self, cursor: Cursor, out: Emitter) -> "State | None":
        """Takes what can be decided. Returns the state that goes on (self after progress), None when the text is used up."""

    @abstractmethod
    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        """Closes what is open, after `advance` has seen the final cursor. Returns whether the turn ended inside
        reasoning or a call."""

    def plain(self, text: str, out: Emitter) -> str | None:
        """The short way, asked when the cursor is empty and the open segment has said all there was: when all that `advance` and
        what follows it would do with `text` is to append to the open segment, takes it and returns what to append. None, and
        nothing is taken, in every other case."""
        return None
