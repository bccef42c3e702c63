"""Several choices over one prompt, legacy Completions, probabilities and what an answer tells of its serving."""

import json

import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

MODEL = "antiphon-mock"
HI = [{"role": "user", "content": "hi"}]
SAY = [{"when": "", "say": "why\n</think>\n\nOne two, three."}]


@pytest.fixture
def client(serve_mock):
    """client(rules, **settings) -> (server, SDK)."""
    opened = []

    def start(rules=SAY, **settings):
        server = serve_mock(rules, **settings)
        opened.append(openai.OpenAI(api_key="x", base_url=server.url + "/v1", max_retries=0))
        return server, opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.mark.parametrize("chunk", [1, 5])
def test_n_choices_come_interleaved_and_fold_into_the_body(client, chunk):
    server, sdk = client(mock_chunk_tokens=chunk)
    asked = {"model": MODEL, "messages": HI, "n": 3, "logprobs": True, "top_logprobs": 2}
    state = ChatCompletionStreamState()
    order = []
    for piece in sdk.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        state.handle_chunk(piece)
        order += [choice.index for choice in piece.choices]
    folded = state.current_completion_snapshot.model_dump()
    body = sdk.chat.completions.create(**asked).model_dump()
    assert order != sorted(order) or chunk > 1
    for one in folded["choices"]:
        one["message"].pop("parsed", None)
    for whole in (folded, body):
        assert [one["index"] for one in whole["choices"]] == [0, 1, 2]
        whole.pop("id"), whole.pop("created")
    assert folded == body
    usage = body["usage"]
    records = server.traced()[-3:]
    assert usage["prompt_tokens"] == len(records[0]["prompt_ids"])
    assert usage["completion_tokens"] == sum(len(record["output_ids"]) for record in records)
    assert len({record["request_id"] for record in records}) == 3


def test_ids_of_calls_differ_between_choices(client):
    call = "<tool_call>\n<function=now>\n</function>\n</tool_call>"
    _, sdk = client([{"when": "", "say": f"x\n</think>\n\n{call}"}])
    tools = [{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]
    answer = sdk.chat.completions.create(model=MODEL, messages=HI, n=2, tools=tools)
    assert len({choice.message.tool_calls[0].id for choice in answer.choices}) == 2


def test_too_many_choices_are_refused(client):
    server, _ = client(max_choices=4)
    for path, fields in (("/v1/chat/completions", {"messages": HI, "n": 5}), ("/v1/completions", {"prompt": ["a", "b"], "n": 3})):
        answer = server.http.post(path, json={"model": MODEL, **fields})
        assert answer.status_code == 400
        assert "at most 4 choices" in answer.json()["error"]["message"]
    assert server.http.post("/v1/chat/completions", json={"model": MODEL, "messages": HI, "n": 4}).status_code == 200


def test_logprobs_are_those_of_the_visible_text(client):
    server, sdk = client()
    said = sdk.chat.completions.create(model=MODEL, messages=HI, logprobs=True, top_logprobs=2).choices[0]
    assert "".join(token.token for token in said.logprobs.content) == said.message.content == "One two, three."
    assert all(len(token.top_logprobs) == 2 and token.top_logprobs[0].token == token.token for token in said.logprobs.content)
    assert bytes(said.logprobs.content[0].bytes) == b"One"
    assert sdk.chat.completions.create(model=MODEL, messages=HI).choices[0].logprobs is None
    server.pipeline.engine.reports_logprobs = False
    refused = server.http.post("/v1/chat/completions", json={"model": MODEL, "messages": HI, "logprobs": True})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "logprobs")


def test_a_raw_prompt_goes_as_it_is(client):
    server, sdk = client([{"when": "", "say": " \n<think>x</think> <tool_call>\n"}])
    text = "<|im_start|>user\nraw<|im_end|>\n"
    answer = sdk.completions.create(model=MODEL, prompt=text, max_tokens=40)
    tokenizer = server.pipeline.model.tokenizer
    record = server.traced()[-1]
    assert record["prompt_ids"] == tokenizer.encode(text, added=True)
    assert tokenizer.added_tokens["<|im_start|>"] in record["prompt_ids"]
    # The mock leaves out what stands before a closing marker where no block is open; all else is shown, markup and white space too.
    assert answer.choices[0].text == " <tool_call>\n"
    assert answer.choices[0].finish_reason == "stop"
    ids = record["prompt_ids"]
    assert sdk.completions.create(model=MODEL, prompt=ids, max_tokens=3).usage.prompt_tokens == len(ids)
    assert server.traced()[-1]["prompt_ids"] == ids


def test_completions_over_several_prompts(client):
    server, sdk = client([{"when": "first", "say": "one STOP two"}, {"when": "", "say": "three"}])
    asked = {"model": MODEL, "prompt": ["first", "second"], "n": 2, "max_tokens": 40, "echo": True, "stop": "STOP"}
    texts = ["firstone ", "firstone ", "secondthree", "secondthree"]
    body = sdk.completions.create(**asked)
    assert [choice.text for choice in body.choices] == texts
    found = ["", "", "", ""]
    for piece in sdk.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
        for choice in piece.choices:
            found[choice.index] += choice.text
    assert found == texts
    assert piece.usage == body.usage
    assert body.usage.prompt_tokens == sum(len(record["prompt_ids"]) for record in server.traced()[-4::2])


def test_completions_logprobs_have_their_offsets(client):
    _, sdk = client([{"when": "", "say": "alpha beta, gamma"}])
    choice = sdk.completions.create(model=MODEL, prompt="x", logprobs=2, max_tokens=30).choices[0]
    found = choice.logprobs
    assert "".join(found.tokens) == choice.text
    assert [
        choice.text[offset : offset + len(token)] for offset, token in zip(found.text_offset, found.tokens, strict=True)
    ] == found.tokens
    assert all(len(top) == 2 for top in found.top_logprobs)


REFUSED = [
    ({"suffix": "end"}, "suffix"),
    ({"best_of": 3}, "best_of"),
    ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"echo": True, "logprobs": 1}, "logprobs"),
    ({"prompt": [1, 2], "echo": True}, "echo"),
    ({"prompt": []}, "prompt"),
    ({"prompt": ["a", 1]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": [10**9]}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"n": 0}, "n"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_completions_refuse_by_name(client, fields, param):
    server, _ = client()
    answer = server.http.post("/v1/completions", json={"model": MODEL, "prompt": "x", **fields})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text


def test_a_failing_choice_fails_the_request(client, monkeypatch):
    from antiphon_turns.errors import StreamInterrupted

    server, _ = client()
    speak = server.pipeline.engine.generate

    async def generate(job):
        async for chunk in speak(job):
            if job.request_id.endswith("-1") and chunk.ids:
                raise StreamInterrupted("one is gone")
            yield chunk

    monkeypatch.setattr(server.pipeline.engine, "generate", generate)
    asked = {"model": MODEL, "messages": HI, "n": 2}
    answer = server.http.post("/v1/chat/completions", json=asked)
    assert (answer.status_code, answer.json()["error"]["message"]) == (502, "one is gone")
    assert server.running_turns() == server.pipeline.engine.running == 0


ALL = ["worker", "timing", "cached_tokens", "session"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("how", ["body", "header", "none"])
def test_serving_is_told_to_those_who_ask(client, path, how):
    server, _ = client(mock_token_delay_ms=5)
    body = {"model": MODEL, "max_tokens": 60, "prompt": "x", "messages": HI}
    if how == "body":
        body["nvext"] = {"extra_fields": [*ALL, "unheard_of"]}
    headers = {"x-session-id": "S1", **({"x-antiphon-extra-fields": ", ".join(ALL)} if how == "header" else {})}
    whole = server.http.post(path, json=body, headers=headers).json()
    lines = server.http.post(path, json={**body, "stream": True}, headers=headers).text.splitlines()
    data = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    told = [event["nvext"] for event in data if "nvext" in event]
    if how == "none":
        assert not told and "nvext" not in whole
        return
    assert (told[0]["worker"], told[0]["session"]) == ("mock-0", "S1")
    assert told[1]["cached_tokens"] == 0 and told[1]["timing"]["ttft_ms"] >= 5 and told[1]["timing"]["queue_ms"] == 0
    assert set(whole["nvext"]) == set(ALL) and set(whole["nvext"]["timing"]) == {"queue_ms", "ttft_ms"}
    # As soon as it is known, not at the end; and on nothing but events that clients know.
    assert max(place for place, event in enumerate(data) if "nvext" in event) < len(data) - 3
    assert all(event["type"] == "ping" if path == "/v1/messages" else event["choices"] for event in data if "nvext" in event)
