"""Stop strings: first complete match in visible text, whatever the cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_turns import (
    Anomaly,
    CallReady,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    StopMatcher,
    TurnEnd,
    Usage,
    check_order,
)


def text_events(*pieces: str, kind: str = "text") -> list[Event]:
    return [SegmentStart(0, kind), *(SegmentDelta(0, piece) for piece in pieces), SegmentEnd(0, tokens=4)]  # type: ignore[arg-type]


def run(stops: list[str], events: list[Event]) -> tuple[str, str | None, list[Event]]:
    """(text passed on, stop that matched, events passed on)."""
    matcher = StopMatcher(stops)
    passed = [out for event in events for out in matcher.push(event)]
    check_order(passed, framed=False)
    return "".join(event.text for event in passed if isinstance(event, SegmentDelta)), matcher.matched, passed


@pytest.mark.parametrize(
    ("stops", "pieces", "text", "matched"),
    [
        (["STOP", "##"], ["a b ST", "OP c"], "a b ", "STOP"),
        (["END"], ["all EN"], "all EN", None),
        (["END"], ["EEND"], "E", "END"),
        (["END"], ["END"], "", "END"),
        (["b", "abc"], ["xab", "c"], "xa", "b"),
        (["c", "abc"], ["xab", "c"], "x", "abc"),
        (["aab"], ["aaa", "ab"], "aa", "aab"),
        (["\n\n"], ["a\n", "b\n\n"], "a\nb", "\n\n"),
        ([], ["END"], "END", None),
    ],
)
def test_the_stop_that_is_complete_first_wins(stops: list[str], pieces: list[str], text: str, matched: str | None) -> None:
    assert run(stops, text_events(*pieces))[:2] == (text, matched)


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), st.text("abc", min_size=1, max_size=20), st.data())
def test_any_cut_gives_the_same_text_and_the_first_match(stops: list[str], text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[low:high] for low, high in zip([0, *cuts], [*cuts, len(text)], strict=True) if low < high]
    got, matched, _ = run(stops, text_events(*pieces))
    ends = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not ends:
        assert (got, matched) == (text, None)
    else:
        end, size, stop = min(ends)
        assert (got, matched) == (text[: end + size], stop)


@given(st.text("EN", max_size=12))
def test_what_can_no_longer_match_is_passed_on_at_once(text: str) -> None:
    matcher = StopMatcher(["END"])
    matcher.push(SegmentStart(0, "text"))
    passed = "".join(event.text for char in text for event in matcher.push(SegmentDelta(0, char)) if isinstance(event, SegmentDelta))
    held = text.removeprefix(passed)
    assert "END".startswith(held)
    assert passed + held == text


def test_only_visible_text_is_searched() -> None:
    events: list[Event] = [
        SegmentStart(0, "reasoning"),
        SegmentDelta(0, "END"),
        SegmentEnd(0),
        SegmentStart(1, "tool_call", "c", "run"),
        SegmentDelta(1, '{"a":"END"}'),
        SegmentEnd(1),
        CallReady(1, "c", "run", '{"a":"END"}'),
    ]
    assert run(["END"], events)[1:] == (None, events)


def test_a_text_that_a_stop_leaves_empty_never_starts() -> None:
    assert run(["END", ""], text_events("EN", "D", "x")) == ("", "END", [])


def test_after_a_match_the_segment_ends_whole_and_later_segments_do_not_pass() -> None:
    cut: list[Event] = [SegmentStart(0, "text"), SegmentDelta(0, "aENDb"), SegmentEnd(0, "truncated", 4)]
    later: list[Event] = [SegmentStart(1, "text"), SegmentDelta(1, "c"), SegmentEnd(1), Anomaly("x")]
    assert run(["END"], [*cut, *later])[2] == [SegmentStart(0, "text"), SegmentDelta(0, "a"), SegmentEnd(0, "complete", 4), Anomaly("x")]
    matcher = StopMatcher(["a"])
    for event in text_events("a"):
        matcher.push(event)
    end = TurnEnd("stop_sequence", Usage(prompt_tokens=1), "a")
    assert matcher.push(end) == [end]
