"""What of a sampled turn may stand in the next prompt, whatever a client made of it."""

import pytest

from antiphon_turns import CallSegment, ReasoningSegment, Segment, TextSegment
from antiphon_turns.ids import call_id, carrier
from antiphon_turns.replay import Chosen, TurnRecord, choose, same_json

TAG = "a" * 16
R0 = ReasoningSegment("First.", carrier(TAG, 0), tokens=3)
T1 = TextSegment("Reading. ", tokens=2)
C2 = CallSegment("read", '{"path": "a", "n": 1.0}', call_id(TAG, 2), tokens=5)
R3 = ReasoningSegment("Second.", carrier(TAG, 3), tokens=3)
C4 = CallSegment("read", '{"path": "b"}', call_id(TAG, 4), tokens=4)
BLANK = TextSegment("\n\n", tokens=1)


def record(*segments: Segment, extra: int = 0, whole: bool = True) -> TurnRecord:
    return TurnRecord(
        turn_tag=TAG, opening="<think>\n", ids=tuple(range(sum(s.tokens for s in segments) + extra)), segments=segments, whole=whole
    )


TURN = record(R0, T1, C2, R3, C4)
SPANS = TURN.spans()
ALL = tuple(map(Chosen, TURN.segments, SPANS))


def test_spans_lie_side_by_side_to_the_end() -> None:
    assert SPANS == ((0, 3), (3, 5), (5, 10), (10, 13), (13, 17))
    assert record(R0, T1, extra=2).spans() == ((0, 3), (3, 7))
    assert record(R0, T1, extra=2, whole=False).spans() == ((0, 3), (3, 5))
    assert record().spans() == ()


def told(call: CallSegment, arguments: str) -> CallSegment:
    return CallSegment(call.name, arguments, call.call_id)


@pytest.mark.parametrize(
    "segments",
    [
        (R0, T1, C2, R3, C4),
        (R0, T1, R3, C2, C4),  # Claude Code puts calls behind all other blocks
        (T1, C2, C4),  # reasoning left out
        (ReasoningSegment("", R0.carrier), T1, C2, ReasoningSegment("", R3.carrier), C4),  # reasoning withheld
        (R0, T1, told(C2, '{"n":1,"path":"a"}'), R3, C4),  # arguments spelled anew
        (ReasoningSegment("First."), T1, CallSegment("read", C2.arguments, C2.call_id.replace("_", "")), R3, C4),
    ],
)
def test_a_turn_that_means_the_same_is_replayed_whole(segments: tuple[Segment, ...]) -> None:
    assert choose(TURN, segments) == ALL


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ((R0, TextSegment("Edited."), C2, R3, C4), (ALL[0], Chosen(TextSegment("Edited.")), *ALL[2:])),
        ((R0, T1, told(C2, '{"path": "x"}'), R3, C4), (*ALL[:2], Chosen(told(C2, '{"path": "x"}')), *ALL[3:])),
        ((R0, T1, C2, R3), ALL[:4]),  # a call was removed
        ((R0, C2, C4), (ALL[0], *ALL[2:])),  # the text was
        ((ReasoningSegment("Other.", R0.carrier), T1, C2, C4), (Chosen(ReasoningSegment("Other.", R0.carrier)), *ALL[1:])),
        ((R0, T1, C2, R3, C4, TextSegment("Added.")), (*ALL, Chosen(TextSegment("Added.")))),
        ((CallSegment("run", "{}", "foreign1"), R0, T1, C2, C4), (Chosen(CallSegment("run", "{}", "foreign1")), *ALL)),
    ],
)
def test_an_edited_segment_takes_the_clients_form(segments: tuple[Segment, ...], expected: tuple[Chosen, ...]) -> None:
    found = choose(TURN, segments)
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert [one for one in found if one.span] == [one for one in expected if one.span]


def test_joined_texts_retell_several() -> None:
    turn = record(R0, T1, C2, TextSegment("More.", tokens=1))
    assert choose(turn, (R0, TextSegment("Reading. \nMore."), C2)) == tuple(map(Chosen, turn.segments, turn.spans()))


def test_blank_text_and_cut_calls_were_never_seen() -> None:
    turn = record(R0, BLANK, C2, CallSegment("read", '{"pa', call_id(TAG, 3), "truncated", 2))
    assert choose(turn, (R0, C2)) == tuple(map(Chosen, turn.segments, turn.spans()))


def test_a_surface_that_joins_is_compared_as_a_whole() -> None:
    turn = record(R0, T1, C2, R3, TextSegment("Done.", tokens=1))
    whole = tuple(map(Chosen, turn.segments, turn.spans()))
    assert choose(turn, (ReasoningSegment("First.Second."), TextSegment("Reading. Done."), told(C2, C2.arguments)), joined=True) == whole
    assert choose(turn, (TextSegment("Reading. Done."), C2), joined=True) == whole
    edited = choose(turn, (TextSegment("Reading. Changed."), C2), joined=True)
    assert Chosen(TextSegment("Reading. Changed.")) in edited
    assert whole[2] in edited


def test_what_a_record_does_not_reach_stands_where_its_id_says() -> None:
    part = TurnRecord(turn_tag=TAG, opening="", ids=tuple(range(13)), segments=(R0, T1, C2, R3), whole=False)
    assert choose(part, (R0, T1, R3, C2, C4)) == (*map(Chosen, part.segments, part.spans()), Chosen(C4))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ('{"a": 1, "b": [1.0, "x"]}', '{"b":[1,"x"],"a":1e0}', True),
        ('{"a": 12345678901234567890}', '{"a": 12345678901234567000}', True),
        ('{"a": true}', '{"a": 1}', False),
        ('{"a": null}', "{}", False),
        ('{"a": "1"}', '{"a": 1}', False),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": ', '{"a": ', False),
    ],
)
def test_json_equality(one: str, other: str, *, equal: bool) -> None:
    assert same_json(one, other) is equal
