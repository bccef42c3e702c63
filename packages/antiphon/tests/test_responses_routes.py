"""Responses over HTTP: turns, chains, what is kept and for whom, background runs, compaction, counting."""

import asyncio
import json
import threading
import time

import pytest

from antiphon.background import BackgroundRuns, Run
from antiphon_turns import ids

MODEL = "antiphon-mock"
TOOL = {
    "type": "function",
    "name": "exec_command",
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
}
CALL = "<tool_call>\n<function=exec_command>\n<parameter=cmd>\n{}\n</parameter>\n</function>\n</tool_call>"
TURN = f"R1\n</think>\n\nT1\n{CALL.format('echo A')}\n<think>\nR2\n</think>\n\nT2\n{CALL.format('echo B')}"
SLOW = {"mock_token_delay_ms": 20.0, "mock_chunk_tokens": 1}


def ask(server, text="go", *, headers=None, **fields):
    body = {"model": MODEL, "tools": [TOOL], "input": text, **fields}
    return server.http.post("/v1/responses", json=body, headers=headers)


def events(answer):
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


def get(server, response_id, path="", **options):
    return server.http.get(f"/v1/responses/{response_id}{path}", **options)


def shown(output):
    pairs = []
    for item in output:
        if item["type"] == "message":
            pairs.append(("message", item["content"][0]["text"].strip()))
        elif item["type"] == "reasoning":
            pairs.append(("reasoning", (item.get("summary") or item["content"])[0]["text"]))
        else:
            pairs.append((item["type"], json.loads(item["arguments"])["cmd"]))
    return pairs


ORDER = [
    ("reasoning", "R1"),
    ("message", "T1"),
    ("function_call", "echo A"),
    ("reasoning", "R2"),
    ("message", "T2"),
    ("function_call", "echo B"),
]


def test_a_turn_keeps_its_order_streamed_and_whole(serve_mock):
    server = serve_mock([{"when": "", "say": TURN}])
    whole = ask(server).json()
    assert shown(whole["output"]) == ORDER
    streamed = events(ask(server, stream=True))
    assert [event["sequence_number"] for event in streamed] == list(range(len(streamed)))
    last = streamed[-1]
    assert last["type"] == "response.completed"
    assert shown(last["response"]["output"]) == ORDER
    assert shown([event["item"] for event in streamed if event["type"] == "response.output_item.done"]) == ORDER
    assert last["response"]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]


def test_reasoning_is_sealed(serve_mock):
    server = serve_mock([{"when": "", "say": TURN}])
    output = ask(server).json()["output"]
    carriers = [item["encrypted_content"] for item in output if item["type"] == "reasoning"]
    assert [ids.split_carrier(value)[1] for value in carriers] == [0, 3]
    assert all(ids.seal_of(value) for value in carriers)
    sealer = server.pipeline.sealer("default")
    decode = server.pipeline.model.tokenizer.decode
    texts = [decode(list(sealer.open(value).ids)) for value in carriers]
    assert TURN.startswith("".join(texts))
    assert texts[1].rstrip("\n").endswith("R2\n</think>")


def test_a_chain_is_the_conversation(serve_mock):
    """previous_response_id gives the prompt that sending everything gives."""
    server = serve_mock([{"when": "", "say": TURN}])
    first = ask(server, "one").json()
    outputs = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}
        for item in first["output"]
        if item["type"] == "function_call"
    ]
    second = ask(server, outputs, previous_response_id=first["id"]).json()
    assert second["previous_response_id"] == first["id"]
    user = {"role": "user", "content": "one"}
    ask(server, [user, *first["output"], *outputs], store=False)
    ask(server, "three", previous_response_id=second["id"])
    ask(server, [user, *first["output"], *outputs, *second["output"], {"role": "user", "content": "three"}], store=False)
    prompts = [turn["prompt_ids"] for turn in server.traced()]
    assert prompts[1] == prompts[2]
    assert prompts[3] == prompts[4]


@pytest.mark.parametrize("stream", [False, True])
def test_a_stored_response_is_there_when_its_end_was_read(serve_mock, stream):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}])
    answer = ask(server, stream=stream)
    body = events(answer)[-1]["response"] if stream else answer.json()
    assert get(server, body["id"]).json() == body
    assert body["store"] is True


def test_what_is_not_stored_is_not_there(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}])
    body = ask(server, store=False).json()
    assert body["store"] is False
    assert get(server, body["id"]).status_code == 404
    answer = ask(server, previous_response_id=body["id"])
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "previous_response_not_found", "previous_response_id")


def test_a_server_without_a_store_says_so(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}], enable_store=False)
    body = ask(server, store=True).json()
    assert body["store"] is False
    assert get(server, body["id"]).status_code == 404
    assert ask(server, previous_response_id=body["id"]).json()["error"]["code"] == "previous_response_not_found"
    answer = ask(server, background=True)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "background")


def test_a_tenant_s_responses_are_its_own(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}])
    mine, other = {"authorization": "Bearer mine"}, {"authorization": "Bearer other"}
    body = ask(server, headers=mine).json()
    path = f"/v1/responses/{body['id']}"
    for headers in (other, {}):
        assert server.http.get(path, headers=headers).status_code == 404
        assert server.http.delete(path, headers=headers).status_code == 404
        assert server.http.get(path + "/input_items", headers=headers).status_code == 404
        assert server.http.post(path + "/cancel", headers=headers).status_code == 404
        assert ask(server, previous_response_id=body["id"], headers=headers).status_code == 400
    assert server.http.get(path, headers=mine).json() == body
    carrier = next(item["encrypted_content"] for item in body["output"] if item["type"] == "reasoning")
    assert server.pipeline.sealer("default").open(carrier).reason == "damaged"


def test_delete(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}])
    body = ask(server).json()
    path = f"/v1/responses/{body['id']}"
    assert server.http.delete(path).json() == {"id": body["id"], "object": "response", "deleted": True}
    assert server.http.delete(path).status_code == 404
    assert get(server, body["id"]).status_code == 404
    assert ask(server, previous_response_id=body["id"]).status_code == 400


def test_input_items_by_page(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}])
    items = [{"type": "message", "id": f"msg_{number}", "role": "user", "content": str(number)} for number in range(5)]
    response_id = ask(server, items).json()["id"]

    def page(**query):
        found = get(server, response_id, "/input_items", params=query).json()
        return [item["id"][-1] for item in found["data"]], found["has_more"]

    assert page(order="asc") == (["0", "1", "2", "3", "4"], False)
    assert page() == (["4", "3", "2", "1", "0"], False)
    assert page(limit=2) == (["4", "3"], True)
    assert page(limit=2, after="msg_3") == (["2", "1"], True)
    assert page(limit=2, after="msg_1") == (["0"], False)
    assert page(order="asc", before="msg_2") == (["0", "1"], False)
    assert page(order="asc", before="msg_4", limit=2) == (["2", "3"], True)
    whole = get(server, response_id, "/input_items", params={"order": "asc"}).json()
    assert (whole["object"], whole["first_id"], whole["last_id"]) == ("list", "msg_0", "msg_4")
    assert whole["data"][0]["content"] == "0"
    for query in ({"limit": 0}, {"limit": 101}, {"limit": "x"}, {"order": "up"}, {"after": "msg_9"}, {"before": "msg_9"}):
        answer = get(server, response_id, "/input_items", params=query)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, next(iter(query)))


def test_an_item_can_be_named_instead_of_sent(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}])
    first = ask(server, "one").json()
    named = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    user, later = {"role": "user", "content": "one"}, {"role": "user", "content": "two"}
    ask(server, [user, *named, later])
    ask(server, [user, *first["output"], later])
    prompts = [turn["prompt_ids"] for turn in server.traced()]
    assert prompts[1] == prompts[2]
    assert ask(server, [{"type": "item_reference", "id": "msg_none"}]).status_code == 404
    assert ask(server, [user, *named], headers={"authorization": "Bearer other"}).status_code == 404


def wait_for(server, response_id, *wanted):
    for _ in range(500):
        body = get(server, response_id).json()
        if body["status"] in wanted:
            return body
        time.sleep(0.02)
    raise AssertionError(body)


def test_background_goes_on_by_itself(serve_mock):
    server = serve_mock([{"when": "", "say": TURN}], **SLOW)
    body = ask(server, background=True).json()
    assert (body["status"], body["background"], body["output"]) == ("queued", True, [])
    assert get(server, body["id"]).json()["status"] in ("queued", "in_progress")
    assert ask(server, previous_response_id=body["id"]).status_code == 400
    done = wait_for(server, body["id"], "completed")
    assert shown(done["output"]) == ORDER
    assert server.http.post(f"/v1/responses/{body['id']}/cancel").json() == done
    assert ask(server, "on", previous_response_id=body["id"], store=False).status_code == 200


def test_background_survives_its_client_and_can_be_followed_from_anywhere(serve_mock):
    server = serve_mock([{"when": "", "say": TURN}], **SLOW)
    body = {"model": MODEL, "tools": [TOOL], "input": "go", "background": True, "stream": True}
    seen = []
    with server.http.stream("POST", "/v1/responses", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: ")))
            if len(seen) == 5:
                break
    response_id = seen[0]["response"]["id"]
    rest = events(get(server, response_id, params={"stream": "true", "starting_after": 4}))
    assert [event["sequence_number"] for event in seen + rest] == list(range(len(seen) + len(rest)))
    assert rest[-1]["type"] == "response.completed"
    assert shown(rest[-1]["response"]["output"]) == ORDER
    again = events(get(server, response_id, params={"stream": "true"}))
    assert again == seen + rest
    assert get(server, response_id, params={"stream": "true", "starting_after": "x"}).status_code == 400


def test_cancel_ends_a_background_response(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\n" + "word " * 400}], **SLOW)
    response_id = ask(server, background=True).json()["id"]
    followed = []
    follower = threading.Thread(target=lambda: followed.append(get(server, response_id, params={"stream": "true"}).text))
    follower.start()
    wait_for(server, response_id, "in_progress")
    cancelled = server.http.post(f"/v1/responses/{response_id}/cancel").json()
    assert cancelled["status"] == "cancelled"
    assert server.http.post(f"/v1/responses/{response_id}/cancel").json() == cancelled
    assert get(server, response_id).json() == cancelled
    assert server.running_turns() == 0
    follower.join(10)
    assert "response.created" in followed[0]
    assert "response.completed" not in followed[0]


@pytest.mark.parametrize("wanted", [True, False])
def test_a_run_that_is_stopped_before_its_first_step_has_an_end(wanted):
    class Projector:
        final = None

        def snapshot(self, status=None):
            return f"{status}".encode()

        def fail_events(self, error):
            self.final = error.code
            return [b"failed"]

        def ended(self, body):
            self.final = body

    async def main():
        projector, runs = Projector(), BackgroundRuns()
        run = Run("resp_1", "t", projector)
        runs.start(run, asyncio.sleep(60))
        await (runs.cancel(run) if wanted else runs.drain(0))
        assert [batch async for batch in run.follow()] == ([] if wanted else [[b"failed"]])
        return projector.final

    assert asyncio.run(main()) == (b"cancelled" if wanted else "worker_unavailable")


def test_only_background_responses_can_be_cancelled_or_followed(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}])
    body = ask(server).json()
    assert server.http.post(f"/v1/responses/{body['id']}/cancel").status_code == 400
    answer = get(server, body["id"], params={"stream": "true"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream")
    assert get(server, "resp_none", params={"stream": "true"}).status_code == 404


def test_a_stop_ends_background_runs_as_failed(serve_mock, tmp_path):
    path = tmp_path / "store.sqlite3"
    server = serve_mock([{"when": "", "say": "R\n</think>\n\n" + "word " * 4000}], store=path, **SLOW)
    response_id = ask(server, background=True).json()["id"]
    wait_for(server, response_id, "in_progress")
    server.stop()
    later = serve_mock([], store=path)
    body = wait_for(later, response_id, "failed")
    assert body["error"]["code"] == "server_error"


def test_deleting_a_running_response_stops_it(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\n" + "word " * 400}], **SLOW)
    response_id = ask(server, background=True).json()["id"]
    wait_for(server, response_id, "in_progress")
    assert server.http.delete(f"/v1/responses/{response_id}").json()["deleted"] is True
    assert get(server, response_id).status_code == 404
    assert server.running_turns() == 0


COMPACTS = [
    {"when": "secret-summary", "say": "R\n</think>\n\nI remember."},
    {"when": "answer with the notes alone", "say": "R\n</think>\n\nsecret-summary"},
    {"when": "", "say": "R\n</think>\n\nT"},
]


@pytest.mark.parametrize("way", ["trigger", "route"])
def test_compaction_and_what_follows_it(serve_mock, way):
    server = serve_mock(COMPACTS)
    items = [{"role": "user", "content": "a long story"}]
    if way == "trigger":
        body = ask(server, [*items, {"type": "compaction_trigger"}], store=False).json()
    else:
        body = server.http.post("/v1/responses/compact", json={"model": MODEL, "input": items}).json()
        assert body["object"] == "response.compaction"
    compaction = [item for item in body["output"] if item["type"] == "compaction"]
    assert len(compaction) == 1
    assert "secret-summary" not in json.dumps(body)
    following = [*body["output"], {"role": "user", "content": "go on"}]
    assert ask(server, following).json()["output"][-1]["content"][0]["text"].strip() == "I remember."
    other = ask(server, following, headers={"authorization": "Bearer other"}).json()
    assert other["output"][-1]["content"][0]["text"].strip() == "T"


def test_truncation_auto_leaves_the_oldest_out_instead_of_refusing(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}], context_length=600)
    items = [{"role": role, "content": f"{number} " + "word " * 40} for number in range(12) for role in ("user", "assistant")]
    items.append({"role": "user", "content": "the last"})
    refused = ask(server, items, tools=[])
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")
    answer = ask(server, items, tools=[], truncation="auto")
    assert answer.json()["status"] == "completed"
    assert "oldest_messages" in answer.headers["x-antiphon-ignored"]
    prompt = server.pipeline.model.tokenizer.decode(server.traced()[-1]["prompt_ids"])
    assert "the last" in prompt
    assert "11 word" in prompt
    assert "0 word word" not in prompt.replace("10 word", "")
    too_long = ask(server, "word " * 700, tools=[], truncation="auto")
    assert too_long.json()["error"]["code"] == "context_length_exceeded"


def test_a_chain_goes_on_from_its_compaction(serve_mock):
    server = serve_mock(COMPACTS)
    items = [{"role": "developer", "content": "be-brief"}, {"role": "user", "content": "a long story"}]
    first = ask(server, [*items, {"type": "compaction_trigger"}]).json()
    second = ask(server, "go on", previous_response_id=first["id"]).json()
    assert second["output"][-1]["content"][0]["text"].strip() == "I remember."
    prompt = server.pipeline.model.tokenizer.decode(server.traced()[-1]["prompt_ids"])
    assert "be-brief" in prompt
    assert "a long story" not in prompt


def test_input_tokens_are_those_of_the_turn(serve_mock):
    server = serve_mock([{"when": "", "say": "R\n</think>\n\nT"}])
    body = {"model": MODEL, "tools": [TOOL], "input": "how many"}
    counted = server.http.post("/v1/responses/input_tokens", json=body).json()
    assert counted["object"] == "response.input_tokens"
    assert counted["input_tokens"] == ask(server, "how many").json()["usage"]["input_tokens"]


def test_errors_are_in_the_surface_s_envelope(serve_mock):
    server = serve_mock([])
    for answer, status in (
        (ask(server, model="other"), 404),
        (ask(server, temperature="hot"), 400),
        (server.http.post("/v1/responses", content=b"{"), 400),
        (server.http.post("/v1/responses/compact", json={}), 400),
        (server.http.post("/v1/responses/input_tokens", json={"model": MODEL}), 400),
        (get(server, "resp_none"), 404),
        (server.http.delete("/v1/responses/resp_none"), 404),
        (server.http.post("/v1/responses/resp_none/cancel"), 404),
        (server.http.put("/v1/responses/resp_none"), 405),
    ):
        assert answer.status_code == status
        assert set(answer.json()["error"]) >= {"message", "type", "code", "param"}
        assert answer.headers["x-request-id"].startswith("req_")


CUT = [{"when": "", "say": "R\n</think>\n\nT\n" + CALL.format("echo one")[:60], "finish": "length"}]


@pytest.mark.parametrize("cut", [CUT, [{"when": "", "say": "R\n</think>\n\nT\n<tool_call>\n<func", "finish": "length"}]])
def test_codex_goes_on_after_a_cut_call_twice_in_a_row(serve_mock, cut):
    """The third time the turn ends as cut: a model that cannot finish its call would be asked for ever."""
    server = serve_mock(cut)
    codex = {"user-agent": "codex_exec/0.171.0", "originator": "codex_exec", "session-id": "s"}
    ends = []
    for _ in range(4):
        last = events(ask(server, stream=True, store=False, headers=codex))[-1]
        ends.append((last["type"], last["response"].get("end_turn")))
        assert "function_call" not in [item["type"] for item in last["response"]["output"]]
    goes_on, stops = ("response.completed", False), ("response.incomplete", None)
    assert ends == [goes_on, goes_on, stops, stops]


def test_other_clients_are_told_that_a_cut_turn_is_cut(serve_mock):
    server = serve_mock(CUT)
    body = ask(server).json()
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert "end_turn" not in body
