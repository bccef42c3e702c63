"""I10 and I5 on Responses: the vendor's SDK accumulates our stream into exactly our body, for turns of every shape and calls of every
kind of tool, behind the call gate; and every event and body is what the SDK's own types say it is."""

import json
from typing import Any

import httpx2
import openai
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from antiphon_protocols import responses
from antiphon_turns import (
    CallGate,
    CallReady,
    CallSegment,
    Event,
    FinishReason,
    OrderChecker,
    ReasoningSegment,
    SampledLogprob,
    Segment,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    TextSegment,
    TokenLogprob,
    TokenLogprobs,
    TurnEnd,
    TurnStart,
    Usage,
    check_order,
    stop_reason,
)

TAG = "abcdefghijklmnop"
REQUEST: dict[str, Any] = {
    "model": "model",
    "input": [{"role": "user", "content": "hi"}],
    "instructions": "Be\u2028brief.",
    "include": ["message.output_text.logprobs"],
    "tools": [
        {
            "type": "function",
            "name": "run",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
            "strict": False,
        },
        {"type": "namespace", "name": "mcp__fs", "description": "files", "tools": [{"type": "function", "name": "run", "parameters": {}}]},
        {"type": "custom", "name": "apply", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"}},
        {"type": "local_shell"},
        {"type": "shell"},
        {"type": "apply_patch"},
        {"type": "tool_search", "execution": "client", "description": "finds tools", "parameters": {"type": "object"}},
    ],
}
CALL = responses.ingest(responses.read(json.dumps(REQUEST).encode(), {}), open_compaction=lambda _: None)
KINDS = {
    "run": "function_call",
    "mcp__fs__run": "function_call",
    "apply": "custom_tool_call",
    "local_shell": "local_shell_call",
    "shell": "shell_call",
    "apply_patch": "apply_patch_call",
    "tool_search": "tool_search_call",
}
EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
chunks = st.lists(texts, min_size=1, max_size=4)
arguments = {
    "run": st.fixed_dictionaries({"command": texts}, optional={"extra": st.integers() | texts}),
    "mcp__fs__run": st.fixed_dictionaries({}, optional={"path": texts}),
    "apply": st.fixed_dictionaries({"input": texts}),
    "local_shell": st.fixed_dictionaries({"command": st.lists(texts, min_size=1, max_size=2)}, optional={"timeout_ms": st.integers(1, 9)}),
    "shell": st.fixed_dictionaries({"commands": st.lists(texts, min_size=1, max_size=2)}),
    "apply_patch": st.fixed_dictionaries({"type": st.just("update_file"), "path": texts, "diff": texts}),
    "tool_search": st.fixed_dictionaries({"query": texts}),
}
calls = st.sampled_from(sorted(arguments)).flatmap(
    lambda name: st.tuples(st.just("call"), st.just(name), arguments[name], st.sampled_from([None, 2])).map(
        lambda spec: (spec[0], spec[1], json.dumps(spec[2], indent=spec[3], ensure_ascii=False))
    )
)
segments = st.one_of(st.tuples(st.just("reasoning"), chunks), st.tuples(st.just("text"), chunks), calls)


@st.composite
def turns(draw: st.DrawFn) -> list[Event]:
    """What the pipeline hands to the gate: any order of segments, the last one perhaps a call the limit has cut."""
    events: list[Event] = [TurnStart(TAG, "model", 20, draw(st.none() | st.integers(0, 20)))]
    done: list[Segment] = []
    for spec in draw(st.lists(segments, max_size=5)):
        events += _segment(spec, done, with_logprobs=draw(st.booleans()))
    cut = draw(st.booleans())
    if cut:
        events += _cut_call(draw(st.sampled_from(["run", "apply", "local_shell"])), draw(st.integers(0, 3)), done)
    finish: FinishReason = "length" if cut or draw(st.booleans()) else "stop"
    usage = Usage(prompt_tokens=20, cached_tokens=draw(st.none() | st.integers(0, 20)), output_tokens=9, reasoning_tokens=3)
    events.append(TurnEnd(stop_reason(done, finish, None), usage))
    check_order(events)
    return events


def _segment(spec: tuple[Any, ...], done: list[Segment], *, with_logprobs: bool) -> list[Event]:
    index = len(done)
    if spec[0] == "call":
        _, name, text = spec
        call_id = f"call_{TAG}{index}"
        done.append(CallSegment(name, text, call_id))
        deltas: list[Event] = [SegmentDelta(index, text[at : at + 5]) for at in range(0, len(text), 5)]
        return [SegmentStart(index, "tool_call", call_id, name), *deltas, SegmentEnd(index), CallReady(index, call_id, name, text)]
    kind, parts = spec
    done.append(ReasoningSegment("".join(parts)) if kind == "reasoning" else TextSegment("".join(parts)))
    carrier = f"antiphon.{TAG}.{index}" if kind == "reasoning" else None
    deltas = []
    for part in parts:
        if with_logprobs and kind == "text":
            token = TokenLogprob(part, -0.5, part.encode())
            deltas.append(TokenLogprobs((SampledLogprob(token, (token,)),)))
        deltas.append(SegmentDelta(index, part))
    return [SegmentStart(index, kind), *deltas, SegmentEnd(index, carrier=carrier)]


def _cut_call(name: str, size: int, done: list[Segment]) -> list[Event]:
    index = len(done)
    begun = '{"command": ["x' if name == "local_shell" else '{"command": "x' if name == "run" else '{"input": "x'
    text = begun[: size * 5]
    done.append(CallSegment(name, text, f"call_{TAG}{index}", "truncated"))
    deltas = [SegmentDelta(index, text)] if text else []
    return [SegmentStart(index, "tool_call", f"call_{TAG}{index}", name), *deltas, SegmentEnd(index, "truncated")]


gates = st.tuples(st.sampled_from(["whole", "incremental"]), st.sampled_from(["honest", "recover"]))
forms = st.sampled_from(["summary", "text"])


def gated(events: list[Event], gate: tuple[Any, Any]) -> list[Event]:
    """The events as a projector gets them."""
    call_gate = CallGate(CALL.turn.tools, streaming=gate[0], cut=gate[1])
    passed = [out for event in events for out in call_gate.push(event)]
    checker = OrderChecker(poisoned=gate[0] == "incremental")
    for event in passed:
        checker.push(event)
    checker.finish()
    return passed


def projector(form: str) -> responses.Projector:
    options = CALL.options(response_id=f"resp_{TAG}", created=1)
    return responses.Projector(type(options)(**{**{name: getattr(options, name) for name in options.__struct_fields__}, "reasoning": form}))


def transport(stream: bytes, body: bytes) -> httpx2.Client:
    """Answers a streaming request with `stream` and any other with `body`."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        streaming = json.loads(request.content).get("stream")
        kind, content = ("text/event-stream", stream) if streaming else ("application/json", body)
        return httpx2.Response(200, headers={"content-type": kind}, content=content)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def payloads(stream: bytes) -> list[dict[str, Any]]:
    lines = stream.decode().split("\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert [line for line in lines if line.startswith("event: ")] == [f"event: {event['type']}" for event in events]
    return events


@settings(max_examples=200, deadline=None)
@given(turns(), gates, forms)
def test_the_openai_sdk_folds_the_stream_into_the_body(events: list[Event], gate: tuple[Any, Any], form: str) -> None:
    projection = projector(form)
    stream = b"".join(projection.push(event) + (b"" if projection.failed else projection.keepalive()) for event in gated(events, gate))
    body = json.loads(projection.body())
    last = "response.incomplete" if body["status"] == "incomplete" else f"response.{body['status']}"
    with transport(stream, projection.body()) as http, openai.OpenAI(api_key="x", base_url="http://test", http_client=http) as client:
        request: dict[str, Any] = {"model": "model", "input": "hi"}
        with client.responses.stream(**request) as live:
            seen = list(live)
            end = next(event for event in seen if event.type == last)
            accumulated = live._state._completed_output
        assert client.responses.create(**request).to_dict() == body
    folded = json.loads(json.dumps(end.response.to_dict()))  # type: ignore[union-attr]
    for item in folded["output"]:  # these two are the SDK's own
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
    assert folded == body
    assert [accumulated[index].to_dict() for index in sorted(accumulated)] == body["output"]


@settings(max_examples=100, deadline=None)
@given(turns(), gates, forms)
def test_every_event_and_body_is_of_the_sdk_s_types(events: list[Event], gate: tuple[Any, Any], form: str) -> None:
    projection = projector(form)
    wire = payloads(b"".join(projection.push(event) for event in gated(events, gate)))
    for event in wire:
        EVENTS.validate_python(event)
    Response.model_validate_json(projection.body())
    assert wire[-1]["response"] == json.loads(projection.body())


DONE = {
    "response.output_text.done": "text",
    "response.reasoning_text.done": "text",
    "response.reasoning_summary_text.done": "text",
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}


def fold(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a client makes of a stream that reads deltas alone, checked on the way: one item open at a time, places dense, each done
    event equal to what its deltas added up to."""
    items: list[dict[str, Any]] = []
    current: dict[str, Any] | None = None
    text = ""
    for event in events:
        kind = event["type"]
        if kind == "response.output_item.added":
            assert current is None
            assert event["output_index"] == len(items)
            current, text = event["item"], ""
        elif kind.endswith(".delta"):
            assert current is not None
            assert (event["item_id"], event["output_index"]) == (current["id"], len(items))
            text += event["delta"]
        elif kind in DONE:
            assert event[DONE[kind]] == text
        elif kind == "response.output_item.done":
            assert current is not None
            assert (event["item"]["id"], event["item"]["type"]) == (current["id"], current["type"])
            assert text_of(event["item"]) in (None, text)
            items.append(event["item"])
            current = None
    assert current is None or events[-1]["type"] == "response.failed"
    return items


def text_of(item: dict[str, Any]) -> str | None:
    """The one text of an item; None for items that have none."""
    if item["type"] in ("message", "reasoning"):
        return "".join(part["text"] for key in ("summary", "content") for part in item.get(key, ()))
    return item["arguments"] if item["type"] == "function_call" else item.get("input")


def expected_items(events: list[Event]) -> list[str]:
    """The item types that segments behind the gate become: blank texts leave nothing, nor does what stands in for a cut call of a tool
    that is not called with JSON."""
    kinds: list[str] = []
    for at, event in enumerate(events):
        if isinstance(event, SegmentStart) and event.kind != "tool_call":
            text = "".join(delta.text for delta in events if isinstance(delta, SegmentDelta) and delta.index == event.index)
            if text.strip() or event.kind == "reasoning":
                kinds.append("reasoning" if event.kind == "reasoning" else "message")
        elif isinstance(event, CallReady):
            end = events[at - 1]
            stand_in = isinstance(end, SegmentEnd) and end.status == "recovered"
            if not stand_in or KINDS[event.name] == "function_call":
                kinds.append(KINDS[event.name])
    return kinds


@settings(max_examples=100, deadline=None)
@given(turns(), gates, forms)
def test_items_are_closed_in_order_and_the_output_is_the_list_of_them(events: list[Event], gate: tuple[Any, Any], form: str) -> None:
    projection = projector(form)
    passed = gated(events, gate)
    wire = payloads(b"".join(projection.push(event) for event in passed))
    output = json.loads(projection.body())["output"]
    assert [event["sequence_number"] for event in wire] == list(range(len(wire)))
    assert fold(wire) == output == [json.loads(bytes(item)) for item in projection.output()]
    assert [item["type"] for item in output] == expected_items(passed)
    assert len({item["id"] for item in output}) == len(output)


@settings(max_examples=50, deadline=None)
@given(turns(), gates)
def test_a_socket_gets_the_same_events_without_framing(events: list[Event], gate: tuple[Any, Any]) -> None:
    framed, bare = projector("summary"), projector("summary")
    passed = gated(events, gate)
    stream = b"".join(framed.push(event) for event in passed)
    frames = [payload for event in passed for payload in bare.push_events(event)]
    assert [json.loads(frame) for frame in frames] == payloads(stream)
    assert framed.body() == bare.body()
