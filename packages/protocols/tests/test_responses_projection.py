"""Responses streams, whole, as a client reads them, and how responses end."""

import json
from typing import Any

import pytest
from packages.protocols.tests.responses_events import OPTIONS, USAGE, body, call, payloads, plain, stream, turn

from antiphon_protocols import responses
from antiphon_turns import (
    Anomaly,
    SampledLogprob,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    StopReason,
    TokenLogprob,
    TokenLogprobs,
    TurnEnd,
    TurnMetadata,
    UsageUpdate,
)
from antiphon_turns.errors import InternalError, StreamInterrupted

INTERLEAVED = turn(
    plain(0, "reasoning", "look\n", "first", carrier="c0"),
    plain(1, "text", "I'll", " check."),
    call(2, '{"command":', '"ls"}'),
    plain(3, "reasoning", "and", carrier="c3"),
    call(4, "{}", name="now"),
    plain(5, "text", "Both run."),
    stop="tool_use",
)

GOLDEN = """\
response.output_item.added {"output_index":0,"item":{"id":"rs_tag0","type":"reasoning","summary":[],"status":"in_progress"}}
response.reasoning_summary_part.added {"item_id":"rs_tag0","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}
response.reasoning_summary_text.delta {"item_id":"rs_tag0","output_index":0,"summary_index":0,"delta":"look\\n"}
response.reasoning_summary_text.delta {"item_id":"rs_tag0","output_index":0,"summary_index":0,"delta":"first"}
response.reasoning_summary_text.done {"item_id":"rs_tag0","output_index":0,"summary_index":0,"text":"look\\nfirst"}
response.reasoning_summary_part.done \
{"item_id":"rs_tag0","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"look\\nfirst"}}
response.output_item.done {"output_index":0,"item":{"id":"rs_tag0","type":"reasoning",\
"summary":[{"type":"summary_text","text":"look\\nfirst"}],"encrypted_content":"c0","status":"completed"}}
response.output_item.added \
{"output_index":1,"item":{"id":"msg_tag1","type":"message","status":"in_progress","role":"assistant","content":[]}}
response.content_part.added \
{"item_id":"msg_tag1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
response.output_text.delta {"item_id":"msg_tag1","output_index":1,"content_index":0,"logprobs":[],"delta":"I'll"}
response.output_text.delta {"item_id":"msg_tag1","output_index":1,"content_index":0,"logprobs":[],"delta":" check."}
response.output_text.done {"item_id":"msg_tag1","output_index":1,"content_index":0,"logprobs":[],"text":"I'll check."}
response.content_part.done \
{"item_id":"msg_tag1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"I'll check.","annotations":[],"logprobs":[]}}
response.output_item.done {"output_index":1,"item":{"id":"msg_tag1","type":"message","status":"completed","role":"assistant",\
"content":[{"type":"output_text","text":"I'll check.","annotations":[],"logprobs":[]}]}}
response.output_item.added {"output_index":2,"item":{"id":"fc_tag2","type":"function_call","call_id":"call_tag2","name":"run",\
"arguments":"","status":"in_progress"}}
response.function_call_arguments.delta {"item_id":"fc_tag2","output_index":2,"delta":"{\\"command\\":"}
response.function_call_arguments.delta {"item_id":"fc_tag2","output_index":2,"delta":"\\"ls\\"}"}
response.function_call_arguments.done \
{"item_id":"fc_tag2","output_index":2,"name":"run","arguments":"{\\"command\\":\\"ls\\"}"}
response.output_item.done {"output_index":2,"item":{"id":"fc_tag2","type":"function_call","call_id":"call_tag2","name":"run",\
"arguments":"{\\"command\\":\\"ls\\"}","status":"completed"}}
response.output_item.added {"output_index":3,"item":{"id":"rs_tag3","type":"reasoning","summary":[],"status":"in_progress"}}
response.reasoning_summary_part.added {"item_id":"rs_tag3","output_index":3,"summary_index":0,"part":{"type":"summary_text","text":""}}
response.reasoning_summary_text.delta {"item_id":"rs_tag3","output_index":3,"summary_index":0,"delta":"and"}
response.reasoning_summary_text.done {"item_id":"rs_tag3","output_index":3,"summary_index":0,"text":"and"}
response.reasoning_summary_part.done {"item_id":"rs_tag3","output_index":3,"summary_index":0,"part":{"type":"summary_text","text":"and"}}
response.output_item.done {"output_index":3,"item":{"id":"rs_tag3","type":"reasoning",\
"summary":[{"type":"summary_text","text":"and"}],"encrypted_content":"c3","status":"completed"}}
response.output_item.added {"output_index":4,"item":{"id":"fc_tag4","type":"function_call","call_id":"call_tag4","name":"now",\
"arguments":"","status":"in_progress"}}
response.function_call_arguments.delta {"item_id":"fc_tag4","output_index":4,"delta":"{}"}
response.function_call_arguments.done {"item_id":"fc_tag4","output_index":4,"name":"now","arguments":"{}"}
response.output_item.done {"output_index":4,"item":{"id":"fc_tag4","type":"function_call","call_id":"call_tag4","name":"now",\
"arguments":"{}","status":"completed"}}
response.output_item.added \
{"output_index":5,"item":{"id":"msg_tag5","type":"message","status":"in_progress","role":"assistant","content":[]}}
response.content_part.added \
{"item_id":"msg_tag5","output_index":5,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}
response.output_text.delta {"item_id":"msg_tag5","output_index":5,"content_index":0,"logprobs":[],"delta":"Both run."}
response.output_text.done {"item_id":"msg_tag5","output_index":5,"content_index":0,"logprobs":[],"text":"Both run."}
response.content_part.done \
{"item_id":"msg_tag5","output_index":5,"content_index":0,"part":{"type":"output_text","text":"Both run.","annotations":[],"logprobs":[]}}
response.output_item.done {"output_index":5,"item":{"id":"msg_tag5","type":"message","status":"completed","role":"assistant",\
"content":[{"type":"output_text","text":"Both run.","annotations":[],"logprobs":[]}]}}
"""


def golden_stream() -> str:
    """The lines above as they stand on the wire, numbered, between the two first events and the last."""
    out = []
    for number, line in enumerate(GOLDEN.splitlines(), 2):
        name, rest = line.split(" ", 1)
        out.append(f'event: {name}\ndata: {{"type":"{name}","sequence_number":{number},{rest[1:]}\n\n')
    return "".join(out)


def test_golden_stream_and_body() -> None:
    projector = responses.Projector(OPTIONS)
    text = stream(projector, INTERLEAVED)
    head, middle, tail = text.partition(golden_stream())
    assert middle, "the items differ"
    assert [event["type"] for event in payloads(head)] == ["response.created", "response.in_progress"]
    (end,) = payloads(tail)
    assert end["type"] == "response.completed"
    assert end["response"] == json.loads(projector.body())
    assert [item["id"] for item in end["response"]["output"]] == ["rs_tag0", "msg_tag1", "fc_tag2", "rs_tag3", "fc_tag4", "msg_tag5"]


def test_the_response_object() -> None:
    echo = {"model": "m", "input": "x", "tools": [{"type": "web_search"}], "temperature": 0.5, "metadata": {"a": "b"}, "store": False}
    request = responses.ingest(responses.read(json.dumps(echo).encode(), {}), open_compaction=lambda _: None)
    projector = responses.Projector(request.options(response_id="resp_tag", created=5))
    stream(projector, turn(plain(0, "text", "a")))
    assert json.loads(projector.body()) == {
        "id": "resp_tag",
        "object": "response",
        "created_at": 5,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": "m",
        "output": [
            {
                "id": "msg_tag0",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}],
            }
        ],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 17,
        },
        "store": False,
        "service_tier": "default",
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {"a": "b"},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [{"type": "web_search"}],
        "top_logprobs": 0,
        "top_p": None,
        "truncation": "disabled",
        "user": None,
    }


def test_reasoning_may_leave_as_text() -> None:
    events = turn(plain(0, "reasoning", "a", "b", carrier="c"))
    projector = responses.Projector(responses.Options(response_id="r", created=5, reasoning="text"))
    kinds = [event["type"] for event in payloads(stream(projector, events))][2:-1]
    assert kinds == [
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]
    item = json.loads(projector.body())["output"][0]
    assert (item["summary"], item["content"]) == ([], [{"type": "reasoning_text", "text": "ab"}])


@pytest.mark.parametrize(
    ("reasoning", "form"),
    [(None, "summary"), ({"effort": "low"}, "summary"), ({"summary": "auto"}, "summary"), ({"summary": "none"}, "text")],
)
def test_reasoning_is_always_streamed(reasoning: Any, form: str) -> None:
    raw = json.dumps({"model": "m", "input": "x", "reasoning": reasoning}).encode()
    request = responses.ingest(responses.read(raw, {}), open_compaction=lambda _: None)
    assert request.options(response_id="r", created=1).reasoning == form


def test_blank_segments() -> None:
    events = turn(
        plain(0, "reasoning", " ", "\n", carrier="c"), plain(1, "reasoning", "\n"), plain(2, "text", "\n"), plain(3, "text", "\n", " a")
    )
    output = body(events)["output"]
    assert output[0] == {"id": "rs_tag0", "type": "reasoning", "summary": [], "encrypted_content": "c", "status": "completed"}
    assert [(item["id"], item["content"][0]["text"]) for item in output[1:]] == [("msg_tag3", "\n a")]
    assert body(events, include_encrypted=False)["output"] == output[1:]


def test_an_empty_turn_is_a_whole_answer() -> None:
    projector = responses.Projector(OPTIONS)
    kinds = [event["type"] for event in payloads(stream(projector, turn()))]
    assert kinds == ["response.created", "response.in_progress", "response.completed"]
    assert json.loads(projector.body())["output"] == []


def test_text_that_the_limit_cut_is_incomplete() -> None:
    answer = body(turn(plain(0, "text", "a", status="truncated"), stop="max_tokens"))
    assert answer["output"][0]["status"] == "incomplete"


@pytest.mark.parametrize(
    ("reason", "options", "end", "expected"),
    [
        ("end_turn", {}, {}, ("completed", None, None)),
        ("tool_use", {}, {}, ("completed", None, None)),
        ("stop_sequence", {}, {"stop_sequence": "END"}, ("completed", None, None)),
        ("max_tokens", {}, {}, ("incomplete", {"reason": "max_output_tokens"}, None)),
        ("refusal", {}, {}, ("incomplete", {"reason": "content_filter"}, None)),
        ("max_tokens", {}, {"resumable": True}, ("incomplete", {"reason": "max_output_tokens"}, None)),
        ("max_tokens", {"is_codex": True}, {}, ("incomplete", {"reason": "max_output_tokens"}, None)),
        ("max_tokens", {"is_codex": True}, {"resumable": True}, ("completed", None, False)),
    ],
)
def test_endings(reason: StopReason, options: dict[str, Any], end: dict[str, Any], expected: Any) -> None:
    events = turn(plain(0, "text", "a"), stop=reason, **end)
    answer = body(events, **options)
    assert (answer["status"], answer["incomplete_details"], answer.get("end_turn")) == expected
    last = payloads(stream(responses.Projector(responses.Options(response_id="r", created=5, **options)), events))[-1]
    assert (last["type"], last["response"]["status"]) == (f"response.{expected[0]}", expected[0])


@pytest.mark.parametrize("reason", ["cancelled", "error"])
def test_a_turn_that_did_not_end_has_no_ending_on_the_wire(reason: StopReason) -> None:
    projector = responses.Projector(OPTIONS)
    text = stream(projector, turn(plain(0, "text", "a"), stop=reason))
    assert payloads(text)[-1]["type"] == "response.output_item.done"
    with pytest.raises(InternalError):
        projector.body()
    cancelled = json.loads(projector.snapshot("cancelled"))
    assert (cancelled["status"], len(cancelled["output"])) == ("cancelled", 1)


def test_a_call_cut_after_bytes_of_it_left_is_never_closed() -> None:
    start = SegmentStart(2, "tool_call", "call_tag2", "run")
    projector = responses.Projector(OPTIONS)
    text = stream(projector, [*INTERLEAVED[:9], start, SegmentDelta(2, '{"command":"l'), SegmentDelta(2, '","command":3}')])
    text += stream(projector, [SegmentEnd(2, "truncated"), *plain(3, "text", "more"), TurnEnd("tool_use", USAGE)])
    assert projector.failed
    kinds = [event["type"] for event in payloads(text)]
    assert kinds[-3:] == ["response.function_call_arguments.delta"] * 2 + ["response.failed"]
    failed = payloads(text)[-1]["response"]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert [item["type"] for item in failed["output"]] == ["reasoning", "message"]
    assert json.loads(projector.body()) == failed
    assert projector.fail(StreamInterrupted("gone")) == b""


def test_failures_keep_what_was_finished() -> None:
    projector = responses.Projector(OPTIONS)
    stream(projector, INTERLEAVED[:9])
    (event,) = payloads(projector.fail(StreamInterrupted("the worker is gone")).decode())
    assert (event["type"], event["sequence_number"]) == ("response.failed", 16)
    assert event["response"]["error"] == {"code": "server_error", "message": "the worker is gone"}
    assert [item["id"] for item in event["response"]["output"]] == ["rs_tag0", "msg_tag1"]
    assert json.loads(projector.body()) == event["response"]


def test_nothing_follows_a_failure() -> None:
    projector = responses.Projector(OPTIONS)
    stream(projector, [*INTERLEAVED[:1], SegmentStart(0, "text"), SegmentDelta(0, "a")])
    assert projector.fail(StreamInterrupted("gone"))
    assert stream(projector, [SegmentDelta(0, "b"), SegmentEnd(0), TurnEnd("end_turn", USAGE)]) == ""
    assert json.loads(projector.body())["status"] == "failed"


def test_keepalives_are_numbered_data_events() -> None:
    projector = responses.Projector(OPTIONS)
    stream(projector, INTERLEAVED[:1])
    assert projector.keepalive() == b'event: keepalive\ndata: {"type":"keepalive","sequence_number":2}\n\n'
    assert projector.keepalive_events() == [b'{"type":"keepalive","sequence_number":3}']


def test_data_for_the_log_stays_off_the_wire() -> None:
    projector = responses.Projector(OPTIONS)
    assert projector.push(Anomaly("code", "detail")) == projector.push(UsageUpdate(USAGE)) == b""
    assert projector.push(TurnMetadata(worker="w")) == b""
    assert projector.push(TokenLogprobs((SampledLogprob(TokenLogprob("a", -1.0)),))) == b""


def test_metadata_leaves_as_soon_as_it_is_known_where_it_was_asked_for() -> None:
    projector = responses.Projector(responses.Options(response_id="r", created=5, fields=frozenset({"worker", "timing"})))
    events = INTERLEAVED
    text = stream(projector, [events[0], TurnMetadata(worker="w", session="s"), *events[1:5], TurnMetadata(ttft_seconds=0.25), *events[5:]])
    seen = [event["response"].get("nvext") for event in payloads(text) if "response" in event]
    assert seen == [
        None,
        None,
        {"worker": "w"},
        {"worker": "w", "timing": {"ttft_ms": 250.0}},
        {"worker": "w", "timing": {"ttft_ms": 250.0}},
    ]


def test_probabilities_ride_on_the_delta_they_belong_to() -> None:
    top = (TokenLogprob("a", -0.1, b"a"), TokenLogprob("b", -2.5, b"b"))
    first, second = SampledLogprob(TokenLogprob(" ", float("-inf"), b" ")), SampledLogprob(top[0], top)
    segment = [SegmentStart(0, "text"), TokenLogprobs((first,)), SegmentDelta(0, " "), TokenLogprobs((second,)), SegmentDelta(0, "a")]
    events = turn([*segment, SegmentDelta(0, "z"), SegmentEnd(0)])
    projector = responses.Projector(responses.Options(response_id="r", created=5, logprobs=True))
    wire = payloads(stream(projector, events))
    shown = {
        "token": "a",
        "bytes": [97],
        "logprob": -0.1,
        "top_logprobs": [{"token": "a", "bytes": [97], "logprob": -0.1}, {"token": "b", "bytes": [98], "logprob": -2.5}],
    }
    blank = {"token": " ", "bytes": [32], "logprob": -9999.0, "top_logprobs": []}
    assert [event["logprobs"] for event in wire if event["type"] == "response.output_text.delta"] == [[blank, shown], []]
    assert next(event["logprobs"] for event in wire if event["type"] == "response.output_text.done") == [blank, shown]
    assert json.loads(projector.body())["output"][0]["content"][0]["logprobs"] == [blank, shown]


def test_no_line_splitter_can_cut_a_data_line() -> None:
    text = "a\nb\r\u2028\u2029\x85\x0b\x0c\x1cé"
    fields = {"model": f"m{text}", "input": "x", "tools": [{"type": "web_search", "x": text}]}
    raw = json.dumps(fields, ensure_ascii=False, indent=2).encode()
    request = responses.ingest(responses.read(raw, {}), open_compaction=lambda _: None)
    projector = responses.Projector(request.options(response_id="r", created=5))
    events = turn(plain(0, "reasoning", text, text), plain(1, "text", text), call(2, '{"a":\n"\u2028"}'))
    lines = stream(projector, events).splitlines()
    assert all(line == "" or line.startswith(("event: ", "data: ")) for line in lines)
    assert payloads("\n".join(lines))[-1]["response"]["tools"][0]["x"] == text
