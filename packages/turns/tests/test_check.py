"""The order law: what it lets pass and what it refuses."""

import pytest

from antiphon_turns import (
    Anomaly,
    CallReady,
    Event,
    OrderChecker,
    OrderError,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    TurnEnd,
    TurnStart,
    Usage,
    UsageUpdate,
    check_order,
)

USAGE = Usage(prompt_tokens=1)
START, END = TurnStart("tag", "m", 1), TurnEnd("end_turn", USAGE)
CALL, READY = SegmentStart(0, "tool_call", "c", "run"), CallReady(0, "c", "run", "{}")
BRACES, CLOSED = SegmentDelta(0, "{}"), SegmentEnd(0)
TEXT, WORD = SegmentStart(0, "text"), SegmentDelta(0, "a")

LAWFUL: list[tuple[str, list[Event]]] = [
    ("empty turn", [START, END]),
    ("text", [START, TEXT, WORD, CLOSED, END]),
    ("call", [START, CALL, BRACES, CLOSED, READY, END]),
    ("cut call", [START, CALL, SegmentDelta(0, "{"), SegmentEnd(0, "truncated"), END]),
    ("notes anywhere", [START, Anomaly("a"), TEXT, UsageUpdate(USAGE), WORD, CLOSED, Anomaly("b"), END]),
    ("two segments", [START, TEXT, WORD, CLOSED, SegmentStart(1, "reasoning"), SegmentDelta(1, "r"), SegmentEnd(1), END]),
    ("cut call without a byte", [START, CALL, SegmentEnd(0, "truncated"), END]),
]

UNLAWFUL: list[tuple[str, list[Event]]] = [
    ("no start", [TEXT]),
    ("two starts", [START, START]),
    ("note before start", [Anomaly("a")]),
    ("after the end", [START, END, Anomaly("a")]),
    ("end with an open segment", [START, TEXT, END]),
    ("two open", [START, TEXT, SegmentStart(1, "text")]),
    ("index gap", [START, SegmentStart(1, "text")]),
    ("index again", [START, TEXT, WORD, CLOSED, TEXT]),
    ("empty segment", [START, TEXT, CLOSED]),
    ("note before ready", [START, CALL, BRACES, CLOSED, Anomaly("a")]),
    ("more behind the closer", [START, CALL, BRACES, SegmentDelta(0, " ")]),
    ("carrier on a call", [START, CALL, BRACES, SegmentEnd(0, carrier="x")]),
    ("cut but whole", [START, CALL, BRACES, SegmentEnd(0, "truncated")]),
    ("delta of another", [START, TEXT, SegmentDelta(1, "a")]),
    ("delta without a segment", [START, SegmentDelta(0, "a")]),
    ("empty delta", [START, TEXT, SegmentDelta(0, "")]),
    ("end of another", [START, TEXT, SegmentEnd(1)]),
    ("end without a segment", [START, CLOSED]),
    ("call without a name", [START, SegmentStart(0, "tool_call", "c", "")]),
    ("call without an id", [START, SegmentStart(0, "tool_call", None, "run")]),
    ("text with a name", [START, SegmentStart(0, "text", None, "run")]),
    ("call id twice", [START, CALL, BRACES, CLOSED, READY, SegmentStart(1, "tool_call", "c", "run")]),
    ("never ready", [START, CALL, BRACES, CLOSED, END]),
    ("next before ready", [START, CALL, BRACES, CLOSED, SegmentStart(1, "text")]),
    ("ready while open", [START, CALL, BRACES, READY]),
    ("ready twice", [START, CALL, BRACES, CLOSED, READY, READY]),
    ("cut but ready", [START, CALL, SegmentDelta(0, "{"), SegmentEnd(0, "truncated"), READY]),
    ("text is ready", [START, TEXT, SegmentDelta(0, "{}"), CLOSED, READY]),
    ("other name", [START, CALL, BRACES, CLOSED, CallReady(0, "c", "x", "{}")]),
    ("other arguments", [START, CALL, BRACES, CLOSED, CallReady(0, "c", "run", "{ }")]),
    ("arguments a list", [START, CALL, SegmentDelta(0, "[]"), CLOSED, CallReady(0, "c", "run", "[]")]),
    ("arguments broken", [START, CALL, SegmentDelta(0, "{"), CLOSED, CallReady(0, "c", "run", "{")]),
]


@pytest.mark.parametrize("events", [case[1] for case in LAWFUL], ids=[case[0] for case in LAWFUL])
def test_lawful_streams_pass(events: list[Event]) -> None:
    check_order(events)
    check_order([event for event in events if event not in (START, END)], framed=False)


@pytest.mark.parametrize("events", [case[1] for case in UNLAWFUL], ids=[case[0] for case in UNLAWFUL])
def test_unlawful_streams_are_refused(events: list[Event]) -> None:
    checker = OrderChecker()
    for event in events[:-1]:
        checker.push(event)
    with pytest.raises(OrderError):
        checker.push(events[-1])


@pytest.mark.parametrize("frame", [START, END])
def test_a_bare_stream_has_no_frame(frame: Event) -> None:
    with pytest.raises(OrderError):
        OrderChecker(framed=False).push(frame)


@pytest.mark.parametrize("events", [[START, TEXT], [START], []])
def test_nothing_may_be_left_open(events: list[Event]) -> None:
    with pytest.raises(OrderError):
        check_order(events)


def test_behind_an_incremental_gate_a_cut_call_is_closed() -> None:
    check_order([START, CALL, BRACES, SegmentEnd(0, "truncated"), END], poisoned=True)
