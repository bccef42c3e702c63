"""From prompt pieces to token ids, with an early end for prompts that do not fit."""

from antiphon_tokenizers.renderer import Rendered
from antiphon_tokenizers.tokenizer import Tokenizer
from antiphon_turns import AssistantMessage, Message, TextSegment, TurnRequest
from antiphon_turns.errors import ContextOverflow

_COUNTED = 8
_LONG = 262_144


def encode(rendered: Rendered, tokenizer: Tokenizer, *, limit: int) -> list[int]:
    """The prompt's ids, at most `limit` of them. Raises ContextOverflow when there are more.

    The number it names is exact up to eight times the limit. Beyond, counting stops and it is a lower bound, so that
    refusing takes time and memory in proportion to the limit, not to the prompt.

    A tokenizer that is not `splittable` gets the whole text at once, which is exact. When that would turn client text
    into control tokens, the prompt is encoded in pieces after all: ids next to a control token may then differ from
    the model's habit, but control stays what the template wrote.
    """
    ceiling = limit * _COUNTED
    floor = tokenizer.token_floor(sum(1 if isinstance(piece, int) else len(piece) for piece in rendered.pieces))
    if floor > ceiling:
        raise ContextOverflow(floor, limit)
    for piece in rendered.pieces:
        if isinstance(piece, str) and len(piece) > _LONG and (least := tokenizer.rough_floor(piece, ceiling)) > ceiling:
            raise ContextOverflow(least, limit)
    ids = _in_pieces(rendered, tokenizer, limit, ceiling)
    if not tokenizer.splittable:
        whole = tokenizer.encode(rendered.text, added=True)
        control = frozenset(tokenizer.control_tokens.values())
        if [i for i in whole if i in control] == [i for i in rendered.pieces if isinstance(i, int)]:
            ids = whole
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


def _in_pieces(rendered: Rendered, tokenizer: Tokenizer, limit: int, ceiling: int) -> list[int]:
    ids: list[int] = []
    cache = tokenizer.cache
    for piece in rendered.pieces:
        if isinstance(piece, int):
            ids.append(piece)
            continue
        known = cache.get(piece)
        if known is not None:
            ids.extend(known)
            continue
        start = len(ids)
        for part in tokenizer.encode_steps(piece):
            ids += part
            if len(ids) > ceiling:
                raise ContextOverflow(len(ids), limit)
        cache.put(piece, ids[start:])
    return ids
