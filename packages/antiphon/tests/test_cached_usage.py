"""The engine's cached tokens in the usage of each surface, over a session of two turns."""

import json

import pytest

PROMPT = "one two three " * 40
RULES = [{"when": "", "say": "Hm.\n</think>\n\nHi."}]


def messages_usage(answer):
    usage = answer["usage"]
    read, written, plain = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"], usage["input_tokens"]
    return read, read + written + plain


def chat_usage(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"], answer["usage"]["prompt_tokens"]


def responses_usage(answer):
    return answer["usage"]["input_tokens_details"]["cached_tokens"], answer["usage"]["input_tokens"]


def messages_more(body, answer):
    return {**body, "messages": [*body["messages"], {"role": "assistant", "content": answer["content"]}, *user("go on")]}


def chat_more(body, answer):
    return {**body, "messages": [*body["messages"], answer["choices"][0]["message"], *user("go on")]}


def responses_more(body, answer):
    return {**body, "input": [*body["input"], *answer["output"], *user("go on")]}


def user(text):
    return [{"role": "user", "content": text}]


SURFACES = {
    "messages": ("/v1/messages", {"max_tokens": 50, "messages": user(PROMPT)}, messages_usage, messages_more),
    "chat": ("/v1/chat/completions", {"messages": user(PROMPT)}, chat_usage, chat_more),
    "responses": ("/v1/responses", {"input": user(PROMPT), "store": False}, responses_usage, responses_more),
    "completions": ("/v1/completions", {"prompt": PROMPT, "max_tokens": 50}, chat_usage, lambda body, answer: body),
}


@pytest.mark.parametrize("name", SURFACES)
def test_the_cached_part_of_a_prompt_is_told(serve_mock, name):
    server = serve_mock(RULES)
    path, body, read_usage, more = SURFACES[name]
    body = {"model": "antiphon-mock", **body}
    first = server.http.post(path, json=body).json()
    second = server.http.post(path, json=more(body, first)).json()
    one, two = server.traced()
    assert read_usage(first) == (one["cached_tokens"], len(one["prompt_ids"]))
    assert read_usage(second) == (two["cached_tokens"], len(two["prompt_ids"]))
    assert one["cached_tokens"] == 0 < two["cached_tokens"] < len(two["prompt_ids"])
    # Whole blocks of 16 are cached, and never the last token.
    held = [*one["prompt_ids"], *one["output_ids"]]
    shared = next((at for at, pair in enumerate(zip(held, two["prompt_ids"], strict=False)) if pair[0] != pair[1]), len(held))
    assert two["cached_tokens"] == min(shared, len(two["prompt_ids"]) - 1) // 16 * 16


def test_on_messages_the_parts_of_the_input_add_up(serve_mock):
    """Whether a client marks blocks for caching or not: an engine caches by itself, so nothing is counted as written for later."""
    server = serve_mock(RULES)
    block = {"type": "text", "text": PROMPT}
    for content in (block, {**block, "cache_control": {"type": "ephemeral"}}):
        body = {"model": "antiphon-mock", "max_tokens": 50, "messages": [{"role": "user", "content": [content]}]}
        usage = server.http.post("/v1/messages", json=body).json()["usage"]
        turn = server.traced()[-1]
        assert usage["cache_creation_input_tokens"] == 0
        assert usage["cache_read_input_tokens"] == turn["cached_tokens"]
        assert usage["input_tokens"] + usage["cache_read_input_tokens"] == len(turn["prompt_ids"])
    assert usage["cache_read_input_tokens"] > 0


def test_a_stream_tells_the_same(serve_mock):
    server = serve_mock(RULES)
    body = {"model": "antiphon-mock", "max_tokens": 50, "stream": True, "messages": user(PROMPT)}
    for _ in range(2):
        events = [
            json.loads(line[6:]) for line in server.http.post("/v1/messages", json=body).text.splitlines() if line.startswith("data: ")
        ]
    told = [event.get("message", event) for event in events]
    start, end = (one["usage"] for one in told if "usage" in one)
    cached = server.traced()[-1]["cached_tokens"]
    assert start["cache_read_input_tokens"] == end["cache_read_input_tokens"] == cached > 0
