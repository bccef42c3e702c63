"""I10 and I5: the vendors' SDKs accumulate our stream into exactly our body, for turns of every shape, behind the call gate."""

import json
from typing import Any

import anthropic
import httpx2
import openai
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState

from antiphon_protocols import chat, messages
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
    Tool,
    TurnEnd,
    TurnMetadata,
    TurnStart,
    Usage,
    stop_reason,
)

TAG = "abcdefghijklmnop"
TOOLS = (
    Tool(name="run", parameters='{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}'),
    Tool(name="now"),
)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
chunks = st.lists(texts, min_size=1, max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
arguments = st.fixed_dictionaries({"command": texts}, optional={"extra": json_values}).map(json.dumps)
segments = st.one_of(
    st.tuples(st.just("reasoning"), chunks),
    st.tuples(st.just("text"), chunks),
    st.tuples(st.just("call"), st.sampled_from(["run", "now"]), arguments),
)


@st.composite
def turns(draw: st.DrawFn) -> list[Event]:
    """What the pipeline hands to the gate: any order of segments, the last one perhaps a call the limit has cut."""
    events: list[Event] = [TurnStart(TAG, "model", 20, draw(st.none() | st.integers(0, 20)))]
    done: list[Segment] = []
    for spec in draw(st.lists(segments, max_size=5)):
        events += _segment(spec, done)
    cut = draw(st.booleans())
    if cut:
        events += _cut_call(draw(arguments), draw(st.integers(0, 5)), done)
    finish: FinishReason = "length" if cut or draw(st.booleans()) else "stop"
    stop = draw(st.none() | st.just("END")) if done and isinstance(done[-1], TextSegment) else None
    usage = Usage(prompt_tokens=20, cached_tokens=draw(st.none() | st.integers(0, 20)), output_tokens=9, reasoning_tokens=3)
    events.append(TurnEnd(stop_reason(done, finish, stop), usage, stop))
    checker = OrderChecker()
    for event in events:
        checker.push(event)
    return events


def _segment(spec: tuple[Any, ...], done: list[Segment]) -> list[Event]:
    index = len(done)
    if spec[0] == "call":
        _, name, text = spec
        call_id = f"call_{TAG}{index}"
        done.append(CallSegment(name, text, call_id))
        parts = [text[at : at + 5] for at in range(0, len(text), 5)]
        deltas = [SegmentDelta(index, part) for part in parts]
        end: list[Event] = [SegmentEnd(index, tokens=3), CallReady(index, call_id, name, text)]
        return [SegmentStart(index, "tool_call", call_id, name), *deltas, *end]
    kind, parts = spec
    done.append(ReasoningSegment("".join(parts)) if kind == "reasoning" else TextSegment("".join(parts)))
    carrier = f"antiphon.{TAG}.{index}" if kind == "reasoning" else None
    return [SegmentStart(index, kind), *(SegmentDelta(index, part) for part in parts), SegmentEnd(index, carrier=carrier)]


def _cut_call(text: str, size: int, done: list[Segment]) -> list[Event]:
    index = len(done)
    text = text[: min(size * 3, len(text) - 1)]
    done.append(CallSegment("run", text, f"call_{TAG}{index}", "truncated"))
    deltas = [SegmentDelta(index, text)] if text else []
    return [SegmentStart(index, "tool_call", f"call_{TAG}{index}", "run"), *deltas, SegmentEnd(index, "truncated")]


gates = st.tuples(st.sampled_from(["whole", "incremental"]), st.sampled_from(["honest", "recover"]))


def gated(events: list[Event], gate: tuple[Any, Any]) -> list[Event]:
    """The events as a projector gets them, checked again: indices stay dense, readiness stays last. With all that may stand anywhere."""
    call_gate = CallGate(TOOLS, streaming=gate[0], cut=gate[1])
    passed = [out for event in events for out in call_gate.push(event)]
    checker = OrderChecker(poisoned=gate[0] == "incremental")
    for event in passed:
        checker.push(event)
    checker.finish()
    beside = [TurnMetadata(worker="w"), TurnMetadata(ttft_seconds=0.5)]
    return [passed[0], *beside, *(out for event in passed[1:] for out in _with_probabilities(event))]


def _with_probabilities(event: Event) -> list[Event]:
    """Made-up ones before every delta; a projector takes those of visible text only if they are wanted."""
    if not isinstance(event, SegmentDelta):
        return [event]
    token = TokenLogprob(event.text, -0.5, event.text.encode())
    return [TokenLogprobs((SampledLogprob(token, (token,)),)), event]


def without_nvext(body: bytes) -> bytes:
    """What the SDKs do not know rides on events they pass over, so only the whole body shows it."""
    value = json.loads(body)
    assert value.pop("nvext") == {"worker": "w", "timing": {"ttft_ms": 500.0}}
    return json.dumps(value).encode()


def transport(stream: bytes, body: bytes) -> httpx2.Client:
    """Answers a streaming request with `stream` and any other with `body`."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        streaming = json.loads(request.content).get("stream")
        kind, content = ("text/event-stream", stream) if streaming else ("application/json", body)
        return httpx2.Response(200, headers={"content-type": kind}, content=content)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


@settings(max_examples=200, deadline=None)
@given(turns(), gates, st.sampled_from(["text", "carrier"]))
def test_the_anthropic_sdk_folds_the_stream_into_the_body(events: list[Event], gate: tuple[Any, Any], reasoning: Any) -> None:
    projector = messages.Projector(messages.Options(reasoning=reasoning, fields=frozenset({"worker", "timing"})))
    stream = b"".join(projector.push(event) + projector.keepalive() for event in gated(events, gate))
    body = without_nvext(projector.body())
    with transport(stream, body) as http, anthropic.Anthropic(api_key="x", base_url="http://test", http_client=http) as client:
        request: dict[str, Any] = {"model": "model", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
        with client.messages.stream(**request) as live:
            folded = live.get_final_message().to_dict()
        assert client.messages.create(**request).to_dict() == json.loads(body)
    for block in folded["content"]:  # type: ignore[attr-defined]
        block.pop("parsed_output", None)  # the SDK's own field
    assert {key: value for key, value in folded.items() if value is not None or key in json.loads(body)} == json.loads(body)


@settings(max_examples=200, deadline=None)
@given(turns(), gates, st.sets(st.sampled_from(["dispatch", "mirror", "logprobs"])))
def test_the_openai_sdk_folds_the_stream_into_the_body(events: list[Event], gate: tuple[Any, Any], wishes: set[str]) -> None:
    dispatch = "dispatch" in wishes
    options = chat.Options(
        created=1,
        include_usage=True,
        tool_dispatch=dispatch,
        reasoning_dispatch=dispatch,
        mirror_reasoning="mirror" in wishes,
        logprobs="logprobs" in wishes,
        fields=frozenset({"worker", "timing"}),
    )
    projector = chat.Projector(options)
    stream = b"".join(projector.push(event) + projector.keepalive() for event in gated(events, gate))
    body = without_nvext(projector.body())
    with transport(stream, body) as http, openai.OpenAI(api_key="x", base_url="http://test", http_client=http) as client:
        request: dict[str, Any] = {"model": "model", "messages": [{"role": "user", "content": "hi"}]}
        state = ChatCompletionStreamState()
        for chunk in client.chat.completions.create(**request, stream=True):
            state.handle_chunk(chunk)
        unary = client.chat.completions.create(**request).model_dump()
    folded = state.current_completion_snapshot.model_dump()  # get_final_completion raises for a turn cut by the limit
    message = folded["choices"][0]["message"]
    message.pop("parsed")  # this and the next two are the SDK's own
    for call in message["tool_calls"] or []:
        call.pop("index")
        call["function"].pop("parsed_arguments")
    assert folded == unary


def test_the_beta_sdk_folds_the_report_of_context_edits() -> None:
    projector = messages.Projector(messages.Options(manages_context=True))
    events: list[Event] = [TurnStart(TAG, "model", 20), *_segment(("text", ["hi"]), []), TurnEnd("end_turn", Usage(prompt_tokens=20))]
    stream = b"".join(map(projector.push, events))
    body = projector.body()
    with transport(stream, body) as http, anthropic.Anthropic(api_key="x", base_url="http://test", http_client=http) as client:
        request: dict[str, Any] = {"model": "model", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
        with client.beta.messages.stream(**request) as live:
            folded = live.get_final_message().to_dict()
    assert folded["context_management"] == json.loads(body)["context_management"] == {"applied_edits": []}
