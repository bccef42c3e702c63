"""Grammar as data: the markers of a family's output and what they begin."""

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from antiphon_parsers.engine.prose import Mention
    from antiphon_parsers.engine.state import State


class ReasoningMarkers(msgspec.Struct, frozen=True):
    """How many line feeds are framing, not text: behind the opener, before the closer, behind the closer. An empty opener: a
    message header of the call syntax opens; `then` begins the message behind the closer. `spellings`: other openers, other
    closers. `words`: the markers are sentences; the opener counts only where a turn begins, the closer only inside a block."""

    opener: str
    closer: str
    lead: int = 1
    tail: int = 1
    behind: int = 2
    then: str = ""
    spellings: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    words: bool = False

    @property
    def control(self) -> tuple[str, ...]:
        """The markers that client text must not spell."""
        return () if self.words else tuple(marker for marker in (self.opener, self.closer) if marker)

    @property
    def close(self) -> str:
        """What ends an open block in canonical form: the text to inject when a thinking budget is spent."""
        return "\n" * self.tail + self.closer + "\n" * self.behind + self.then


class CallSyntax(Protocol):
    """A format of call blocks: frozen data that can start reading a block. One class a body format (JSON envelope,
    XML parameters, ...); a family gives the values."""

    @property
    def openers(self) -> tuple[str, ...]:
        """Markers that may begin a block."""
        ...

    @property
    def closers(self) -> tuple[str, ...]:
        """Markers that are control text to the model and mean nothing outside a block."""
        ...

    @property
    def line_start_in_reasoning(self) -> bool:
        """Whether an opener inside an open reasoning block counts only at the start of a line."""
        ...

    def attempt(self, mention: "Mention") -> "State":
        """The state that finds out whether an opener really begins a call."""
        ...


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    """What a parser must know. `gap` line feeds between text and a call block, on either side, are framing, not text.
    `start` line feeds before all else of a turn are framing, too. `preface` is put in front of the visible text when the
    prompt ends with it. `breaks` are markers that end the open text or
    reasoning and mean nothing else."""

    reasoning: ReasoningMarkers | None = None
    calls: CallSyntax | None = None
    gap: int = 1
    start: int = 0
    preface: str = ""
    breaks: tuple[str, ...] = ()

    @property
    def reasoning_close(self) -> str | None:
        """The text that closes an open reasoning block, None when the family has no reasoning."""
        return self.reasoning.close if self.reasoning else None
