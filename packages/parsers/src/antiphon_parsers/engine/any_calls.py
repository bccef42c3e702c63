"""Several call formats in one grammar, each with openers of its own."""

import msgspec

from antiphon_parsers.engine.prose import Mention
from antiphon_parsers.engine.state import State
from antiphon_parsers.grammar import CallSyntax


class AnyCalls(msgspec.Struct, frozen=True):
    """A block is read by the first syntax that its opener belongs to."""

    syntaxes: tuple[CallSyntax, ...]

    @property
    def openers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(opener for syntax in self.syntaxes for opener in syntax.openers))

    @property
    def closers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(closer for syntax in self.syntaxes for closer in syntax.closers))

    @property
    def line_start_in_reasoning(self) -> bool:
        return any(syntax.line_start_in_reasoning for syntax in self.syntaxes)

    def attempt(self, mention: Mention) -> State:
        return next(syntax for syntax in self.syntaxes if mention.marker in syntax.openers).attempt(mention)
