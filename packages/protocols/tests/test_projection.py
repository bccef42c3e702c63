"""Golden streams, whole, as a client reads them."""

import json

import pytest

from antiphon_protocols import chat, messages
from antiphon_turns import (
    Anomaly,
    CallReady,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    StopReason,
    TurnEnd,
    TurnStart,
    Usage,
    UsageUpdate,
    check_order,
)
from antiphon_turns.errors import InternalError, Overloaded, StreamInterrupted

USAGE = Usage(prompt_tokens=10, cached_tokens=4, output_tokens=7, reasoning_tokens=2)


def turn(*segments: list[Event], stop: StopReason = "end_turn", stop_sequence: str | None = None) -> list[Event]:
    events = [TurnStart("tag", "m", 10), *(event for segment in segments for event in segment), TurnEnd(stop, USAGE, stop_sequence)]
    check_order(events)
    return events


def plain(index: int, kind: str, *texts: str, carrier: str | None = None) -> list[Event]:
    deltas = [SegmentDelta(index, text) for text in texts]
    return [SegmentStart(index, kind), *deltas, SegmentEnd(index, carrier=carrier)]  # type: ignore[arg-type]


def call(index: int, *texts: str, name: str = "run") -> list[Event]:
    call_id = f"call_tag{index}"
    deltas = [SegmentDelta(index, text) for text in texts]
    start = SegmentStart(index, "tool_call", call_id, name)
    return [start, *deltas, SegmentEnd(index), CallReady(index, call_id, name, "".join(texts))]


def stream(projector: messages.Projector | chat.Projector, events: list[Event]) -> str:
    return b"".join(projector.push(event) for event in events).decode()


INTERLEAVED = turn(
    plain(0, "reasoning", "look\n", "first", carrier="c0"),
    plain(1, "text", "I'll check."),
    call(2, '{"command":"ls"}'),
    plain(3, "reasoning", "and", carrier="c3"),
    call(4, "{}", name="now"),
    stop="tool_use",
)

MESSAGES_GOLDEN = """\
event: message_start
data: {"type":"message_start","message":{"id":"msg_tag","type":"message","role":"assistant","model":"m","content":[],\
"stop_reason":null,"stop_sequence":null,\
"usage":{"input_tokens":10,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"look\\n"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"first"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c0"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I'll check."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_tag2","name":"run","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"command\\":\\"ls\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"thinking_delta","thinking":"and"}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"signature_delta","signature":"c3"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"call_tag4","name":"now","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},\
"usage":{"input_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":7,\
"output_tokens_details":{"thinking_tokens":2}}}

event: message_stop
data: {"type":"message_stop"}

"""

CHUNK = '"id":"chatcmpl-tag","object":"chat.completion.chunk","created":5,"model":"m"'

CHAT_GOLDEN = """\
data: {HEAD,"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}

data: {HEAD,"choices":[{"index":0,"delta":{"reasoning_content":"look\\n"},"finish_reason":null}]}

data: {HEAD,"choices":[{"index":0,"delta":{"reasoning_content":"first"},"finish_reason":null}]}

event: reasoning_dispatch
data: {HEAD,"choices":[],"choice_index":0,"reasoning_content":"look\\nfirst"}

data: {HEAD,"choices":[{"index":0,"delta":{"content":"I'll check."},"finish_reason":null}]}

data: {HEAD,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_tag2","type":"function",\
"function":{"name":"run","arguments":"{\\"command\\":\\"ls\\"}"}}]},"finish_reason":null}]}

event: tool_call_dispatch
data: {HEAD,"choices":[],"choice_index":0,"tool_call":{"index":0,"id":"call_tag2","type":"function",\
"function":{"name":"run","arguments":"{\\"command\\":\\"ls\\"}"}}}

data: {HEAD,"choices":[{"index":0,"delta":{"reasoning_content":"and"},"finish_reason":null}]}

event: reasoning_dispatch
data: {HEAD,"choices":[],"choice_index":0,"reasoning_content":"and"}

data: {HEAD,"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_tag4","type":"function",\
"function":{"name":"now","arguments":"{}"}}]},"finish_reason":null}]}

event: tool_call_dispatch
data: {HEAD,"choices":[],"choice_index":0,"tool_call":{"index":1,"id":"call_tag4","type":"function",\
"function":{"name":"now","arguments":"{}"}}}

data: {HEAD,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {HEAD,"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,\
"completion_tokens_details":{"reasoning_tokens":2},"prompt_tokens_details":{"cached_tokens":4}}}

data: [DONE]

""".replace("HEAD", CHUNK)


def test_messages_golden_stream_and_body() -> None:
    projector = messages.Projector()
    assert stream(projector, INTERLEAVED) == MESSAGES_GOLDEN
    body = json.loads(projector.body())
    assert body["content"] == [
        {"type": "thinking", "thinking": "look\nfirst", "signature": "c0"},
        {"type": "text", "text": "I'll check."},
        {"type": "tool_use", "id": "call_tag2", "name": "run", "input": {"command": "ls"}},
        {"type": "thinking", "thinking": "and", "signature": "c3"},
        {"type": "tool_use", "id": "call_tag4", "name": "now", "input": {}},
    ]
    assert (body["stop_reason"], body["usage"]["output_tokens"]) == ("tool_use", 7)


def test_chat_golden_stream_and_body() -> None:
    projector = chat.Projector(chat.Options(created=5, include_usage=True, tool_dispatch=True, reasoning_dispatch=True))
    assert stream(projector, INTERLEAVED) == CHAT_GOLDEN
    message = json.loads(projector.body())["choices"][0]["message"]
    assert message["content"] == "I'll check."
    assert message["reasoning_content"] == "look\nfirstand"
    assert [called["function"]["arguments"] for called in message["tool_calls"]] == ['{"command":"ls"}', "{}"]


def test_dispatch_events_and_the_usage_chunk_are_opt_in() -> None:
    projector = chat.Projector(chat.Options(created=5))
    text = stream(projector, INTERLEAVED)
    assert "event:" not in text
    assert '"usage"' not in text
    assert text.endswith("data: [DONE]\n\n")


def blocks(events: list[Event], options: messages.Options | None = None) -> list[dict[str, object]]:
    projector = messages.Projector(options)
    stream(projector, events)
    content = json.loads(projector.body())["content"]
    assert isinstance(content, list)
    return content


@pytest.mark.parametrize(
    ("segment", "thinking"),
    [
        (plain(0, "reasoning", " ", "\n", carrier="c"), "\u200b"),
        (plain(0, "reasoning", " ", "a", carrier="c"), " a"),
    ],
    ids=["blank", "leading space"],
)
def test_a_thinking_text_is_never_blank(segment: list[Event], thinking: str) -> None:
    assert blocks(turn(segment)) == [{"type": "thinking", "thinking": thinking, "signature": "c"}]


def test_a_carrier_may_stand_for_the_reasoning() -> None:
    events = turn(plain(0, "reasoning", "secret", carrier="c"))
    assert blocks(events, messages.Options(reasoning="carrier")) == [{"type": "thinking", "thinking": "\u200b", "signature": "c"}]


def test_a_signature_is_never_empty_and_leaves_once() -> None:
    text = stream(messages.Projector(), turn(plain(0, "reasoning", "a", "b")))
    assert text.count("signature_delta") == 1
    assert '"signature":""' not in text.split("signature_delta")[1]


def test_blank_text_segments_leave_no_trace_and_indices_stay_dense() -> None:
    events = turn(plain(0, "text", "\n"), plain(1, "text", "\n", "a"))
    assert blocks(events) == [{"type": "text", "text": "\na"}]
    projector = chat.Projector(chat.Options(created=5))
    stream(projector, events)
    assert json.loads(projector.body())["choices"][0]["message"]["content"] == "\na"


def test_an_empty_turn_is_a_whole_answer() -> None:
    projector = messages.Projector()
    names = [line for line in stream(projector, turn()).splitlines() if line.startswith("event")]
    assert names == ["event: message_start", "event: message_delta", "event: message_stop"]
    assert json.loads(projector.body())["content"] == []
    completion = chat.Projector(chat.Options(created=5))
    stream(completion, turn())
    assert json.loads(completion.body())["choices"][0]["message"]["content"] == ""


def test_a_call_without_argument_bytes_is_an_empty_object() -> None:
    events: list[Event] = [SegmentStart(0, "tool_call", "call_tag0", "now"), SegmentEnd(0), CallReady(0, "call_tag0", "now", "{}")]
    projector = messages.Projector()
    assert '"partial_json":"{}"' in b"".join(projector.push(event) for event in [TurnStart("tag", "m", 1), *events]).decode()
    completion = chat.Projector(chat.Options(created=5))
    assert '"arguments":"{}"' in b"".join(completion.push(event) for event in [TurnStart("tag", "m", 1), *events]).decode()


@pytest.mark.parametrize(
    ("reason", "stop_sequence", "on_messages", "on_chat"),
    [
        ("end_turn", None, "end_turn", "stop"),
        ("tool_use", None, "tool_use", "tool_calls"),
        ("max_tokens", None, "max_tokens", "length"),
        ("stop_sequence", "END", "stop_sequence", "stop"),
        ("refusal", None, "refusal", "content_filter"),
    ],
)
def test_stop_reasons(reason: StopReason, stop_sequence: str | None, on_messages: str, on_chat: str) -> None:
    events = turn(plain(0, "text", "a"), stop=reason, stop_sequence=stop_sequence)
    projector = messages.Projector()
    stream(projector, events)
    body = json.loads(projector.body())
    assert (body["stop_reason"], body["stop_sequence"]) == (on_messages, stop_sequence)
    completion = chat.Projector(chat.Options(created=5))
    stream(completion, events)
    assert json.loads(completion.body())["choices"][0]["finish_reason"] == on_chat


@pytest.mark.parametrize("reason", ["cancelled", "error"])
def test_a_turn_that_did_not_end_has_no_ending_on_the_wire(reason: StopReason) -> None:
    for projector in (messages.Projector(), chat.Projector(chat.Options(created=5))):
        events = turn(plain(0, "text", "a"), stop=reason)
        assert projector.push(events[0])
        assert projector.push(events[-1]) == b""
        with pytest.raises(InternalError):
            projector.body()


@pytest.mark.parametrize(
    ("cached", "shown"),
    [
        (None, {"input_tokens": 1000}),
        (0, {"input_tokens": 1000, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}),
        (960, {"input_tokens": 40, "cache_read_input_tokens": 960, "cache_creation_input_tokens": 0}),
    ],
)
def test_messages_usage_is_a_partition_of_the_prompt(cached: int | None, shown: dict[str, int]) -> None:
    """Report 70. What is not known is left out, not null and not zero."""
    projector = messages.Projector()
    counted = Usage(prompt_tokens=1000, cached_tokens=cached, output_tokens=7, reasoning_tokens=3)
    stream(projector, [TurnStart("tag", "m", 1000), TurnEnd("end_turn", counted)])
    usage = json.loads(projector.body())["usage"]
    assert usage == {**shown, "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 3}}


def test_chat_usage_says_nothing_of_a_cache_it_does_not_know() -> None:
    projector = chat.Projector(chat.Options(created=5))
    stream(projector, [TurnStart("tag", "m", 10), TurnEnd("end_turn", Usage(prompt_tokens=10))])
    assert "prompt_tokens_details" not in json.loads(projector.body())["usage"]


def test_data_for_the_log_stays_off_the_wire() -> None:
    for projector in (messages.Projector(), chat.Projector(chat.Options(created=5))):
        assert projector.push(Anomaly("code", "detail")) == b""
        assert projector.push(UsageUpdate(USAGE)) == b""


def test_keepalives_and_in_band_errors() -> None:
    projector, completion = messages.Projector(messages.Options(request_id="req_1")), chat.Projector(chat.Options(created=5))
    assert projector.keepalive() == b'event: ping\ndata: {"type": "ping"}\n\n'
    assert completion.keepalive() == b": keepalive\n\n"
    assert projector.fail(Overloaded("busy")) == (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"},"request_id":"req_1"}\n\n'
    )
    assert completion.fail(StreamInterrupted("gone")) == (
        b'data: {"error":{"message":"gone","type":"server_error","param":null,"code":"stream_interrupted"}}\n\n'
    )


def test_no_line_splitter_can_cut_a_data_line() -> None:
    text = "a\nb\r\u2028\u2029\x85\x0b\x0c\x1cé"
    for projector in (messages.Projector(), chat.Projector(chat.Options(created=5))):
        lines = stream(projector, turn(plain(0, "text", text, text))).splitlines()
        assert all(line == "" or line.startswith(("event: ", "data: ")) for line in lines)
        assert sum(text in str_values(json.loads(line[6:])) for line in lines if line.startswith("data: {")) == 2


def str_values(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in str_values(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in str_values(inner)]
    return [value] if isinstance(value, str) else []
