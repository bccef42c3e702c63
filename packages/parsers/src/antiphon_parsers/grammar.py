"""Grammar as data: the markers of a family's output and what they begin."""

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from antiphon_parsers.engine.prose import Mention
    from antiphon_parsers.engine.state import State


class ReasoningMarkers(msgspec.Struct, frozen=True):
    """`lead`, `trail` and `gap` are what the writer puts behind the opener, before the closer and behind it. Up to as many
    line feeds as they hold are framing to the parser, not text. An empty opener: a message header of the call syntax opens."""

    opener: str
    closer: str
    lead: str = "\n"
    trail: str = "\n"
    gap: str = "\n\n"

    @property
    def close(self) -> str:
        """What ends an open block in canonical form: the text to inject when a thinking budget is spent."""
        return f"{self.trail}{self.closer}{self.gap}"


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
    """What a parser must know. `breaks` are markers that end the open text or reasoning and mean nothing else.
    `line_framed`: one line feed on either side of a call block is framing."""

    reasoning: ReasoningMarkers | None = None
    calls: CallSyntax | None = None
    breaks: tuple[str, ...] = ()
    line_framed: bool = True

    @property
    def reasoning_close(self) -> str | None:
        """The text that closes an open reasoning block, None when the family has no reasoning."""
        return self.reasoning.close if self.reasoning else None
