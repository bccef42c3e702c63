"""Past turns of Chat clients whose reasoning stands in the content, between markers.

Clients that know no field for reasoning keep it in the text. The markers are the family's own, or `<think>`, in which most clients
write whatever they received: only the server knows both, so this is not done at ingest. Only a block that begins a turn counts;
a marker later in the text is something the turn speaks about.
"""

import msgspec

from antiphon_parsers import ReasoningMarkers
from antiphon_turns import AssistantMessage, Message, ReasoningSegment, Segment, TextSegment, TurnRequest

_COMMON = ("<think>", "</think>")


def with_inline_reasoning(request: TurnRequest, markers: ReasoningMarkers | None) -> TurnRequest:
    """The request with such blocks as reasoning segments."""
    if request.surface != "chat":
        return request
    own = (markers.opener, markers.closer) if markers is not None and markers.opener and not markers.words else _COMMON
    pairs = (own,) if own == _COMMON else (own, _COMMON)
    messages = tuple(_message(message, pairs) for message in request.messages)
    return request if messages == request.messages else msgspec.structs.replace(request, messages=messages)


def _message(message: Message, pairs: tuple[tuple[str, str], ...]) -> Message:
    if not isinstance(message, AssistantMessage) or not message.segments or not isinstance(message.segments[0], TextSegment):
        return message
    first = message.segments[0]
    found = next((parts for pair in pairs if (parts := _parts(first.text, *pair)) is not None), None)
    return message if found is None else msgspec.structs.replace(message, segments=(*found, *message.segments[1:]))


def _parts(text: str, opener: str, closer: str) -> tuple[Segment, ...] | None:
    start = text.lstrip()
    if not start.startswith(opener):
        return None
    reasoning, closed, rest = start[len(opener) :].partition(closer)
    if not closed:
        return None
    segments: list[Segment] = [ReasoningSegment(reasoning.strip("\n"))] if reasoning.strip() else []
    rest = rest.lstrip("\n")
    return (*segments, TextSegment(rest)) if rest else tuple(segments)
