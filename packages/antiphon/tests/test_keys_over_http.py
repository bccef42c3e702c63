"""Several API keys on a running server: who gets in, what each may do, what another's key sees, and where a key never shows up."""

import json
import logging
from pathlib import Path

import httpx
import pytest

from antiphon.access.key import hash_of

ALICE, BOB, ROOT = "ak-alice-0123456789", "ak-bob-9876543210", "ak-root-5555"
KEYS = {
    "alice": {"hash": hash_of(ALICE)},
    "bob": {"hash": hash_of(BOB), "models": ["gpt-*"], "max_turns": 2},
    "root": {"hash": hash_of(ROOT), "operator": True},
}
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
SAY = [{"when": "", "say": "Hm.\n</think>\n\nHi."}]


def body(path: str, model: str = "gpt-5.5", text: str = "hi", **more: object) -> dict[str, object]:
    """A small request of a surface."""
    if path == RESPONSES:
        return {"model": model, "input": text, **more}
    return {"model": model, "max_tokens": 20, "messages": [{"role": "user", "content": text}], **more}


def ask(server, path: str, key: str, **more: object) -> httpx.Response:
    answer: httpx.Response = server.http.post(path, json=body(path, **more), headers={"x-api-key": key})
    return answer


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_every_key_gets_in_by_either_header_and_beside_a_dummy(serve_mock, path):
    server = serve_mock(SAY, keys=KEYS)
    for headers in (
        {"x-api-key": ALICE},
        {"authorization": f"Bearer {BOB}"},
        {"x-api-key": "dummy", "authorization": f"bearer {ALICE}"},
        {"x-api-key": BOB, "authorization": "Bearer dummy"},
    ):
        assert server.http.post(path, json=body(path), headers=headers).status_code == 200
    for headers in ({}, {"x-api-key": "wrong"}, {"authorization": f"Basic {ALICE}"}, {"x-api-key": KEYS["alice"]["hash"]}):
        assert server.http.post(path, json=body(path), headers=headers).status_code == 401


def test_the_single_key_still_works_beside_tables(serve_mock):
    server = serve_mock(SAY, keys=KEYS, api_key="plain")
    assert [ask(server, CHAT, key).status_code for key in ("plain", ALICE, "other")] == [200, 200, 401]


def test_a_key_may_ask_for_its_models_and_sees_no_others(serve_mock):
    server = serve_mock(SAY, keys=KEYS, aliases=["gpt-mine", "house"])
    assert ask(server, CHAT, BOB).status_code == 200
    for path in (CHAT, MESSAGES, RESPONSES, MESSAGES + "/count_tokens"):
        refused = ask(server, path, BOB, model="antiphon-mock")
        assert refused.status_code == 404
        assert "may not use the model" in refused.json()["error"]["message"]
    listed = server.http.get("/v1/models", headers={"x-api-key": BOB}).json()["data"]
    assert [model["id"] for model in listed] == ["gpt-mine"]
    assert server.http.get("/v1/models/house", headers={"x-api-key": BOB}).status_code == 404
    assert server.http.get("/v1/models/house", headers={"x-api-key": ALICE}).status_code == 200


@pytest.mark.parametrize(("path", "kind"), [(CHAT, "rate_limit_error"), (MESSAGES, "rate_limit_error"), (RESPONSES, "rate_limit_error")])
def test_a_key_has_its_rate_and_another_does_not_pay_for_it(serve_mock, path, kind):
    slow = {"hash": hash_of(ALICE), "requests_per_minute": 1}
    server = serve_mock(SAY, keys={**KEYS, "alice": slow})
    assert ask(server, path, ALICE).status_code == 200
    refused = ask(server, path, ALICE)
    assert refused.status_code == 429
    assert refused.json()["error"]["type"] == kind
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert ask(server, path, BOB).status_code == 200


def test_prompt_tokens_count(serve_mock):
    server = serve_mock(SAY, keys={"alice": {"hash": hash_of(ALICE), "prompt_tokens_per_minute": 10}})
    assert ask(server, MESSAGES, ALICE, text="word " * 200).status_code == 200
    refused = ask(server, MESSAGES, ALICE)
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
    assert int(refused.headers["retry-after"]) > 600


def test_a_background_response_is_a_turn_of_its_key_until_its_end(serve_mock):
    server = serve_mock(keys={"bob": {"hash": hash_of(BOB), "max_turns": 1}}, mock_token_delay_ms=20)
    made = ask(server, RESPONSES, BOB, text="@@REPEAT:2000@@", background=True).json()["id"]
    for more in ({}, {"background": True}):
        assert ask(server, RESPONSES, BOB, **more).status_code == 429
    server.http.post(f"{RESPONSES}/{made}/cancel", headers={"x-api-key": BOB})
    assert ask(server, RESPONSES, BOB).status_code == 200


def test_turns_of_a_key_at_once(serve_mock):
    server = serve_mock(keys=KEYS, mock_token_delay_ms=20)
    long = body(CHAT, text="@@REPEAT:2000@@", stream=True) | {"max_tokens": 5000}
    with (
        httpx.stream("POST", server.url + CHAT, json=long, headers={"x-api-key": BOB}) as one,
        httpx.stream("POST", server.url + CHAT, json=long, headers={"x-api-key": BOB}) as two,
    ):
        lines = one.iter_lines(), two.iter_lines()  # a dropped iterator closes its stream
        assert all(map(next, lines))
        refused = ask(server, CHAT, BOB)
        assert refused.status_code == 429, refused.text
        assert refused.headers["retry-after"] == "2"
        assert ask(server, CHAT, ALICE, text="@@REPEAT:1@@").status_code == 200
    assert ask(server, CHAT, BOB, n=3).status_code == 400


def test_a_websocket_has_the_same_keys_and_limits(serve_mock):
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    server = serve_mock(SAY, keys={**KEYS, "alice": {"hash": hash_of(ALICE), "requests_per_minute": 1}})
    url = server.url.replace("http", "ws") + RESPONSES
    with pytest.raises(InvalidStatus) as refused:
        connect(url, additional_headers={"authorization": "Bearer wrong"})
    assert refused.value.response.status_code == 401
    frame = json.dumps({"type": "response.create", **body(RESPONSES)})
    with connect(url, additional_headers={"authorization": f"Bearer {ALICE}"}) as socket:
        socket.send(frame)
        while (event := json.loads(socket.recv(20)))["type"] != "response.completed":
            assert event["type"].startswith("response.")
        socket.send(frame)
        event = json.loads(socket.recv(20))
        assert (event["status"], event["code"]) == (429, "rate_limit_exceeded")
        assert int(event["headers"]["retry-after"]) >= 1
    with connect(url, additional_headers={"x-api-key": BOB}) as socket:
        socket.send(json.dumps({"type": "response.create", **body(RESPONSES, model="antiphon-mock")}))
        assert json.loads(socket.recv(20))["status"] == 404


def test_what_tells_of_all_needs_an_operator(serve_mock):
    server = serve_mock(SAY, keys=KEYS)
    refused = server.http.get("/metrics", headers={"x-api-key": ALICE})
    assert refused.status_code == 403
    assert "operator = true" in refused.json()["error"]["message"]
    assert server.http.get("/metrics", headers={"x-api-key": ROOT}).status_code == 200
    assert server.http.get("/metrics").status_code == 401


def test_another_key_neither_reads_nor_continues_nor_cancels(serve_mock):
    server = serve_mock(SAY, keys=KEYS)
    made = ask(server, RESPONSES, ALICE, background=True).json()["id"]
    # A dummy beside the key names no tenant of its own.
    beside = {"x-api-key": ALICE, "authorization": "Bearer dummy"}
    assert server.http.get(f"{RESPONSES}/{made}", headers=beside).status_code == 200
    bob = {"x-api-key": BOB}
    assert server.http.get(f"{RESPONSES}/{made}", headers=bob).status_code == 404
    assert server.http.get(f"{RESPONSES}/{made}/input_items", headers=bob).status_code == 404
    assert server.http.post(f"{RESPONSES}/{made}/cancel", headers=bob).status_code == 404
    assert server.http.delete(f"{RESPONSES}/{made}", headers=bob).status_code == 404
    continued = ask(server, RESPONSES, BOB, previous_response_id=made)
    assert (continued.status_code, continued.json()["error"]["code"]) == (400, "previous_response_not_found")
    assert ask(server, RESPONSES, ALICE, previous_response_id=made).status_code == 200
    told = server.http.get("/antiphon/explain", headers=bob).json()["requests"]
    assert told == []


def test_usage_tells_nothing_of_what_another_key_has_sent(serve_mock):
    server = serve_mock(SAY, keys=KEYS)
    text = "a long prompt that both of them send " * 40

    def cached(key: str) -> int:
        return int(ask(server, CHAT, key, text=text).json()["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert cached(ALICE) == 0
    assert cached(ALICE) > 100
    assert cached(BOB) == 0
    assert cached(BOB) > 100


def test_no_key_shows_up_anywhere(serve_mock, caplog, tmp_path: Path):
    caplog.set_level(logging.DEBUG)
    written = {"record": tmp_path / "record", "record_content": "full", "record_tokens": True, "access_log": tmp_path / "access.jsonl"}
    kept = {"state_dir": tmp_path / "state", "store": tmp_path / "store.sqlite3"}
    server = serve_mock(SAY, keys=KEYS, api_key="plain-secret-77", **written, **kept)
    seen = []
    for key in (ALICE, BOB, ROOT, "plain-secret-77", "wrong-secret-88"):
        for headers in ({"x-api-key": key}, {"authorization": f"Bearer {key}"}):
            for path in (CHAT, MESSAGES, RESPONSES, "/v1/nothing"):
                seen.append(server.http.post(path, json=body(path), headers=headers))
                seen.append(server.http.post(path, content=b"{", headers=headers))
            seen += [
                server.http.get(path, headers=headers)
                for path in ("/metrics", "/antiphon/explain", "/health", "/v1/models", "/openapi.json")
            ]
    told = "\n".join([caplog.text, *(answer.text + str(answer.headers) for answer in seen)])
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "req_" in caplog.text
    assert (tmp_path / "access.jsonl").stat().st_size > 1000
    assert len(files) > 1000
    for key in (ALICE, BOB, ROOT, "plain-secret-77", "wrong-secret-88"):
        assert key not in told
        assert key.encode() not in files
