"""Reports from the field about Responses, one test each, by their number in the shared collection: what was seen, and the right value.

Cases whose right value lies in the prompt, the engine or the store are tested there; here is what the wire alone decides."""

import json
from typing import Any

import msgspec
import pytest

from antiphon_protocols import responses
from antiphon_turns import (
    AssistantMessage,
    CallGate,
    CallReady,
    CallSegment,
    Event,
    ReasoningSegment,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    StopReason,
    SystemMessage,
    TextSegment,
    ToolChoice,
    ToolMessage,
    TurnEnd,
    TurnRequest,
    TurnStart,
    Usage,
    UserMessage,
    ids,
)

TAG = "abcdefghijklmnop"
NOW = {"type": "function", "name": "now", "parameters": {"type": "object", "properties": {}, "required": []}}
OPEN = {
    "type": "function",
    "name": "open_file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "edit files",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"},
}


def ingest(open_compaction: Any = lambda _: None, **fields: Any) -> responses.ResponsesRequest:
    call = responses.read(json.dumps({"model": "m", "input": "x", **fields}).encode(), {})
    return responses.ingest(call, open_compaction=open_compaction)


def turn(**fields: Any) -> TurnRequest:
    return ingest(**fields).turn


def segment(index: int, kind: str, text: str, name: str | None = None) -> list[Event]:
    if kind != "tool_call":
        carrier = ids.carrier(TAG, index) if kind == "reasoning" else None
        return [SegmentStart(index, kind), SegmentDelta(index, text), SegmentEnd(index, carrier=carrier)]  # type: ignore[arg-type]
    call_id = ids.call_id(TAG, index)
    deltas = [SegmentDelta(index, text)] if text else []
    return [SegmentStart(index, "tool_call", call_id, name), *deltas, SegmentEnd(index), CallReady(index, call_id, name or "", text)]


def answer(
    request: responses.ResponsesRequest, *segments: list[Event], stop: StopReason = "tool_use", usage: Usage | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The wire events and the body, behind the call gate."""
    gate = CallGate(request.turn.tools, streaming="whole", cut="honest")
    projector = responses.Projector(request.options(response_id=f"resp_{TAG}", created=1))
    counts = usage or Usage(prompt_tokens=5, output_tokens=3)
    events: list[Event] = [TurnStart(TAG, "m", 5), *(event for events in segments for event in events), TurnEnd(stop, counts)]
    stream = b"".join(projector.push(passed) for event in events for passed in gate.push(event)).decode()
    return [json.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: ")], json.loads(projector.body())


def items(wire: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [found["item"] for found in wire if found["type"] == f"response.output_item.{event}"]


def test_82_a_namespaced_call_comes_back_with_name_and_namespace_as_declared() -> None:
    request = ingest(tools=[{"type": "namespace", "name": "mcp__fs", "tools": [{**OPEN, "name": "read"}]}])
    _, body = answer(request, segment(0, "tool_call", '{"path": "a"}', request.turn.tools[0].name))
    item = body["output"][0]
    assert (item["type"], item["namespace"], item["name"], json.loads(item["arguments"])) == (
        "function_call",
        "mcp__fs",
        "read",
        {"path": "a"},
    )


def test_83_a_custom_tool_s_call_is_a_custom_tool_call_with_raw_input() -> None:
    patch = "*** Begin Patch\n*** Add File: hi.txt\n+hello\n*** End Patch"
    request = ingest(tools=[PATCH], stream=True)
    wire, body = answer(request, segment(0, "tool_call", json.dumps({"input": patch}), "apply_patch"))
    assert [event["type"] for event in wire[2:-1]] == [
        "response.output_item.added",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.done",
    ]
    item = body["output"][0]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", patch)
    result = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "Done"}
    assert turn(tools=[PATCH], input=[item, result]).messages == (
        AssistantMessage((CallSegment("apply_patch", json.dumps({"input": patch}), item["call_id"]),)),
        ToolMessage(item["call_id"], "Done", "apply_patch"),
    )


def test_84_a_custom_tool_is_offered_with_its_grammar() -> None:
    (tool,) = turn(tools=[PATCH]).tools
    assert tool.name == "apply_patch"
    assert "start: /.+/s" in (tool.description or "")
    assert tool.freeform is not None


def test_86_a_named_choice_is_a_named_choice() -> None:
    assert turn(tools=[NOW, OPEN], tool_choice={"type": "function", "name": "now"}).tool_choice == ToolChoice(mode="named", name="now")


def test_87_88_ids_are_the_same_from_added_to_completed() -> None:
    request = ingest(tools=[OPEN], stream=True)
    wire, body = answer(
        request, segment(0, "reasoning", "r"), segment(1, "text", "t"), segment(2, "tool_call", '{"path":"a"}', "open_file")
    )
    added, done, final = items(wire, "added"), items(wire, "done"), wire[-1]["response"]["output"]
    assert [item["type"] for item in final] == ["reasoning", "message", "function_call"]
    for which in ("id", "call_id"):
        assert [item.get(which) for item in added] == [item.get(which) for item in done] == [item.get(which) for item in final]
    assert [item["id"].split("_")[0] for item in final] == ["rs", "msg", "fc"]
    assert final == done == body["output"]
    arguments = [event["arguments"] for event in wire if event["type"] == "response.function_call_arguments.done"]
    assert [json.loads(text) for text in arguments] == [{"path": "a"}]


def test_89_every_event_of_a_plain_answer_is_there_in_order() -> None:
    wire, _ = answer(ingest(stream=True), segment(0, "text", "Hello there"), stop="end_turn")
    assert [event["type"].removeprefix("response.") for event in wire] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in wire] == list(range(len(wire)))
    assert all("output_index" in event for event in wire[2:-1])
    assert all(event["content_index"] == 0 for event in wire[3:7])
    assert {"id", "object", "model", "status", "output", "usage"} <= set(wire[-1]["response"])


@pytest.mark.parametrize("arguments", ["{}", ""])
def test_67_91_a_call_without_arguments_has_the_text_of_an_empty_object(arguments: str) -> None:
    request = ingest(tools=[NOW], stream=True)
    projector = responses.Projector(request.options(response_id="r", created=1))
    events = [TurnStart(TAG, "m", 1), *segment(0, "tool_call", arguments, "now")[:-1]]
    wire = [json.loads(payload) for event in events for payload in projector.push_events(event)]
    assert "".join(event["delta"] for event in wire if event["type"].endswith("arguments.delta")) == "{}"
    assert next(event["arguments"] for event in wire if event["type"].endswith("arguments.done")) == "{}"
    assert wire[-1]["item"]["arguments"] == "{}"


def test_94_reasoning_carries_an_opaque_blob_that_may_come_back_without_its_text() -> None:
    request = ingest(include=["reasoning.encrypted_content"], store=False)
    _, body = answer(request, segment(0, "reasoning", "R-secret"), segment(1, "text", "A"), stop="end_turn")
    blob = body["output"][0]["encrypted_content"]
    assert blob == ids.carrier(TAG, 0)
    bare = {**body["output"][0], "summary": [], "content": None}
    assert turn(input=[bare, {"role": "user", "content": "q"}]).messages[0] == AssistantMessage((ReasoningSegment("", blob),))
    foreign = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "gAAAAABo-foreign"}
    assert turn(input=[foreign]).messages == (AssistantMessage((ReasoningSegment("s", "gAAAAABo-foreign"),)),)


def test_95_ids_are_labels() -> None:
    reasoning = {"type": "reasoning", "id": "rs_unknown", "summary": [{"type": "summary_text", "text": "s"}]}
    assert turn(input=[reasoning, {"role": "user", "content": "b"}], store=False).messages == (
        AssistantMessage((ReasoningSegment("s"),)),
        UserMessage("b"),
    )


def test_96_a_compaction_is_one_item_and_the_next_turn_takes_it() -> None:
    talk = [
        {"role": "user", "content": "long talk"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
    ]
    call = responses.read_compact(json.dumps({"model": "m", "input": talk}).encode(), {})
    request = responses.ingest(call, open_compaction=lambda _: None)
    assert len(request.turn.messages) == 3
    projector = responses.CompactionProjector(request.options(response_id="resp_1", created=1), lambda text: text[::-1])
    for event in [TurnStart(TAG, "m", 5), *segment(0, "text", "notes"), TurnEnd("end_turn", Usage(prompt_tokens=5, output_tokens=3))]:
        projector.push(event)
    output = json.loads(projector.compacted())["output"]
    assert [item["type"] for item in output] == ["compaction"]
    later = ingest(open_compaction=lambda blob: blob[::-1], input=[*output, {"role": "user", "content": "go on"}]).turn
    assert later.messages[0].text.endswith("\n\nnotes")  # type: ignore[union-attr]
    assert later.messages[1] == UserMessage("go on")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"command": "ls', '{"raw_arguments":"{\\"command\\": \\"ls"}'),
        ("null", "{}"),
        ("", "{}"),
        ("[]", "{}"),
        ("3", '{"raw_arguments":"3"}'),
    ],
)
def test_98_99_one_bad_call_in_the_history_does_not_end_the_session(arguments: str, expected: str) -> None:
    history = [
        {"role": "user", "content": "a"},
        {"type": "function_call", "call_id": "x", "name": "run_shell", "arguments": arguments, "status": "incomplete"},
        {"type": "function_call_output", "call_id": "x", "output": "bad arguments"},
        {"role": "user", "content": "continue"},
    ]
    assert turn(input=history).messages == (
        UserMessage("a"),
        AssistantMessage((CallSegment("run_shell", expected, "x"),)),
        ToolMessage("x", "bad arguments", "run_shell"),
        UserMessage("continue"),
    )


@pytest.mark.parametrize(("cached", "told"), [(None, 0), (960, 960)])
def test_69_70_cached_tokens_are_told_inside_the_whole(cached: int | None, told: int) -> None:
    usage = Usage(prompt_tokens=1000, cached_tokens=cached, output_tokens=7, reasoning_tokens=3)
    _, body = answer(ingest(), segment(0, "text", "a"), stop="end_turn", usage=usage)
    assert body["usage"] == {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": told, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 1007,
    }


def test_126_a_cut_call_leaves_no_markup_and_no_call() -> None:
    request = ingest(tools=[OPEN], max_output_tokens=8)
    cut: list[Event] = [SegmentStart(1, "tool_call", ids.call_id(TAG, 1), "open_file"), SegmentDelta(1, '{"pa'), SegmentEnd(1, "truncated")]
    wire, body = answer(request, segment(0, "text", "ok"), cut, stop="max_tokens")
    assert [item["content"][0]["text"] for item in body["output"]] == ["ok"]
    assert (wire[-1]["type"], body["incomplete_details"]) == ("response.incomplete", {"reason": "max_output_tokens"})


def test_130_131_a_turn_with_or_without_calls_is_completed() -> None:
    for segments, kinds in (
        ([segment(0, "tool_call", "{}", "now")], ["function_call"]),
        ([segment(0, "text", "Take water.")], ["message"]),
    ):
        _, body = answer(ingest(tools=[NOW]), *segments)
        assert (body["status"], [item["type"] for item in body["output"]]) == ("completed", kinds)


def test_138_late_developer_text_stays_in_its_place() -> None:
    late = [{"role": "user", "content": "summary"}, {"role": "developer", "content": "rules v2"}, {"role": "user", "content": "go"}]
    assert turn(input=late).messages == (UserMessage("summary"), SystemMessage("rules v2"), UserMessage("go"))


def test_143_one_call_at_a_time_is_asked_for() -> None:
    assert turn(tools=[OPEN], parallel_tool_calls=False).tool_choice == ToolChoice(parallel=False)


def test_145_references_within_a_schema_are_kept() -> None:
    parameters = {
        "type": "object",
        "$defs": {"K": {"enum": ["red", "blue"]}},
        "properties": {"k": {"$ref": "#/$defs/K"}},
        "required": ["k"],
    }
    (tool,) = turn(tools=[{"type": "function", "name": "put", "parameters": parameters}]).tools
    assert tool.schema == parameters


def test_148_a_wish_for_json_goes_on_to_the_worker() -> None:
    output = turn(text={"format": {"type": "json_object"}}).output
    assert output is not None and output.schema is None


def test_what_the_peers_refuse_and_clients_send() -> None:
    """Assistant messages without a type, reasoning without an id, `client_metadata`, web search beside functions, call after call."""
    history = [
        {"role": "user", "content": "u"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r"}], "content": None, "encrypted_content": None},
        {"role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
        {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "1"},
    ]
    fields: dict[str, Any] = {"client_metadata": {"b": "1", "a": "2"}, "tools": [NOW, {"type": "web_search", "external_web_access": True}]}
    request = turn(input=history, **fields)
    assert request.messages[1] == AssistantMessage((ReasoningSegment("r"), TextSegment("t"), CallSegment("now", "{}", "call_1")))
    assert request.ignored == ("tools.1.web_search",)


def test_what_changes_from_request_to_request_does_not_reach_the_turn() -> None:
    """Codex sends fresh ids and metadata each time; the prompt must not depend on them."""

    def codex(salt: str) -> TurnRequest:
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}], "id": f"msg_{salt}"}
        call = {"type": "function_call", "id": f"fc_{salt}", "call_id": "c", "name": "now", "arguments": "{}", "status": "completed"}
        fields = {"client_metadata": {"turn_id": salt}, "metadata": {"x": salt}, "input": [message, call]}
        return msgspec.structs.replace(turn(**fields), session=None)

    assert codex("a") == codex("b")
