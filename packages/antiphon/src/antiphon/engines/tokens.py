"""Token ids in the form that is compared and hashed: arrays of 32 bits, which nobody changes once they are made."""

from array import array
from collections.abc import Sequence
from typing import TypeAlias

_STRIDE = 1024

Tokens: TypeAlias = "array[int]"


def tokens_of(ids: Sequence[int]) -> Tokens:
    """Ids as such an array; one that is given already is taken as it is."""
    return ids if isinstance(ids, array) and ids.typecode == "I" else array("I", ids)


def shared(one: Tokens, other: Tokens) -> int:
    """How many leading tokens are the same."""
    at, end, step = 0, min(len(one), len(other)), _STRIDE
    while at < end:
        if one[at : min(at + step, end)] == other[at : min(at + step, end)]:
            at = min(at + step, end)
        elif step == 1:
            break
        else:
            end = min(end, at + step)
            step = max(1, step // 2)
    return at
