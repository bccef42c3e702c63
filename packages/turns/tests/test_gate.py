"""The call gate: I12 on the wire side."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_turns import (
    Anomaly,
    ArgumentStreaming,
    CallGate,
    CallReady,
    CutCalls,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    StopReason,
    Tool,
    TurnEnd,
    TurnStart,
    Usage,
    check_order,
)

USAGE = Usage(prompt_tokens=1)
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}}, "required": ["command"]}
RUN = Tool(name="run", parameters=json.dumps(SCHEMA))
NOW = Tool(name="now")
TOOLS = (RUN, NOW)
ARGUMENTS = '{"command":"ls","timeout":[1,{"a":"\\u00e9\\n"}]}'


def call(index: int, pieces: list[str], *, name: str = "run", status: str = "complete") -> list[Event]:
    call_id = f"call_tag{index}"
    deltas = [SegmentDelta(index, piece) for piece in pieces]
    events: list[Event] = [SegmentStart(index, "tool_call", call_id, name), *deltas, SegmentEnd(index, status, 3)]  # type: ignore[arg-type]
    return events if status == "truncated" else [*events, CallReady(index, call_id, name, "".join(pieces))]


def text(index: int, value: str) -> list[Event]:
    return [SegmentStart(index, "text"), SegmentDelta(index, value), SegmentEnd(index)]


def framed(*segments: list[Event], stop: StopReason) -> list[Event]:
    return [TurnStart("tag", "m", 1), *(event for segment in segments for event in segment), TurnEnd(stop, USAGE)]


def gated(events: list[Event], streaming: ArgumentStreaming, cut: CutCalls = "honest") -> list[Event]:
    check_order(events)
    gate = CallGate(TOOLS, streaming=streaming, cut=cut)
    passed = [out for event in events for out in gate.push(event)]
    check_order(passed, poisoned=streaming == "incremental")
    return passed


def test_whole_a_call_leaves_at_its_closer_in_one_delta() -> None:
    gate = CallGate(TOOLS, streaming="whole", cut="honest")
    events = call(0, ['{"comm', 'and":"ls"}'])
    out = [gate.push(event) for event in events]
    assert [len(step) for step in out] == [0, 0, 0, 0, 4]
    assert out[-1] == call(0, ['{"command":"ls"}'])


def test_incremental_a_call_streams() -> None:
    events = framed(call(0, ["{", '"command":"ls"}']), text(1, "a"), stop="tool_use")
    assert gated(events, "incremental") == events


def test_incremental_falls_back_to_whole_where_no_closing_could_be_refused() -> None:
    events = framed(call(0, ["{", "}"], name="now"), stop="tool_use")
    assert gated(events, "incremental") == framed(call(0, ["{}"], name="now"), stop="tool_use")


@pytest.mark.parametrize("streaming", ["whole", "incremental"])
def test_everything_but_calls_passes_untouched(streaming: ArgumentStreaming) -> None:
    events = framed([Anomaly("a")], text(0, "x"), text(1, "y"), stop="max_tokens")
    assert gated(events, streaming) == events


def test_honest_a_cut_call_leaves_no_trace_and_indices_stay_dense() -> None:
    events = framed(text(0, "a"), call(1, ['{"comm'], status="truncated"), text(2, "b"), stop="max_tokens")
    assert gated(events, "whole") == framed(text(0, "a"), text(1, "b"), stop="max_tokens")


@pytest.mark.parametrize("reason", ["max_tokens", "end_turn"])
def test_recover_a_cut_call_becomes_one_its_tool_refuses(reason: StopReason) -> None:
    events = framed(call(0, ['{"comm'], status="truncated"), stop=reason)
    passed = gated(events, "whole", "recover")
    assert passed[1:-1] == [
        SegmentStart(0, "tool_call", "call_tag0", "run"),
        SegmentDelta(0, "{}"),
        SegmentEnd(0, "recovered", 3),
        CallReady(0, "call_tag0", "run", "{}"),
    ]
    assert passed[-1] == TurnEnd("tool_use", USAGE)


@pytest.mark.parametrize("name", ["now", "unknown"])
def test_recover_stays_honest_where_an_empty_object_might_run(name: str) -> None:
    events = framed(call(0, ["{"], name=name, status="truncated"), stop="max_tokens")
    assert gated(events, "whole", "recover") == framed(stop="max_tokens")


@pytest.mark.parametrize("streaming", ["whole", "incremental"])
def test_where_no_call_is_allowed_none_passes(streaming: ArgumentStreaming) -> None:
    gate = CallGate(TOOLS, streaming=streaming, cut="recover", allow_calls=False)
    segments = [text(0, "a"), call(1, ['{"command":"ls"}']), text(2, "b"), call(3, ["{"], status="truncated")]
    passed = [out for event in framed(*segments, stop="tool_use") for out in gate.push(event)]
    assert passed == framed(text(0, "a"), [Anomaly("call_not_allowed", "run")], text(1, "b"), stop="end_turn")


def test_recover_stays_honest_where_every_required_parameter_has_a_default() -> None:
    schema = {"properties": {"command": {"type": "string", "default": "ls"}}, "required": ["command"]}
    gate = CallGate([Tool(name="run", parameters=json.dumps(schema))], streaming="whole", cut="recover")
    assert [out for event in call(0, ["{"], status="truncated") for out in gate.push(event)] == []


def test_withheld_and_replaced_calls_are_counted() -> None:
    for streaming, cut in (("whole", "honest"), ("whole", "recover"), ("incremental", "honest")):
        gate = CallGate(TOOLS, streaming=streaming, cut=cut)  # type: ignore[arg-type]
        for event in call(0, ["{"], status="truncated"):
            gate.push(event)
        assert gate.cut_calls == 1


@pytest.mark.parametrize("size", range(len(ARGUMENTS)))
@pytest.mark.parametrize("cut", ["honest", "recover"])
def test_incremental_a_cut_call_closes_as_json_that_the_schema_refuses(size: int, cut: CutCalls) -> None:
    sent = ARGUMENTS[:size]
    events = framed(call(0, [sent] if sent else [], status="truncated"), stop="max_tokens")
    passed = gated(events, "incremental", cut)
    arguments = "".join(event.text for event in passed if isinstance(event, SegmentDelta))
    assert arguments.startswith(sent)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(arguments), SCHEMA)
    assert not any(isinstance(event, CallReady) for event in passed)
    assert passed[-1] == TurnEnd("tool_use", USAGE)


types = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", None])
schemas = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={
        "properties": st.dictionaries(st.text(max_size=3), st.one_of(types, st.lists(types, max_size=3)).map(lambda kind: {"type": kind})),
        "required": st.lists(st.text(max_size=3), max_size=2),
    },
)


@given(schemas, st.integers(1, len(ARGUMENTS) - 1))
def test_a_poisoned_closing_fails_whatever_schema_was_declared(schema: dict[str, Any], size: int) -> None:
    tool = Tool(name="run", parameters=json.dumps(schema))
    gate = CallGate([tool], streaming="incremental", cut="honest")
    passed = [out for event in call(0, [ARGUMENTS[:size]], status="truncated") for out in gate.push(event)]
    arguments = "".join(event.text for event in passed if isinstance(event, SegmentDelta))
    if not passed:
        return  # the schema refuses nothing, so no byte left
    declared = {name: spec["type"] for name, spec in schema["properties"].items()}
    value = json.loads(arguments)
    wrong = [name for name in value if name in declared and not _fits(value[name], declared[name])]
    assert wrong


def _fits(value: Any, declared: Any) -> bool:
    names = {dict: "object", str: "string", bool: "boolean", list: "array"}
    kinds = declared if isinstance(declared, list) else [declared]
    return names[type(value)] in kinds if type(value) in names else False


@given(st.lists(st.sampled_from(["text", "whole call", "cut call"]), max_size=6), st.sampled_from(["whole", "incremental"]), st.data())
def test_no_argument_of_a_cut_call_passes_as_a_call(shapes: list[str], streaming: ArgumentStreaming, data: st.DataObject) -> None:
    segments = []
    for index, shape in enumerate(shapes):
        if shape == "text":
            segments.append(text(index, "t"))
            continue
        size = data.draw(st.integers(1, len(ARGUMENTS) - 1))
        cut = shape == "cut call"
        pieces = [ARGUMENTS[:size]] if cut else [ARGUMENTS[:size], ARGUMENTS[size:]]
        segments.append(call(index, pieces, status="truncated" if cut else "complete"))
    passed = gated(framed(*segments, stop="max_tokens"), streaming)
    assert [event.arguments for event in passed if isinstance(event, CallReady)] == [ARGUMENTS] * shapes.count("whole call")
