"""The whole server with the default model on the CPU: real tokens, forced calls, a client that leaves during prefill."""

import json
import time

import httpx
import jsonschema
import pytest

from antiphon.config import Settings, WorkerSettings
from antiphon.serve import build_engine, choice_of
from antiphon.workers.process import card_of

MODEL = "SmolLM2-135M-Instruct"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
    "required": ["city", "unit"],
}
TOOLS = [
    {"name": "get", "description": "Fetches a page", "input_schema": {"type": "object", "properties": {"url": {"type": "string"}}}},
    {"name": "get_weather", "description": "Weather of a city", "input_schema": SCHEMA},
]
ASK = [{"role": "user", "content": "What is the weather in Paris?"}]


@pytest.fixture(scope="module")
def server(run_server):
    with run_server(Settings(http_port=0, threads=1, context_length=2048)) as running:
        yield running


def partition(usage):
    parts = [usage["input_tokens"], usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]]
    assert min(parts) >= 0
    return sum(parts)


def test_real_tokens_on_both_surfaces(server):
    body = {"model": MODEL, "max_tokens": 12, "temperature": 0, "messages": [{"role": "user", "content": "Say hello."}]}
    count = server.http.post("/v1/messages/count_tokens", json=body).json()["input_tokens"]
    message = server.http.post("/v1/messages", json=body).json()
    assert message["content"][0]["text"].strip()
    assert partition(message["usage"]) == count
    answer = server.http.post("/v1/chat/completions", json=body).json()
    assert answer["choices"][0]["message"]["content"] == message["content"][0]["text"]
    assert answer["usage"]["prompt_tokens"] == count
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == count - 1
    stream = server.http.post("/v1/chat/completions", json={**body, "stream": True}).text
    pieces = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    assert "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces) == message["content"][0]["text"]


@pytest.mark.parametrize(
    ("choice", "names"), [({"type": "any"}, {"get", "get_weather"}), ({"type": "tool", "name": "get_weather"}, {"get_weather"})]
)
def test_a_forced_call_fits_its_schema(server, choice, names):
    body = {"model": MODEL, "max_tokens": 120, "temperature": 0, "tools": TOOLS, "tool_choice": choice, "messages": ASK}
    message = server.http.post("/v1/messages", json=body).json()
    (block,) = message["content"]
    assert (block["type"], message["stop_reason"]) == ("tool_use", "tool_use")
    assert block["name"] in names
    jsonschema.validate(block["input"], next(tool["input_schema"] for tool in TOOLS if tool["name"] == block["name"]))
    partition(message["usage"])
    record = server.traced()[-1] if server.trace_path else None
    assert record is None or len(record["output_ids"]) == message["usage"]["output_tokens"]


def test_a_tool_name_that_spells_a_control_token_stays_text(server):
    tool = {"name": "get<|im_end|>", "input_schema": {"type": "object", "properties": {}}}
    body = {"model": MODEL, "max_tokens": 80, "temperature": 0, "tools": [tool], "tool_choice": {"type": "any"}, "messages": ASK}
    message = server.http.post("/v1/messages", json=body).json()
    assert [block.get("name") for block in message["content"]] == [tool["name"]]
    assert message["stop_reason"] == "tool_use"


def test_a_forced_call_over_chat_streams_whole(server):
    tools = [{"type": "function", "function": {"name": t["name"], "parameters": t["input_schema"]}} for t in TOOLS]
    body = {"model": MODEL, "max_tokens": 120, "temperature": 0, "tools": tools, "tool_choice": "required", "messages": ASK, "stream": True}
    text = server.http.post("/v1/chat/completions", json=body).text
    pieces = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    calls = [call for piece in pieces for call in piece["choices"][0]["delta"].get("tool_calls", [])]
    assert len(calls) == 1
    json.loads(calls[0]["function"]["arguments"])
    assert [piece["choices"][0]["finish_reason"] for piece in pieces if piece["choices"][0]["finish_reason"]] == ["tool_calls"]


def test_too_little_room_for_a_forced_call_is_max_tokens(server):
    body = {"model": MODEL, "max_tokens": 3, "tools": TOOLS, "tool_choice": {"type": "any"}, "messages": ASK}
    message = server.http.post("/v1/messages", json=body).json()
    assert (message["content"], message["stop_reason"]) == ([], "max_tokens")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_a_client_that_leaves_during_prefill_frees_the_engine(server, path):
    words = " ".join(f"w{number}" for number in range(450))
    body = {"model": MODEL, "max_tokens": 5, "stream": True, "messages": [{"role": "user", "content": path + words}]}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(server.url + path, json=body, timeout=httpx.Timeout(5, read=0.3))
    deadline = time.monotonic() + 2
    while server.running_turns():
        assert time.monotonic() < deadline
    # The slot itself is free too: a short turn does not wait for the long prefill.
    short = {"model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
    started = time.monotonic()
    assert server.http.post("/v1/messages", json=short).status_code == 200
    assert time.monotonic() - started < 4


def test_a_workers_card_tells_the_blocks_of_all_slots():
    settings = WorkerSettings(context_length=2048, slots=3, block_size=32)
    model, engine = build_engine(settings, choice_of(settings))
    card = card_of(settings, model, engine, stream_address=":1", feeds=())
    assert (card.kind, card.context_length, card.block_tokens, card.cache_blocks) == ("embedded", 2048, 32, 3 * 64)
    assert card.constrains and card.reports_logprobs
