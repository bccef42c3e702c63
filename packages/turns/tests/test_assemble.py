"""The fold from events to a turn."""

import pytest

from antiphon_turns import (
    Anomaly,
    Assembler,
    CallReady,
    CallSegment,
    Event,
    ReasoningSegment,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    TextSegment,
    Turn,
    TurnEnd,
    TurnStart,
    Usage,
    UsageUpdate,
    assemble,
)
from antiphon_turns.errors import InternalError

USAGE = Usage(prompt_tokens=5, output_tokens=4)
EVENTS: list[Event] = [
    TurnStart("tag", "m", 5),
    SegmentStart(0, "reasoning"),
    SegmentDelta(0, "th"),
    Anomaly("odd", "x"),
    SegmentDelta(0, "ink"),
    SegmentEnd(0, tokens=3, carrier="c"),
    UsageUpdate(USAGE),
    SegmentStart(1, "text"),
    SegmentEnd(1),
    SegmentStart(2, "tool_call", "call_1", "run"),
    SegmentDelta(2, "{}"),
    SegmentEnd(2, "recovered", 2),
    CallReady(2, "call_1", "run", "{}"),
    SegmentStart(3, "text"),
    SegmentDelta(3, "cut"),
    SegmentEnd(3, "truncated", 1),
    TurnEnd("max_tokens", USAGE),
]


def test_the_fold_keeps_order_text_status_and_counts() -> None:
    assert assemble(EVENTS) == Turn(
        turn_tag="tag",
        model="m",
        segments=(
            ReasoningSegment("think", "c", tokens=3),
            TextSegment(""),
            CallSegment("run", "{}", "call_1", "recovered", 2),
            TextSegment("cut", "truncated", 1),
        ),
        stop_reason="max_tokens",
        usage=USAGE,
        anomalies=(Anomaly("odd", "x"),),
    )


@pytest.mark.parametrize("count", range(len(EVENTS)))
def test_there_is_no_turn_before_its_end(count: int) -> None:
    with pytest.raises(InternalError):
        assemble(EVENTS[:count])


def test_an_end_without_a_start_is_a_broken_invariant() -> None:
    with pytest.raises(InternalError):
        Assembler().push(SegmentEnd(0))
