"""The content of a turn in one form for all surfaces, so that one judge can compare any two of them."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from antiphon.conformance.verdict import Broken, require


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One reasoning text, visible text or call. `arguments` is JSON text; `id` is the call's id on the wire."""

    kind: Literal["reasoning", "text", "call"]
    text: str = ""
    name: str = ""
    arguments: str = ""
    id: str = ""

    def meaning(self) -> tuple[str, str, Any]:
        """What a client makes of it: blank space around texts is framing, arguments are a JSON value."""
        if self.kind == "call":
            return self.kind, self.name, arguments_of(self)
        return self.kind, "", self.text.strip()


def arguments_of(piece: Piece) -> Any:
    """The arguments as a JSON object. Raises Broken."""
    try:
        value = msgspec.json.decode(piece.arguments)
    except msgspec.DecodeError as error:
        raise Broken(f"the arguments of {piece.name} are no JSON: {piece.arguments[:120]!r}") from error
    require(isinstance(value, dict), f"the arguments of {piece.name} are no object: {piece.arguments[:120]!r}")
    return value


def meanings(pieces: Sequence[Piece]) -> list[tuple[str, str, Any]]:
    """The meanings of pieces in order, without texts that say nothing."""
    return [piece.meaning() for piece in pieces if piece.kind == "call" or piece.text.strip()]


def calls(pieces: Sequence[Piece]) -> list[Piece]:
    """The calls among pieces."""
    return [piece for piece in pieces if piece.kind == "call"]


def joined(pieces: Sequence[Piece], kind: Literal["reasoning", "text"]) -> str:
    """All texts of a kind, without white space: surfaces that join texts differ in what they put between."""
    return "".join("".join(piece.text.split()) for piece in pieces if piece.kind == kind)
