"""Stop reasons as a truth table, and ids that survive what clients do to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_turns import CallSegment, FinishReason, ReasoningSegment, Segment, StopReason, TextSegment, Tool, stop_reason
from antiphon_turns.ids import TAG_BYTES, call_id, carrier, split_call_id, split_carrier, turn_tag

TEXT, CUT_TEXT, THINK = TextSegment("a"), TextSegment("a", "truncated"), ReasoningSegment("a", status="truncated")
CALL, CUT_CALL = CallSegment("run", "{}"), CallSegment("run", "{", status="truncated")
RECOVERED = CallSegment("run", "{}", status="recovered")


@pytest.mark.parametrize(
    ("segments", "finish", "stop", "expected"),
    [
        ([], "stop", None, "end_turn"),
        ([], "length", None, "max_tokens"),
        ([TEXT], "stop", None, "end_turn"),
        ([TEXT], "stop", "END", "stop_sequence"),
        ([CALL, TEXT], "length", "END", "stop_sequence"),
        ([CUT_TEXT], "length", None, "max_tokens"),
        ([THINK], "length", None, "max_tokens"),
        ([CALL], "stop", None, "tool_use"),
        ([CALL, TEXT], "stop", None, "tool_use"),
        ([RECOVERED], "stop", None, "tool_use"),
        ([CALL], "length", None, "tool_use"),
        ([RECOVERED], "length", None, "tool_use"),
        ([CALL, CUT_TEXT], "length", None, "max_tokens"),
        ([CUT_CALL], "length", None, "max_tokens"),
        ([CALL, CUT_CALL], "length", None, "max_tokens"),
        ([CUT_CALL], "stop", None, "end_turn"),
        ([CALL, CUT_CALL], "stop", None, "tool_use"),
        ([CALL], "cancelled", None, "cancelled"),
        ([TEXT], "error", None, "error"),
    ],
)
def test_stop_reasons(segments: list[Segment], finish: FinishReason, stop: str | None, expected: StopReason) -> None:
    assert stop_reason(segments, finish, stop) == expected


def test_a_call_is_no_ordinary_end_when_the_limit_cut_what_came_behind_it() -> None:
    assert stop_reason([CALL], "length", None, incomplete=True) == "max_tokens"
    assert stop_reason([CALL], "stop", None, incomplete=True) == "tool_use"


tags = st.binary(min_size=TAG_BYTES, max_size=TAG_BYTES).map(turn_tag)
indices = st.integers(0, 999_999)


@given(tags, indices)
def test_ids_come_back_from_every_client(tag: str, index: int) -> None:
    wire = call_id(tag, index)
    assert len(wire) <= 40
    assert wire.startswith("call_")
    stripped = "".join(char for char in wire if char.isalnum())[:40]
    assert split_call_id(wire) == split_call_id(stripped) == (tag, index)
    assert split_carrier(carrier(tag, index)) == (tag, index)


@given(st.text())
def test_foreign_ids_are_nobody_s(value: str) -> None:
    found = split_call_id(value)
    assert found is None or call_id(*found).replace("_", "") == "".join(char for char in value if char.isalnum())
    assert split_carrier(value) is None or value.startswith("antiphon.")


@pytest.mark.parametrize("wire", ["", "toolu_01ABC", "call_", "call_abc0", "functions.run:0", "call_" + "a" * 16, "call_" + "A" * 16 + "0"])
def test_other_styles_of_ids_are_foreign(wire: str) -> None:
    assert split_call_id(wire) is None


@pytest.mark.parametrize("wire", ["", "antiphon", "antiphon.x", "antiphon.x.y", "antiphon.x.1.2", "other.x.1"])
def test_other_carriers_are_foreign(wire: str) -> None:
    assert split_carrier(wire) is None


def test_a_tag_takes_exactly_its_bytes() -> None:
    assert turn_tag(bytes(TAG_BYTES)) == "a" * 16
    with pytest.raises(ValueError, match="10 bytes"):
        turn_tag(bytes(9))


@pytest.mark.parametrize(
    ("parameters", "required"),
    [
        ('{"required": ["b", "a"]}', ("b", "a")),
        ("{}", ()),
        ('{"required": "a"}', ()),
        ('{"required": ["a", 3]}', ("a",)),
        ("[]", ()),
    ],
)
def test_required_parameters_of_any_schema(parameters: str, required: tuple[str, ...]) -> None:
    assert Tool(name="t", parameters=parameters).required() == required
