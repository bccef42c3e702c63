"""Bad input gets the surface's own envelope and status, and nothing else."""

import json

import pytest

from antiphon.config import Settings

MODEL = "antiphon-mock"
HI = [{"role": "user", "content": "hi"}]
TOOL_A = {"name": "t", "input_schema": {"type": "object"}}
TOOL_C = {"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def server(run_server):
    with run_server(Settings(engine="mock", http_port=0, context_length=512, max_body_bytes=2_000_000, trace_tokens=None)) as running:
        yield running


def messages(**fields):
    return {"model": MODEL, "max_tokens": 16, "messages": HI, **fields}


def chat(**fields):
    return {"model": MODEL, "messages": HI, **fields}


LONG = "word " * 2000

MESSAGES_CASES = [
    ("missing max_tokens", {"model": MODEL, "messages": HI}, 400, "max_tokens"),
    ("missing model", {"max_tokens": 1, "messages": HI}, 400, "model"),
    ("missing messages", {"model": MODEL, "max_tokens": 1}, 400, "messages"),
    ("empty messages", messages(messages=[]), 400, "messages"),
    ("ill-typed messages", messages(messages="hi"), 400, "messages"),
    ("ill-typed content", messages(messages=[{"role": "user", "content": 3}]), 400, "messages.0.content"),
    ("unknown role", messages(messages=[{"role": "robot", "content": "x"}]), 400, "role"),
    ("structured output", messages(output_format={"type": "json_schema"}), 400, "output_format"),
    ("zero max_tokens", messages(max_tokens=0), 400, "max_tokens"),
    ("negative max_tokens", messages(max_tokens=-5), 400, "max_tokens"),
    ("text max_tokens", messages(max_tokens="many"), 400, "max_tokens"),
    ("hot temperature", messages(temperature=7), 400, "temperature"),
    ("unknown model", messages(model="nope"), 404, "nope"),
    ("unknown tool in tool_choice", messages(tools=[TOOL_A], tool_choice={"type": "tool", "name": "zz"}), 400, "zz"),
    ("any without tools", messages(tool_choice={"type": "any"}), 400, "tool_choice"),
    ("empty stop", messages(stop_sequences=[""]), 400, "stop_sequences"),
    ("image", messages(messages=[{"role": "user", "content": [{"type": "image", "source": {}}]}]), 400, "image"),
    ("unknown block", messages(messages=[{"role": "user", "content": [{"type": "hologram"}]}]), 400, "hologram"),
    ("too long", messages(messages=[{"role": "user", "content": LONG}]), 400, "prompt is too long: "),
]
CHAT_CASES = [
    ("missing model", {"messages": HI}, 400, "model"),
    ("missing messages", {"model": MODEL}, 400, "messages"),
    ("empty messages", chat(messages=[]), 400, "messages"),
    ("ill-typed content", chat(messages=[{"role": "user", "content": 3}]), 400, "content"),
    ("unknown role", chat(messages=[{"role": "robot", "content": "x"}]), 400, "role"),
    ("zero max_tokens", chat(max_tokens=0), 400, "max_tokens"),
    ("zero max_completion_tokens", chat(max_completion_tokens=0), 400, "max_completion_tokens"),
    ("hot temperature", chat(temperature=2.5), 400, "temperature"),
    ("unknown model", chat(model="nope"), 404, "nope"),
    ("unknown tool in tool_choice", chat(tools=[TOOL_C], tool_choice={"type": "function", "function": {"name": "zz"}}), 400, "zz"),
    ("required without tools", chat(tool_choice="required"), 400, "tool_choice"),
    ("too many choices", chat(n=17), 400, "n"),
    ("too many logprobs", chat(logprobs=True, top_logprobs=99), 400, "logprobs"),
    ("unknown output format", chat(response_format={"type": "grammar"}), 400, "response_format"),
    ("own template", chat(chat_template="{{ x }}"), 400, "chat_template"),
    ("image", chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]), 400, "image_url"),
    ("too long", chat(messages=[{"role": "user", "content": LONG}]), 400, "maximum context length is 512 tokens"),
]


def check_messages(answer, status, said):
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["type"] == "error"
    assert set(body["error"]) >= {"type", "message"}
    assert said in body["error"]["message"]
    assert body["request_id"] == answer.headers["request-id"]


def check_chat(answer, status, said):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert said in error["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("name", "body", "status", "said"), MESSAGES_CASES, ids=[case[0] for case in MESSAGES_CASES])
def test_messages(server, name, body, status, said, stream):
    check_messages(server.http.post("/v1/messages", json={**body, "stream": stream}), status, said)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("name", "body", "status", "said"), CHAT_CASES, ids=[case[0] for case in CHAT_CASES])
def test_chat(server, name, body, status, said, stream):
    check_chat(server.http.post("/v1/chat/completions", json={**body, "stream": stream}), status, said)


RAW_CASES = [
    ("bad json", b"{nope", "application/json", 400),
    ("empty", b"", "application/json", 400),
    ("a list", b"[]", "application/json", 400),
    ("a number", b"7", "application/json", 400),
    ("wrong type", json.dumps(messages()).encode(), "text/plain", 400),
    ("deep", b"[" * 100_000, "application/json", 400),
    ("a megabyte of garbage", bytes(range(256)) * 4096, "application/json", 400),
    ("over the limit", b'{"model": "' + b"x" * 2_000_001 + b'"}', "application/json", 413),
]


@pytest.mark.parametrize(("name", "body", "kind", "status"), RAW_CASES, ids=[case[0] for case in RAW_CASES])
def test_raw(server, name, body, kind, status):
    headers = {"content-type": kind}
    check_messages(server.http.post("/v1/messages", content=body, headers=headers), status, "")
    check_messages(server.http.post("/v1/messages/count_tokens", content=body, headers=headers), status, "")
    check_chat(server.http.post("/v1/chat/completions", content=body, headers=headers), status, "")


def test_overflow_says_both_numbers_and_the_code(server):
    answer = server.http.post("/v1/messages", json=messages(messages=[{"role": "user", "content": LONG}]))
    message = answer.json()["error"]["message"]
    counted = server.http.post("/v1/messages/count_tokens", json={"model": MODEL, "messages": [{"role": "user", "content": LONG}]})
    assert message == f"prompt is too long: {counted.json()['input_tokens']} tokens > 512 maximum"
    answer = server.http.post("/v1/chat/completions", json=chat(messages=[{"role": "user", "content": LONG}]))
    assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_thread_is_refused_in_the_form_the_tool_runner_understands(server):
    answer = server.http.post("/v1/messages", json=messages(thread={"type": "create"}))
    assert answer.status_code == 400
    assert answer.json()["error"]["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


def test_what_clients_send_unasked_is_accepted(server):
    answer = server.http.post(
        "/v1/messages?beta=true",
        json=messages(
            thinking={"type": "adaptive", "display": "omitted"},
            output_config={"effort": "high"},
            context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            metadata={"user_id": "{}"},
            tools=[{**TOOL_A, "eager_input_streaming": True, "cache_control": {"type": "ephemeral"}, "defer_loading": True}],
            messages=[{"role": "user", "content": "a"}, {"role": "system", "content": [{"type": "text", "text": "b"}]}],
        ),
    )
    assert answer.status_code == 200, answer.text
    answer = server.http.post(
        "/v1/chat/completions",
        json=chat(
            store=False,
            reasoning_effort="low",
            stream_options={"include_usage": True},
            max_completion_tokens=8,
            parallel_tool_calls=True,
            stream=True,
        ),
    )
    assert answer.status_code == 200, answer.text


def test_unknown_fields_are_accepted_and_named(server):
    for path, body in (("/v1/messages", messages(frobnicate=1)), ("/v1/chat/completions", chat(frobnicate=1))):
        answer = server.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-antiphon-ignored"] == "frobnicate"


def test_max_tokens_beyond_the_room_is_clamped(server):
    answer = server.http.post("/v1/messages", json=messages(max_tokens=100_000, messages=[{"role": "user", "content": "@@REPEAT:600@@"}]))
    body = answer.json()
    assert body["stop_reason"] == "max_tokens"
    assert body["usage"]["input_tokens"] + body["usage"]["output_tokens"] == 512
    assert answer.headers["x-antiphon-max-tokens"] == str(body["usage"]["output_tokens"])


@pytest.mark.parametrize("path", ["/v1/messages/zz", "/v1/zz", "/zz"])
def test_nothing_there(server, path):
    answer = server.http.get(path)
    assert answer.status_code == 404
    assert "error" in answer.json()


def test_deep_template_variables_are_refused(server):
    body = json.dumps(chat(chat_template_kwargs={"enable_thinking": "@"})).replace('"@"', "[" * 40 + "]" * 40)
    answer = server.http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    check_chat(answer, 400, "chat_template_kwargs")


@pytest.mark.parametrize("path", ["/v1/messages/", "/v1/messages/count_tokens/", "/v1/chat/completions/"])
def test_a_slash_too_many_is_answered_not_redirected(server, path):
    answer = server.http.post(path, json={})
    assert answer.status_code == 404
    assert path in answer.json()["error"]["message"]


def test_a_fault_of_the_server_has_the_surfaces_envelope(server, monkeypatch):
    async def broken(request):
        raise ZeroDivisionError

    monkeypatch.setattr(server.pipeline, "count", broken)
    answer = server.http.post("/v1/messages/count_tokens", json=messages())
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "api_error"


def test_wrong_method(server):
    check_messages(server.http.get("/v1/messages"), 405, "GET")
    assert server.http.get("/v1/messages").headers["allow"] == "POST"
    check_chat(server.http.get("/v1/chat/completions"), 405, "GET")
