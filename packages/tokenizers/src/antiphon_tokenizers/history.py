"""Which past turns keep their reasoning in the next prompt, and in what order results stand. Source: facts on reasoning replay, one
row a family."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Message,
    ReasoningSegment,
    ReplayPolicy,
    Segment,
    TextSegment,
    ToolMessage,
    TurnWriter,
    UserMessage,
)


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


def in_call_order(messages: Sequence[Message]) -> list[Message]:
    """The messages with the results behind a turn in the order of its calls. Clients send results as their tools finish, and a format
    without call ids tells them apart by their order alone. Results of other calls keep their place."""
    out: list[Message] = []
    places: dict[str, int] = {}
    run: list[ToolMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            run.append(message)
            continue
        out += _sorted_results(run, places)
        run = []
        out.append(message)
        calls = message.segments if isinstance(message, AssistantMessage) else ()
        places = {segment.call_id: place for place, segment in enumerate(calls) if isinstance(segment, CallSegment)}
    return [*out, *_sorted_results(run, places)]


def _sorted_results(run: Sequence[ToolMessage], places: Mapping[str, int]) -> Iterator[ToolMessage]:
    known = iter(sorted((result for result in run if result.call_id in places), key=lambda result: places[result.call_id]))
    return (next(known) if result.call_id in places else result for result in run)


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
    """The messages with the call ids that the format demands, if it demands any."""
    found: dict[str, str] = {}
    out: list[Message] = []
    for message, number in zip(messages, calls_before(messages), strict=True):
        if isinstance(message, AssistantMessage):
            out.append(structs.replace(message, segments=tuple(_numbered(message.segments, number, writer, found))))
        elif isinstance(message, ToolMessage):
            out.append(structs.replace(message, call_id=found.get(message.call_id, message.call_id)))
        else:
            out.append(message)
    return out


def _numbered(segments: Sequence[Segment], number: int, writer: TurnWriter, found: dict[str, str]) -> Iterator[Segment]:
    for segment in segments:
        if isinstance(segment, CallSegment) and segment.status != "truncated":
            native = writer.call_id(segment.name, number)
            number += 1
            if native is not None:
                found[segment.call_id] = native
                segment = structs.replace(segment, call_id=native)
        yield segment
