"""Which past turns keep their reasoning in the next prompt. Source: facts on reasoning replay, one row a family."""

from collections.abc import Sequence

from antiphon_turns import AssistantMessage, CallSegment, Message, ReasoningSegment, ReplayPolicy, Segment, TextSegment, UserMessage


def replayed(messages: Sequence[Message], policy: ReplayPolicy) -> list[tuple[Segment, ...]]:
    """The segments each message brings into the prompt; () for all that are not assistant turns."""
    since = kept_since(messages, policy)
    return [
        () if not isinstance(message, AssistantMessage) else message.segments if index > since else _without_reasoning(message)
        for index, message in enumerate(messages)
    ]


def kept_since(messages: Sequence[Message], policy: ReplayPolicy) -> int:
    """Turns behind this index keep their reasoning, and what the prompt opened them with."""
    if policy.keep == "all":
        return -1
    if policy.keep == "none":
        return len(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if policy.keep == "after_last_user":
            ends = isinstance(message, UserMessage)
        elif policy.keep == "after_last_plain_assistant":
            ends = isinstance(message, AssistantMessage) and not any(isinstance(s, CallSegment) for s in message.segments)
        else:
            ends = isinstance(message, AssistantMessage) and isinstance((message.segments or (None,))[-1], TextSegment)
        if ends:
            return index
    return -1


def _without_reasoning(message: AssistantMessage) -> tuple[Segment, ...]:
    return tuple(segment for segment in message.segments if not isinstance(segment, ReasoningSegment))
