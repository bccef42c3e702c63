"""Events of turns, and what the Responses projector makes of them."""

import json
from typing import Any

from antiphon_protocols import responses
from antiphon_turns import (
    CallReady,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    StopReason,
    TurnEnd,
    TurnStart,
    Usage,
    check_order,
)

USAGE = Usage(prompt_tokens=10, cached_tokens=4, output_tokens=7, reasoning_tokens=2)
OPTIONS = responses.Options(response_id="resp_tag", created=5)


def turn(*segments: list[Event], stop: StopReason = "end_turn", **end: Any) -> list[Event]:
    events = [TurnStart("tag", "m", 10), *(event for segment in segments for event in segment), TurnEnd(stop, USAGE, **end)]
    check_order(events)
    return events


def plain(index: int, kind: Any, *texts: str, **end: Any) -> list[Event]:
    return [SegmentStart(index, kind), *(SegmentDelta(index, text) for text in texts), SegmentEnd(index, **end)]


def call(index: int, *texts: str, name: str = "run") -> list[Event]:
    call_id = f"call_tag{index}"
    deltas = [SegmentDelta(index, text) for text in texts]
    return [SegmentStart(index, "tool_call", call_id, name), *deltas, SegmentEnd(index), CallReady(index, call_id, name, "".join(texts))]


def stream(projector: Any, events: list[Event]) -> str:
    return b"".join(projector.push(event) for event in events).decode()


def payloads(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]


def body(events: list[Event], **options: Any) -> dict[str, Any]:
    projector = responses.Projector(responses.Options(response_id="resp_tag", created=5, **options))
    stream(projector, events)
    return json.loads(projector.body())  # type: ignore[no-any-return]
