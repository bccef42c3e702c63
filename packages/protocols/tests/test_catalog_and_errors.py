"""Error tables and session ids (the catalog has tests of its own)."""

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from antiphon_protocols import ErrorResponse, chat, messages, parent_session_id, session_id
from antiphon_turns import errors as e


def every_class(kind: type[e.AntiphonError] = e.AntiphonError) -> list[type[e.AntiphonError]]:
    return [kind, *(inner for child in kind.__subclasses__() for inner in every_class(child))]


@pytest.mark.parametrize("table", [messages.ERRORS, chat.ERRORS], ids=["messages", "chat"])
def test_every_error_class_has_a_row(table: dict[type[e.AntiphonError], Any]) -> None:
    assert {kind for kind in every_class() if kind.__module__ == e.__name__} == set(table)


CASES: list[tuple[e.AntiphonError, tuple[int, str], tuple[int, str, str], str | None]] = [
    (e.InvalidRequest("m"), (400, "invalid_request_error"), (400, "invalid_request_error", "invalid_request"), None),
    (e.AuthError("m"), (401, "authentication_error"), (401, "authentication_error", "invalid_api_key"), None),
    (e.UnknownModel("m"), (404, "not_found_error"), (404, "invalid_request_error", "model_not_found"), None),
    (e.NotFound("m"), (404, "not_found_error"), (404, "invalid_request_error", "not_found"), None),
    (e.MethodNotAllowed("m"), (405, "invalid_request_error"), (405, "invalid_request_error", "method_not_allowed"), None),
    (e.BodyTooLarge("m"), (413, "request_too_large"), (413, "invalid_request_error", "request_too_large"), None),
    (e.RateLimited("m", retry_after=2.2), (429, "rate_limit_error"), (429, "rate_limit_error", "rate_limit_exceeded"), "3"),
    (e.Overloaded("m", retry_after=0.1), (529, "overloaded_error"), (503, "server_error", "overloaded"), "1"),
    (e.WorkerUnavailable("m"), (503, "overloaded_error"), (503, "server_error", "worker_unavailable"), "2"),
    (e.WorkerTimeout("m"), (504, "timeout_error"), (504, "server_error", "worker_timeout"), None),
    (e.WorkerProtocolError("m"), (502, "api_error"), (502, "server_error", "worker_protocol_error"), None),
    (e.StreamInterrupted("m"), (502, "api_error"), (502, "server_error", "stream_interrupted"), None),
    (e.InternalError("m"), (500, "api_error"), (500, "server_error", "internal_error"), None),
]


@pytest.mark.parametrize(("error", "on_messages", "on_chat", "retry_after"), CASES, ids=[type(case[0]).__name__ for case in CASES])
def test_errors_on_both_wires(
    error: e.AntiphonError, on_messages: tuple[int, str], on_chat: tuple[int, str, str], retry_after: str | None
) -> None:
    response = messages.error_response(error, "req_1")
    assert (response.status, json.loads(response.body)) == (
        on_messages[0],
        {"type": "error", "error": {"type": on_messages[1], "message": "m"}, "request_id": "req_1"},
    )
    assert response.headers["request-id"] == "req_1"
    completion = chat.error_response(error, "req_1")
    assert (completion.status, json.loads(completion.body)) == (
        on_chat[0],
        {"error": {"message": "m", "type": on_chat[1], "param": None, "code": on_chat[2]}},
    )
    assert completion.headers["x-request-id"] == "req_1"
    assert response.headers.get("retry-after") == completion.headers.get("retry-after") == retry_after


def test_overflow_carries_both_numbers_in_the_words_clients_read() -> None:
    error = e.ContextOverflow(9000, 8192)
    response = messages.error_response(error, "r")
    assert (response.status, json.loads(response.body)["error"]) == (
        400,
        {"type": "invalid_request_error", "message": "prompt is too long: 9000 tokens > 8192 maximum"},
    )
    detail = json.loads(chat.error_response(error, "r").body)["error"]
    assert (detail["code"], detail["param"]) == ("context_length_exceeded", "messages")
    assert "maximum context length is 8192 tokens" in detail["message"]
    assert "9000" in detail["message"]


def client(response: ErrorResponse) -> httpx2.Client:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(response.status, headers=response.headers, content=response.body)

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def test_the_sdks_raise_the_class_they_have_for_the_error() -> None:
    overflow, missing = e.ContextOverflow(9, 8), e.UnknownModel("no such model")
    with client(messages.error_response(missing, "req_9")) as http, pytest.raises(anthropic.NotFoundError) as caught:
        anthropic.Anthropic(api_key="x", base_url="http://t", http_client=http).messages.create(max_tokens=1, messages=[], model="m")
    assert caught.value.request_id == "req_9"
    with client(chat.error_response(overflow, "req_9")) as http, pytest.raises(openai.BadRequestError) as refused:
        openai.OpenAI(api_key="x", base_url="http://t", http_client=http).chat.completions.create(messages=[], model="m")
    assert refused.value.code == "context_length_exceeded"


CC = {"x-claude-code-session-id": "S"}
AGENT = {**CC, "x-claude-code-agent-id": "A"}
TRACE = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


@pytest.mark.parametrize(
    ("headers", "fields", "session", "parent"),
    [
        ({}, {}, None, None),
        (CC, {}, "S", None),
        (CC, {"user_id": '{"session_id":"other"}'}, "S", None),
        (AGENT, {}, "A", "S"),
        ({**AGENT, "x-claude-code-parent-agent-id": "P"}, {}, "A", "P"),
        ({"session-id": "T", "thread-id": "T2"}, {"prompt_cache_key": "T3"}, "T", None),
        ({"x-session-affinity": "ses_1", "x-session-id": "ses_1", "x-parent-session-id": "ses_0"}, {}, "ses_1", "ses_0"),
        ({"session_id": "pi"}, {}, "pi", None),
        ({}, {"prompt_cache_key": "K"}, "K", None),
        ({"traceparent": TRACE}, {}, "0123456789abcdef0123456789abcdef", None),
        ({"traceparent": "nonsense"}, {}, None, None),
        ({**CC, "x-dynamo-session-id": "D", "x-dynamo-parent-session-id": "DP"}, {}, "D", "DP"),
        ({"x-claude-code-session-id": ""}, {}, None, None),
        ({}, {"user_id": '{"device_id":"d","account_uuid":"","session_id":"U"}'}, "U", None),
        ({}, {"user_id": "user_abc_account__session_0a-1b"}, "0a-1b", None),
        ({}, {"user_id": "somebody"}, None, None),
        ({"session-id": "x" * 900}, {}, "x" * 256, None),
    ],
)
def test_sessions(headers: dict[str, str], fields: dict[str, str], session: str | None, parent: str | None) -> None:
    assert session_id(headers, **fields) == session
    assert parent_session_id(headers) == parent
