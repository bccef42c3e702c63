"""Which past turns keep their reasoning in the next prompt. Source: facts on reasoning replay, one row a family."""

from collections.abc import Iterator, Sequence

from msgspec import structs

from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Keep,
    Message,
    ReasoningSegment,
    ReplayPolicy,
    ReplayWish,
    Segment,
    TextSegment,
    ToolMessage,
    TurnRequest,
    TurnWriter,
    UserMessage,
)
from antiphon_turns.ids import fold


def replayed(messages: Sequence[Message], since: int) -> list[tuple[Segment, ...]]:
    """The segments each message brings into the prompt; () for all that are not assistant turns. Turns behind index `since` keep
    their reasoning."""
    return [
        () if not isinstance(message, AssistantMessage) else message.segments if index > since else _without_reasoning(message)
        for index, message in enumerate(messages)
    ]


def policy_of(request: TurnRequest, policy: ReplayPolicy) -> ReplayPolicy:
    """The family's policy for this request: by whether it offers tools, and by the template variable that switches it, where the client
    sets that."""
    offers = bool(request.tools) and request.tool_choice.mode != "none"
    keep = policy.without_tools if policy.without_tools is not None and not offers else policy.keep
    variable, value = policy.switch or ("", None)
    if variable in request.template_kwargs:
        keep = "all" if request.template_kwargs[variable] == value else policy.switched_off or keep
    if policy.fixed:
        keep = max(keep, policy.keep, key=_STRICTNESS.index)
    return structs.replace(policy, keep=keep)


# Orders policies where two meet; the three in the middle differ in kind, not in degree.
_STRICTNESS: tuple[Keep, ...] = ("all", "after_last_final", "after_last_plain_assistant", "after_last_user", "none")


def kept_since(messages: Sequence[Message], policy: ReplayPolicy, wish: ReplayWish) -> int:
    """Turns behind this index keep their reasoning, and what the prompt opened them with. A wish for less is granted always, one for
    more unless the policy is fixed or the model never saw past reasoning."""
    since = _since(messages, policy.keep)
    if wish.turns is None:
        wished = since
    elif wish.turns == "all":
        wished = -1
    elif wish.turns == "current":
        wished = max(since, _since(messages, "after_last_user"))
    else:
        wished = _before_turns(messages, wish.turns)
    if policy.fixed or policy.keep == "none":
        wished = max(since, wished)
    return max(wished, min(wish.cold_before, len(messages)) - 1)


def _before_turns(messages: Sequence[Message], count: int) -> int:
    """The user message before the last `count` turns that reasoned."""
    reasoned = False
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage):
            reasoned = reasoned or any(isinstance(segment, ReasoningSegment) for segment in message.segments)
        elif isinstance(message, UserMessage) and reasoned:
            count -= 1
            reasoned = False
            if count <= 0:
                return index
    return -1


def _since(messages: Sequence[Message], keep: Keep) -> int:
    if keep == "all":
        return -1
    if keep == "none":
        return len(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if keep == "after_last_user":
            ends = isinstance(message, UserMessage)
        elif keep == "after_last_plain_assistant":
            ends = isinstance(message, AssistantMessage) and not any(isinstance(s, CallSegment) for s in message.segments)
        else:
            ends = isinstance(message, AssistantMessage) and isinstance((message.segments or (None,))[-1], TextSegment)
        if ends:
            return index
    return -1


def _without_reasoning(message: AssistantMessage) -> tuple[Segment, ...]:
    return tuple(segment for segment in message.segments if not isinstance(segment, ReasoningSegment))


def calls_before(messages: Sequence[Message]) -> list[int]:
    """For each message, how many whole calls stand before it in the conversation."""
    counts: list[int] = []
    count = 0
    for message in messages:
        counts.append(count)
        if isinstance(message, AssistantMessage):
            count += sum(isinstance(s, CallSegment) and s.status != "truncated" for s in message.segments)
    return counts


def with_native_ids(messages: Sequence[Message], writer: TurnWriter) -> list[Message]:
    """The messages with the call ids that the format demands, if it demands any. A result may name its call by an id that its client
    has rewritten."""
    found: dict[str, str] = {}
    out: list[Message] = []
    for message, number in zip(messages, calls_before(messages), strict=True):
        if isinstance(message, AssistantMessage):
            out.append(structs.replace(message, segments=tuple(_numbered(message.segments, number, writer, found))))
        elif isinstance(message, ToolMessage):
            out.append(structs.replace(message, call_id=found.get(fold(message.call_id), message.call_id)))
        else:
            out.append(message)
    return out


def _numbered(segments: Sequence[Segment], number: int, writer: TurnWriter, found: dict[str, str]) -> Iterator[Segment]:
    for segment in segments:
        if isinstance(segment, CallSegment) and segment.status != "truncated":
            native = writer.call_id(segment.name, number)
            number += 1
            if native is not None:
                found[fold(segment.call_id)] = native
                segment = structs.replace(segment, call_id=native)
        yield segment
