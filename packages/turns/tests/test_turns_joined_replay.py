"""Turns that come back over a surface with one reasoning and one text, put together with white space of the client's own."""

import pytest

from antiphon_turns import CallSegment, ReasoningSegment, Segment, TextSegment
from antiphon_turns.replay import TurnRecord, choose

CALL = CallSegment("run", '{"cmd": "ls"}', "call_abcdefghijklmnop1", tokens=2)
RECORD = TurnRecord(
    turn_tag="abcdefghijklmnop",
    opening="",
    ids=list(range(10)),
    segments=(ReasoningSegment("First.", tokens=2), CALL, ReasoningSegment("Then this.", tokens=3), TextSegment("Done.", tokens=3)),
)


def told(reasoning: str) -> tuple[Segment, ...]:
    return (ReasoningSegment(reasoning), TextSegment("Done."), CALL)


@pytest.mark.parametrize("reasoning", ["First.Then this.", "First.\nThen this.", "First.\n\nThen this.\n"])
def test_white_space_between_pieces_is_the_clients(reasoning: str) -> None:
    chosen = choose(RECORD, told(reasoning), joined=True)
    assert [one.segment for one in chosen] == list(RECORD.segments)
    assert [one.span for one in chosen] == list(RECORD.spans())


def test_an_edited_reasoning_stands_for_all_of_them() -> None:
    chosen = choose(RECORD, told("First. Then that."), joined=True)
    assert [one.segment.text for one in chosen if isinstance(one.segment, ReasoningSegment)] == ["First. Then that."]


def test_one_piece_is_compared_to_the_character() -> None:
    record = TurnRecord(turn_tag="abcdefghijklmnop", opening="", ids=[1, 2], segments=(TextSegment("a  b", tokens=2),))
    assert choose(record, (TextSegment("a b"),), joined=True)[0].span is None


LONG = TurnRecord(
    turn_tag="abcdefghijklmnop",
    opening="",
    ids=list(range(12)),
    segments=(
        ReasoningSegment("First.", tokens=2),
        TextSegment("I look.", tokens=2),
        CALL,
        ReasoningSegment("Then this.", tokens=3),
        TextSegment("Done.", tokens=3),
    ),
)


OTHER, SAID = ReasoningSegment("Other."), TextSegment("I looked. Done.")
CALLED = CallSegment("run", "{}", CALL.call_id)


@pytest.mark.parametrize(
    ("segments", "kept", "edited"),
    [
        ((OTHER, TextSegment("I look.Done."), CALL), {1, 2, 4}, {OTHER}),
        ((OTHER, TextSegment("I look.\n\nDone."), CALL), {1, 2, 4}, {OTHER}),
        ((ReasoningSegment("First.Then this."), SAID, CALL), {0, 2, 3}, {SAID}),
        ((SAID, CALL), {0, 2, 3}, {SAID}),
        ((ReasoningSegment("First.\nThen this."), TextSegment("I look.Done.")), {0, 1, 3, 4}, set()),
        ((OTHER, TextSegment("I look.Done."), CALLED), {1, 4}, {OTHER, CALLED}),
    ],
)
def test_what_was_not_edited_returns_as_it_was_sampled(segments: tuple[Segment, ...], kept: set[int], edited: set[Segment]) -> None:
    chosen = choose(LONG, segments, joined=True)
    assert {LONG.segments.index(one.segment) for one in chosen if one.span is not None} == kept
    assert all(one.span == LONG.spans()[LONG.segments.index(one.segment)] for one in chosen if one.span is not None)
    assert {one.segment for one in chosen if one.span is None} == edited
