"""`truncation: "auto"`: a conversation that does not fit loses its oldest part instead of being refused."""

import itertools
from collections.abc import Sequence

import msgspec

from antiphon_turns.request import AssistantMessage, Message, SystemMessage, ToolMessage, TurnRequest, UserMessage
from antiphon_turns.turn import CallSegment

_MARGIN = 0.9
"""Of the context that is kept for the conversation: the answer needs room, and characters are no exact measure of tokens."""


def shortened(turn: TurnRequest, *, prompt_tokens: int, context_length: int) -> TurnRequest | None:
    """The request without the oldest part of its conversation, None if nothing can go. Call it again while the rest is still too long:
    each call leaves out at least one piece. System text and the last user message always stay, and a call goes together with its results.
    What was left out is counted in `ignored`."""
    conversation = [message for message in turn.messages if not isinstance(message, SystemMessage)]
    sizes = [_size(message) for message in conversation]
    surplus = sum(sizes) * (1 - _MARGIN * min(1.0, context_length / max(1, prompt_tokens)))
    gone: set[int] = set()
    for piece in _pieces(conversation):
        if surplus <= 0:
            break
        gone.update(piece)
        surplus -= sum(sizes[index] for index in piece)
    if not gone:
        return None
    left = {id(conversation[index]) for index in gone}
    kept = tuple(message for message in turn.messages if id(message) not in left)
    return msgspec.structs.replace(turn, messages=kept, ignored=(*turn.ignored, f"input.{len(gone)}_oldest_messages"))


def _pieces(conversation: Sequence[Message]) -> list[range]:
    """What may go, oldest first: whole exchanges, so that the rest begins with a user; then, within the last exchange, all steps but
    the last."""
    users = {index for index, message in enumerate(conversation) if isinstance(message, UserMessage)}
    starts = sorted(index for index in users if index - 1 not in users)
    if not starts:
        return _steps(conversation, 0)
    first = [range(0, starts[0])] if starts[0] else []
    exchanges = [range(start, end) for start, end in itertools.pairwise(starts)]
    return [*first, *exchanges, *_steps(conversation, max(users) + 1)]


def _steps(conversation: Sequence[Message], start: int) -> list[range]:
    """An assistant turn with its results, each, from `start` on, without the last."""
    begins = [index for index in range(start, len(conversation)) if not isinstance(conversation[index], ToolMessage)]
    return [range(begin, end) for begin, end in itertools.pairwise(begins)]


def _size(message: Message) -> int:
    if not isinstance(message, AssistantMessage):
        return len(message.text)
    return sum(len(part.arguments if isinstance(part, CallSegment) else part.text) for part in message.segments)
