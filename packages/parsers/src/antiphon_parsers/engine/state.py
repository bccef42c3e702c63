"""What a state is."""

from typing import Protocol

from antiphon_parsers.engine.cursor import Cursor
from antiphon_parsers.engine.emitter import Emitter


class State(Protocol):
    """One state of the machine, with the data it needs. States are replaced, never re-entered by flags."""

    @property
    def in_reasoning(self) -> bool:
        """Whether what comes next is reasoning as far as one can tell."""
        ...

    def advance(self, cursor: Cursor, out: Emitter) -> "State | None":
        """Takes what can be decided. Returns the state that goes on (self after progress), None when the text is used up."""
        ...

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        """Closes what is open, after `advance` has seen the final cursor. Returns whether the turn ended inside
        reasoning or a call."""
        ...
