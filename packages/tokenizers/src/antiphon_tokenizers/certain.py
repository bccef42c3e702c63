"""How a prompt begins, whatever a text in it will say: what can be computed before the text is known."""

from array import array
from collections.abc import Sequence

import msgspec

from antiphon_tokenizers.encode import pack
from antiphon_tokenizers.renderer import Rendered
from antiphon_tokenizers.tokenizer import Tokenizer

# Beginnings that tokenizers join with what stands before them in different ways: a letter, line feeds, a space, a mark, a digit.
_BEGINNINGS = ("a", "\n\nb", " c", '"', "<", "7")


def certain_ids(rendered: Rendered, mark: str, tokenizer: Tokenizer, *, limit: int) -> "array[int]":
    """The ids of the prompt before the first place of `mark`, as far as they are the same whatever stands there; none where the prompt
    has no mark. Raises ContextOverflow where they are more than `limit`."""
    pieces = rendered.pieces
    place = next((index for index, piece in enumerate(pieces) if isinstance(piece, str) and mark in piece), None)
    if place is None:
        return array("I")
    piece = pieces[place]
    assert isinstance(piece, str)
    head = piece.partition(mark)[0]
    # Tokens never span sampled ids, so only what stands behind the last of them is encoded more than once.
    cut = next((index + 1 for index in range(place - 1, -1, -1) if isinstance(pieces[index], tuple)), 0)
    fixed = pack(msgspec.structs.replace(rendered, pieces=pieces[:cut]), tokenizer, limit=limit)
    ends = [
        pack(msgspec.structs.replace(rendered, pieces=(*pieces[cut:place], head + beginning)), tokenizer, limit=limit)
        for beginning in _BEGINNINGS
    ]
    return fixed + ends[0][: _shared(ends)]


def _shared(rows: Sequence["array[int]"]) -> int:
    """How many ids all rows begin with in common."""
    for place, column in enumerate(zip(*rows, strict=False)):
        if len(set(column)) > 1:
            return place
    return min(map(len, rows))
