"""Field reports about the Messages surface, each with the right value. Numbers: `cases/field_reports.jsonl`."""

import json
import re

import pytest
from report_harness import ask, both, case, check_grammar, events, prompt, script

from antiphon_turns.errors import WorkerRefusal


def serve(serve_mock, report, **settings):
    output = report.get("model_output", "fine")
    if "</think>" not in output:
        output = "</think>" + output
    return serve_mock(script(output), model_name="m", **settings)


@both
def test_55_reasoning_is_replayed_in_order(serve_mock, source):
    report = case(55, source)
    server = serve(serve_mock, report)
    assert ask(server, report["request"]).status_code == 200
    words = report["right"]["rendered_order"]
    text = prompt(server)
    # The tool list names the tool too; what counts is the turn.
    turn = text[text.index(words[0]) :]
    assert [turn.index(word) for word in words] == sorted(turn.index(word) for word in words)
    assert all(text.count(word) == 1 for word in words[:-1])


@both
def test_58_thinking_is_signed_before_its_block_closes(serve_mock, source):
    report = case(58, source)
    (block, deltas), *_ = check_grammar(events(ask(serve(serve_mock, report), report["request"])))
    assert block["type"] == "thinking"
    assert "".join(delta.get("thinking", "") for delta in deltas) == report["right"]["thinking_block"]["thinking"]
    assert deltas[-1]["type"] == "signature_delta" and deltas[-1]["signature"]


@both
@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_62_a_call_that_ends_with_the_stream_is_whole(serve_mock, source, chunk):
    report = case(62, source)
    kind, name, arguments = report["right"]["blocks"][0]
    value = next(iter(arguments.values()))
    call = f"<tool_call>\n<function={name}>\n<parameter=path>\n{value}\n</parameter>\n</function>\n</tool_call>"
    server = serve(serve_mock, {"model_output": call}, mock_chunk_tokens=chunk)
    stream = events(ask(server, report["request"]))
    (block, deltas), *rest = check_grammar(stream)
    assert (block["type"], block["name"], json.loads("".join(delta["partial_json"] for delta in deltas))) == (kind, name, arguments)
    assert not rest and stream[-2]["delta"]["stop_reason"] == report["right"]["stop_reason"]


@both
def test_63_deltas_belong_to_the_open_block(serve_mock, source):
    report = case(63, source)
    request = {**report["request"], "thinking": {"type": "adaptive"}}
    blocks = check_grammar(events(ask(serve(serve_mock, report), request)))
    assert [block["type"] for block, _ in blocks] == report["right"]["block_types"]


@both
def test_66_what_the_engine_refuses_is_a_status(serve_mock, source, monkeypatch):
    report = case(66, source)
    server = serve(serve_mock, report)

    def refuse(prompt_ids):
        raise WorkerRefusal("the engine does not take this prompt")

    monkeypatch.setattr(server.pipeline.engine, "_speak", refuse)
    answer = ask(server, report["request"])
    assert answer.status_code == 400
    assert (answer.json()["type"], answer.json()["error"]["type"]) == ("error", "invalid_request_error")
    assert "does not take" in answer.json()["error"]["message"]


@both
def test_68_the_first_event_has_the_real_count(serve_mock, source):
    report = case(68, source)
    server = serve(serve_mock, report)
    first = events(ask(server, report["request"]))[0]["message"]["usage"]
    assert first["input_tokens"] + first.get("cache_read_input_tokens", 0) == len(server.traced()[-1]["prompt_ids"]) > 0


@pytest.mark.parametrize("cached", [None, 0, 12])
def test_69_70_cached_tokens_are_told_on_every_surface(serve_mock, monkeypatch, cached):
    """A disjoint partition on Messages, part of the total on Chat; nothing where nothing is known."""
    server = serve(serve_mock, {})
    speak = server.pipeline.engine.generate

    async def generate(job):
        async for chunk in speak(job):
            yield type(chunk)(chunk.ids, chunk.finish, cached if chunk.cached_tokens is not None else None)

    monkeypatch.setattr(server.pipeline.engine, "generate", generate)
    request = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "a prompt of some length " * 4}]}
    for streamed in (False, True):
        answer = ask(server, {**request, "stream": streamed})
        total = len(server.traced()[-1]["prompt_ids"])
        told = events(answer)[0]["message"]["usage"] if streamed else answer.json()["usage"]
        shown = {name: count for name, count in told.items() if "input" in name}
        known = {"input_tokens": total - (cached or 0), "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0}
        assert shown == ({"input_tokens": total} if cached is None else known)
    chat = ask(server, request, "/v1/chat/completions").json()["usage"]
    assert chat["prompt_tokens"] == len(server.traced()[-1]["prompt_ids"])
    assert chat.get("prompt_tokens_details") == (None if cached is None else {"cached_tokens": cached})


@both
def test_71_counting_is_exact(serve_mock, source):
    report = case(71, source)
    server = serve(serve_mock, report)
    counted = ask(server, report["request"], "/v1/messages/count_tokens").json()["input_tokens"]
    usage = ask(server, {**report["request"], "max_tokens": 20}).json()["usage"]
    assert counted == usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]


@both
def test_76_an_image_in_a_result_is_a_note(serve_mock, source):
    report = case(76, source)
    server = serve(serve_mock, report)
    answer = ask(server, report["request"])
    assert answer.status_code == 200
    text = prompt(server)
    part = report["request"]["messages"][2]["content"][0]["content"][1]
    assert part["source"]["data"] not in text
    assert text.count("[image (image/png) not shown") == 1
    assert text.index(report["before"]) < text.index("[image (")
    assert answer.headers["x-antiphon-ignored"] == "messages.2.content.0.content.1.image"


@both
def test_77_results_answer_their_call(serve_mock, source):
    report = case(77, source)
    server = serve(serve_mock, report)
    assert ask(server, report["request"]).status_code == 200
    text = prompt(server)
    assert text.index(report["right"]["tool_message"]["text"]) < text.index(report["right"]["then_user"])
    assert "{'type'" not in text


@both
def test_78_errors_are_visible_and_one_call_is_one_call(serve_mock, source):
    report = case(78, source)
    name = report["request"]["tools"][0]["name"]
    call = f"<tool_call>\n<function={name}>\n</function>\n</tool_call>"
    server = serve(serve_mock, {"model_output": f"{call}\n{call}"})
    content = ask(server, report["request"]).json()["content"]
    assert f"Error: {report['result']}" in prompt(server)
    assert [block["type"] for block in content] == ["tool_use"]


@both
def test_80_tools_of_the_vendors_servers_are_not_offered(serve_mock, source):
    report = case(80, source)
    server = serve(serve_mock, report)
    answer = ask(server, report["request"])
    assert answer.status_code == 200
    assert "web_search" not in prompt(server)
    assert all(name in prompt(server) for name in report["right"]["tools_rendered"])
    assert answer.headers["x-antiphon-ignored"] == "tools.0.web_search_20250305"


@both
@pytest.mark.parametrize("streamed", [False, True])
def test_128_stops_count_in_visible_text_only(serve_mock, source, streamed):
    report = case(128, source)
    request = {**report["request"], "thinking": {"type": "adaptive"}, "stream": streamed}
    answer = ask(serve(serve_mock, report), request)
    right = report["right"]
    if streamed:
        stream = events(answer)
        (_, thought), (_, said) = check_grammar(stream)
        found = "".join(d.get("thinking", "") for d in thought), "".join(d["text"] for d in said), stream[-2]["delta"]
    else:
        whole = answer.json()
        found = whole["content"][0]["thinking"], whole["content"][1]["text"], whole
    assert found[:2] == (right["reasoning"], right["text"])
    assert (found[2]["stop_reason"], found[2]["stop_sequence"]) == ("stop_sequence", right["stop_sequence"])


@both
@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_129_stops_match_across_tokens_and_are_named(serve_mock, source, chunk):
    report = case(129, source)
    stream = events(ask(serve(serve_mock, report, mock_chunk_tokens=chunk), report["request"]))
    ((_, said),) = check_grammar(stream)
    assert "".join(delta["text"] for delta in said) == report["right"]["text"]
    ended = stream[-2]["delta"]
    assert (ended["stop_reason"], ended["stop_sequence"]) == ("stop_sequence", report["right"]["stop_sequence"])


@both
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/completions", "/v1/messages/count_tokens", "/v1/models"])
def test_149_either_header_brings_the_key(serve_mock, source, path):
    report = case(149, source)
    server = serve(serve_mock, report, api_key="K")
    request = {"model": "m", "prompt": "x", "max_tokens": 5} if path == "/v1/completions" else report["request"]

    def status(**headers):
        if path == "/v1/models":
            return server.http.get(path, headers=headers)
        return server.http.post(path, json=request, headers=headers)

    assert status(**{"x-api-key": "K"}).status_code == 200
    assert status(authorization="Bearer K").status_code == 200
    assert status(authorization="Bearer dummy", **{"x-api-key": "K"}).status_code == 200
    for headers in ({}, {"x-api-key": "L"}, {"authorization": "Basic K"}):
        refused = status(**headers)
        assert refused.status_code == 401
        kind = refused.json()["error"]
        assert kind["type"] == "authentication_error"
        assert (refused.json().get("type") == "error") == path.startswith("/v1/messages")
    assert server.http.get("/health").status_code == 200


@both
def test_153_overflow_is_told_in_the_words_clients_act_on(serve_mock, source):
    report = case(153, source)
    server = serve(serve_mock, report, context_length=2048)
    long = {**report["request"], "messages": [{"role": "user", "content": "word " * 3000}]}
    count = ask(server, {**long}, "/v1/messages/count_tokens").json()["input_tokens"]
    answer = ask(server, long)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert answer.json()["error"]["message"] == f"prompt is too long: {count} tokens > 2048 maximum"
    chat = ask(server, {**long, "reasoning_effort": "none"}, "/v1/chat/completions")
    assert (chat.status_code, chat.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert re.search(rf"2048 tokens.*{count} tokens", chat.json()["error"]["message"])


@both
def test_154_the_answer_is_cut_to_the_room_left(serve_mock, source):
    report = case(154, source)
    server = serve(serve_mock, report, context_length=4096)
    answer = ask(server, report["request"])
    assert answer.status_code == 200
    assert int(answer.headers["x-antiphon-max-tokens"]) == 4096 - len(server.traced()[-1]["prompt_ids"])
