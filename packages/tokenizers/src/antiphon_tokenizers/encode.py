"""From prompt pieces to token ids, with an early end for prompts that do not fit."""

from array import array
from collections.abc import Sequence
from itertools import chain, groupby

from antiphon_tokenizers.renderer import Rendered
from antiphon_tokenizers.tokenizer import Tokenizer
from antiphon_turns import AssistantMessage, Message, TextSegment, TurnRequest
from antiphon_turns.errors import ContextOverflow

_COUNTED = 8
_LONG = 262_144


def encode(rendered: Rendered, tokenizer: Tokenizer, *, limit: int) -> list[int]:
    """`pack` as a list."""
    return pack(rendered, tokenizer, limit=limit).tolist()


def pack(rendered: Rendered, tokenizer: Tokenizer, *, limit: int) -> "array[int]":
    """The prompt's ids, at most `limit` of them. Raises ContextOverflow when there are more. They are an array of unsigned 32-bit
    numbers: a list of a long prompt takes longer to make than all else that a prompt seen before costs.

    The number it names is exact up to eight times the limit. Beyond, counting stops and it is a lower bound, so that
    refusing takes time and memory in proportion to the limit, not to the prompt.

    A tokenizer that is not `splittable` gets the text between sampled ids at once, which is exact. When that would turn client text
    into control tokens, the prompt is encoded in pieces after all: ids next to a control token may then differ from
    the model's habit, but control stays what the template wrote.
    """
    ceiling = limit * _COUNTED
    sampled = sum(len(piece) for piece in rendered.pieces if isinstance(piece, tuple))
    floor = sampled + tokenizer.token_floor(sum(_length(piece) for piece in rendered.pieces if not isinstance(piece, tuple)))
    if floor > ceiling:
        raise ContextOverflow(floor, limit)
    for piece in rendered.pieces:
        if isinstance(piece, str) and len(piece) > _LONG and (least := tokenizer.rough_floor(piece, ceiling)) > ceiling:
            raise ContextOverflow(least, limit)
    if tokenizer.splittable:
        ids = _in_pieces(rendered.pieces, tokenizer, limit, ceiling)
    else:
        ids = array("I", _in_stretches(rendered.pieces, tokenizer, limit, ceiling))
    if len(ids) > limit:
        raise ContextOverflow(len(ids), limit)
    return ids


def check_size(request: TurnRequest, tokenizer: Tokenizer, *, limit: int) -> None:
    """Raises ContextOverflow when the conversation's text alone is hopelessly beyond the limit: to be asked before a
    request is rendered. Looks at lengths only; where it is silent, `encode` decides."""
    floor = tokenizer.token_floor(sum(map(_characters, request.messages)))
    if floor > limit * _COUNTED:
        raise ContextOverflow(floor, limit)


def _characters(message: Message) -> int:
    if not isinstance(message, AssistantMessage):
        return len(message.text)
    # Reasoning may stay out of the prompt, and so may a cut call.
    return sum(len(segment.text) for segment in message.segments if isinstance(segment, TextSegment))


Piece = int | str | tuple[int, ...]


def _length(piece: int | str) -> int:
    return 1 if isinstance(piece, int) else len(piece)


def _in_stretches(pieces: Sequence[Piece], tokenizer: Tokenizer, limit: int, ceiling: int) -> list[int]:
    """What lies between sampled ids is encoded as one text each."""
    spelled = {index: token for token, index in tokenizer.control_tokens.items()}
    ids: list[int] = []
    for is_sampled, group in groupby(pieces, lambda piece: isinstance(piece, tuple)):
        stretch = list(group)
        if is_sampled:
            ids += chain.from_iterable(piece for piece in stretch if isinstance(piece, tuple))
            continue
        text = "".join(spelled[piece] if isinstance(piece, int) else str(piece) for piece in stretch)
        whole = tokenizer.encode(text, added=True)
        kept = [i for i in whole if i in spelled] == [piece for piece in stretch if isinstance(piece, int)]
        ids += whole if kept else _in_pieces(stretch, tokenizer, limit, ceiling)
    return ids


def _in_pieces(pieces: Sequence[Piece], tokenizer: Tokenizer, limit: int, ceiling: int) -> "array[int]":
    ids = array("I")
    cache = tokenizer.cache
    for piece in pieces:
        if isinstance(piece, int):
            ids.append(piece)
            continue
        if isinstance(piece, tuple):
            ids.extend(piece)
            continue
        known = cache.get(piece)
        if known is not None:
            ids.extend(known)
            continue
        start = len(ids)
        for part in tokenizer.encode_steps(piece):
            ids.extend(part)
            if len(ids) > ceiling:
                raise ContextOverflow(len(ids), limit)
        cache.put(piece, ids[start:])
    return ids
