"""What stands beside a Responses turn: compaction, truncation, the error table."""

import json
from typing import Any

import httpx2
import openai
import pytest
from openai.types.responses import CompactedResponse
from packages.protocols.tests.responses_events import OPTIONS, call, payloads, plain, stream, turn

from antiphon_protocols import responses
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Event,
    Message,
    SystemMessage,
    TextSegment,
    ToolChoice,
    ToolMessage,
    TurnRequest,
    UserMessage,
)
from antiphon_turns import errors as e
from antiphon_turns.errors import InternalError, Overloaded, RateLimited, StreamInterrupted

# Compaction


def seal(text: str) -> str:
    return f"sealed:{text}"


def compact(events: list[Event]) -> tuple[responses.CompactionProjector, list[dict[str, Any]]]:
    projector = responses.CompactionProjector(OPTIONS, seal)
    return projector, payloads(stream(projector, events))


SUMMED_UP = turn(plain(0, "reasoning", "hm"), plain(1, "text", " The user", " wants 42. "), call(2, "{}"), stop="tool_use")


def test_a_compaction_is_exactly_one_item() -> None:
    projector, wire = compact(SUMMED_UP)
    item = {"id": "cmp_tag", "type": "compaction", "encrypted_content": "sealed:The user wants 42."}
    assert [event["type"] for event in wire] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event["sequence_number"] for event in wire] == [0, 1, 2, 3, 4]
    assert wire[3]["item"] == item
    assert wire[-1]["response"] == json.loads(projector.body())
    assert wire[-1]["response"]["output"] == [item]
    assert [json.loads(bytes(kept)) for kept in projector.output()] == [item]
    assert wire[-1]["response"]["usage"]["total_tokens"] == 17


def test_the_sdk_reads_what_compact_answers() -> None:
    projector, _ = compact(SUMMED_UP)
    CompactedResponse.model_validate_json(projector.compacted())

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/responses/compact"
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=projector.compacted())

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        client = openai.OpenAI(api_key="x", base_url="http://t", http_client=http)
        compacted = client.responses.compact(model="m", input=[{"role": "user", "content": "long talk"}])
    assert [item.type for item in compacted.output] == ["compaction"]
    assert compacted.usage.total_tokens == 17


def test_a_compaction_without_a_summary_fails_rather_than_losing_everything() -> None:
    projector, wire = compact(turn(plain(0, "reasoning", "hm")))
    assert (wire[-1]["type"], wire[-1]["response"]["error"]["code"]) == ("response.failed", "server_error")
    assert projector.failed
    with pytest.raises(StreamInterrupted):
        projector.compacted()
    with pytest.raises(InternalError):
        responses.CompactionProjector(OPTIONS, seal).body()
    begun = responses.CompactionProjector(OPTIONS, seal)
    assert payloads(begun.fail(Overloaded("busy", retry_after=2)).decode())[0]["response"]["error"]["code"] == "rate_limit_exceeded"


def test_a_limit_without_room_for_a_summary_is_the_requests_fault() -> None:
    projector, _ = compact(turn(plain(0, "reasoning", "hm"), stop="max_tokens"))
    with pytest.raises(e.InvalidRequest, match=r"^max_output_tokens: "):
        projector.compacted()


def test_the_summary_is_asked_for_last_and_the_tools_stay_in_the_prompt() -> None:
    tools = [{"type": "function", "name": "run", "parameters": {}}]
    items = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}, {"type": "compaction_trigger"}]
    fields = {"model": "m", "input": items, "tools": tools, "tool_choice": "required", "text": {"format": {"type": "json_object"}}}
    request = responses.ingest(responses.read(json.dumps(fields).encode(), {}), open_compaction=lambda _: None).turn
    assert request.messages[:2] == (UserMessage("u"), AssistantMessage((TextSegment("a"),)))
    assert isinstance(request.messages[2], UserMessage)
    assert "answer with the notes alone" in request.messages[2].text
    assert ([tool.name for tool in request.tools], request.tool_choice, request.output) == (["run"], ToolChoice(parallel=False), None)


def test_compact_takes_the_same_fields_and_stores_nothing() -> None:
    call = responses.read_compact(b'{"model":"m","input":[{"role":"user","content":"u"}],"stream":true,"background":true}', {})
    assert (call.compacts, call.stream, call.store, call.background) == (True, False, False, False)
    text = responses.ingest(call, open_compaction=lambda _: None).turn.messages[-1].text  # type: ignore[union-attr]
    assert "answer with the notes alone" in text


# Truncation


def conversation(*messages: Message) -> TurnRequest:
    return TurnRequest(surface="responses", model="m", messages=messages)


SYSTEM, OLD, NEW = SystemMessage("s" * 50), UserMessage("o" * 100), UserMessage("n" * 100)
ANSWER, STEP, RESULT = (
    AssistantMessage((TextSegment("a" * 100),)),
    AssistantMessage((CallSegment("f", "c" * 100, "x"),)),
    ToolMessage("x", "r" * 100),
)


@pytest.mark.parametrize(
    ("messages", "context", "kept"),
    [
        ((SYSTEM, OLD, ANSWER, NEW), 300, (SYSTEM, NEW)),
        ((SYSTEM, OLD, ANSWER, NEW), 1000, (SYSTEM, NEW)),
        ((OLD, SYSTEM, ANSWER, OLD, ANSWER, NEW, STEP, RESULT), 800, (SYSTEM, OLD, ANSWER, NEW, STEP, RESULT)),
        ((OLD, NEW, STEP, RESULT, STEP, RESULT, STEP, RESULT), 900, (OLD, NEW, STEP, RESULT, STEP, RESULT)),
        ((OLD, ANSWER, NEW, STEP, RESULT, STEP, RESULT), 100, (NEW, STEP, RESULT)),
        ((ANSWER, NEW), 500, (NEW,)),
    ],
)
def test_the_oldest_part_goes_first(messages: tuple[Message, ...], context: int, kept: tuple[Message, ...]) -> None:
    fresh = tuple(type(message)(**{name: getattr(message, name) for name in message.__struct_fields__}) for message in messages)
    shorter = responses.shortened(conversation(*fresh), prompt_tokens=1000, context_length=context)
    assert shorter is not None
    assert shorter.messages == kept
    assert shorter.ignored[0].endswith("_oldest_messages")


@pytest.mark.parametrize("messages", [(SYSTEM, NEW), (NEW, STEP, RESULT), (SYSTEM,), ()])
def test_what_is_being_asked_now_never_goes(messages: tuple[Message, ...]) -> None:
    assert responses.shortened(conversation(*messages), prompt_tokens=1000, context_length=10) is None


# Errors


@pytest.mark.parametrize(
    ("error", "status", "type_", "code", "failed"),
    [
        (e.InvalidRequest("bad", param="input"), 400, "invalid_request_error", "invalid_request", "invalid_prompt"),
        (e.UnsupportedFeature("no", param="prompt"), 400, "invalid_request_error", "unsupported_feature", "invalid_prompt"),
        (e.ContextOverflow(9, 8), 400, "invalid_request_error", "context_length_exceeded", "context_length_exceeded"),
        (e.AuthError("key"), 401, "authentication_error", "invalid_api_key", "invalid_prompt"),
        (e.UnknownModel("m"), 404, "invalid_request_error", "model_not_found", "invalid_prompt"),
        (e.NotFound("r"), 404, "invalid_request_error", "not_found", "invalid_prompt"),
        (e.NotFound("r", param="previous_response_id"), 400, "invalid_request_error", "previous_response_not_found", "invalid_prompt"),
        (e.MethodNotAllowed("m"), 405, "invalid_request_error", "method_not_allowed", "invalid_prompt"),
        (e.BodyTooLarge("b"), 413, "invalid_request_error", "request_too_large", "invalid_prompt"),
        (e.Overloaded("busy"), 503, "server_error", "overloaded", "rate_limit_exceeded"),
        (e.RateLimited("slow"), 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_exceeded"),
        (e.WorkerUnavailable("w"), 503, "server_error", "worker_unavailable", "server_error"),
        (e.WorkerTimeout("w"), 504, "server_error", "worker_timeout", "server_error"),
        (e.WorkerProtocolError("w"), 502, "server_error", "worker_protocol_error", "server_error"),
        (e.StreamInterrupted("w"), 502, "server_error", "stream_interrupted", "server_error"),
        (e.ConfigError("c"), 500, "server_error", "config_error", "server_error"),
        (InternalError("i"), 500, "server_error", "internal_error", "server_error"),
    ],
)
def test_errors(error: e.AntiphonError, status: int, type_: str, code: str, failed: str) -> None:
    answer = responses.error_response(error, "req_1")
    detail = json.loads(answer.body)["error"]
    assert (answer.status, detail["type"], detail["code"]) == (status, type_, code)
    assert set(detail) == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"] == "req_1"
    assert ("retry-after" in answer.headers) == (status in (429, 503))
    assert responses.failure(error)["code"] == failed
    frame = json.loads(responses.socket_error(error))
    assert (frame["type"], frame["status"], frame["error"]) == ("error", status, detail)
    assert ("retry-after" in frame["headers"]) == (status in (429, 503))


def test_every_error_has_a_row_of_its_own() -> None:
    def tree(kind: type[e.AntiphonError]) -> set[type[e.AntiphonError]]:
        return {kind}.union(*(tree(child) for child in kind.__subclasses__()))

    assert {kind for kind in tree(e.AntiphonError) if kind.__module__ == e.__name__} == set(responses.ERRORS)


def test_codex_reads_how_long_to_wait_and_clients_when_to_compact() -> None:
    assert responses.failure(RateLimited("Too many requests.", retry_after=1.2))["message"] == "Too many requests. Please try again in 2s."
    message = json.loads(responses.error_response(e.ContextOverflow(9, 8), "r").body)["error"]["message"]
    assert "exceeds the context window" in message
    assert "maximum context length is 8 tokens" in message
