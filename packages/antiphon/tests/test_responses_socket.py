"""Responses over WebSocket: frames, chains on a connection, warm-ups, waiting, errors, the way out."""

import contextlib
import json
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from antiphon.responses_socket import ConnectionMemory

MODEL = "antiphon-mock"
SAY = [
    {"when": "and three", "say": "R3\n</think>\n\nT3"},
    {"when": "and two", "say": "R2\n</think>\n\nT2"},
    {"when": "one", "say": "R1\n</think>\n\nT1"},
    {"when": "long", "say": "R\n</think>\n\n" + "word " * 300},
    {"when": "", "say": "R0\n</think>\n\nT0"},
]


@contextlib.contextmanager
def opened(server, **headers):
    url = server.url.replace("http", "ws", 1) + "/v1/responses"
    with connect(url, additional_headers=headers, proxy=None) as socket:
        yield socket


def create(socket, text, **fields):
    items = [{"type": "message", "role": "user", "content": text}] if isinstance(text, str) else text
    socket.send(json.dumps({"type": "response.create", "model": MODEL, "store": False, "input": items, **fields}))


def read(socket, *, until=("response.completed", "response.failed", "error")):
    events = []
    while not events or events[-1]["type"] not in until:
        events.append(json.loads(socket.recv(20)))
    return events


def said(events):
    return events[-1]["response"]["output"][-1]["content"][0]["text"].strip()


def test_events_are_those_of_a_stream(serve_mock):
    server = serve_mock(SAY)
    with opened(server) as socket:
        create(socket, "one")
        events = read(socket)
    body = {"model": MODEL, "store": False, "input": "one", "stream": True}
    answer = server.http.post("/v1/responses", json=body)
    streamed = [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events] == [event["type"] for event in streamed]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert said(events) == said(streamed) == "T1"


def test_a_wrong_key_is_refused_as_on_every_other_route(serve_mock):
    server = serve_mock(SAY, api_key="K")
    with pytest.raises(InvalidStatus) as refused, opened(server, Authorization="Bearer L"):
        pass
    answer = refused.value.response
    assert (answer.status_code, json.loads(answer.body)["error"]["code"]) == (401, "invalid_api_key")
    with opened(server, Authorization="Bearer K") as socket:
        create(socket, "one")
        assert said(read(socket)) == "T1"


def test_a_chain_needs_no_store(serve_mock):
    server = serve_mock(SAY, enable_store=False)
    with opened(server) as socket:
        create(socket, "one")
        first = read(socket)[-1]["response"]
        create(socket, "and two", previous_response_id=first["id"])
        second = read(socket)
        assert said(second) == "T2"
        create(socket, "and three", previous_response_id=second[-1]["response"]["id"])
        assert said(read(socket)) == "T3"
    with opened(server) as socket:
        create(socket, "and two", previous_response_id=first["id"])
        error = read(socket)[-1]
        assert (error["type"], error["status"], error["error"]["code"]) == ("error", 400, "previous_response_not_found")
    items = [{"role": "user", "content": "one"}, *first["output"], {"role": "user", "content": "and two"}]
    server.http.post("/v1/responses", json={"model": MODEL, "input": items, "store": False})
    prompts = [turn["prompt_ids"] for turn in server.traced()]
    assert prompts[1] == prompts[3]


def test_a_stored_response_is_found_from_any_connection(serve_mock):
    server = serve_mock(SAY)
    with opened(server) as socket:
        create(socket, "one", store=True)
        first = read(socket)[-1]["response"]
    assert server.http.get(f"/v1/responses/{first['id']}").json() == first
    with opened(server) as socket:
        create(socket, "and two", previous_response_id=first["id"])
        assert said(read(socket)) == "T2"
    with opened(server, Authorization="Bearer other") as socket:
        create(socket, "and two", previous_response_id=first["id"])
        assert read(socket)[-1]["error"]["code"] == "previous_response_not_found"


def test_a_warm_up_has_an_id_to_go_on_from(serve_mock):
    server = serve_mock(SAY)
    developer = [{"type": "message", "role": "developer", "content": "Be brief, number one."}]
    with opened(server) as socket:
        create(socket, developer, generate=False)
        warm = read(socket)
        assert [event["type"] for event in warm] == ["response.created", "response.in_progress", "response.completed"]
        assert warm[-1]["response"]["output"] == []
        assert server.running_turns() == 0
        create(socket, "go", previous_response_id=warm[-1]["response"]["id"])
        assert said(read(socket)) == "T1"  # the developer's words are before the user's
        create(socket, [], generate=False)
        assert read(socket)[-1]["type"] == "response.completed"


def test_one_runs_the_next_waits(serve_mock):
    server = serve_mock(SAY, mock_token_delay_ms=5.0)
    with opened(server) as socket:
        for text in ("one", "and two", "and three"):
            create(socket, text)
        ends = [read(socket) for _ in range(3)]
    assert [said(events) for events in ends] == ["T1", "T2", "T3"]
    assert all(len({event["response"]["id"] for event in events if "response" in event}) == 1 for events in ends)


def test_too_many_waiting_are_refused_not_kept(serve_mock, monkeypatch):
    monkeypatch.setattr("antiphon.responses_socket.MAX_WAITING", 2)
    server = serve_mock(SAY, mock_token_delay_ms=5.0)
    with opened(server) as socket:
        create(socket, "long")
        assert json.loads(socket.recv(20))["type"] == "response.created"
        for _ in range(4):
            create(socket, "one")
        refused = [event for event in read(socket, until=("error",)) if event["type"] == "error"]
        assert (refused[0]["status"], refused[0]["headers"]["retry-after"]) == (429, "1")


def test_what_waits_on_a_connection_is_bounded_in_bytes(serve_mock):
    server = serve_mock(SAY, mock_token_delay_ms=5.0, max_body_bytes=8192)
    with opened(server) as socket:
        create(socket, "long")
        assert json.loads(socket.recv(20))["type"] == "response.created"
        create(socket, "x" * 6000)
        create(socket, "x" * 6000)
        refused = [event for event in read(socket, until=("error",)) if event["type"] == "error"]
        assert (refused[0]["status"], refused[0]["code"]) == (429, "rate_limit_exceeded")


@pytest.mark.parametrize(
    ("frame", "status", "word"),
    [
        ("not json", 400, "JSON"),
        ("[]", 400, "frame"),
        ('{"type": "response.steer"}', 400, "response.steer"),
        ('{"model": "antiphon-mock", "input": "x"}', 400, "response.create"),
        ('{"type": "response.create", "model": "other", "input": "x"}', 404, "other"),
        ('{"type": "response.create", "model": "antiphon-mock", "input": "x", "temperature": 9}', 400, "temperature"),
        (b'\xff\xfe{"type"', 400, "JSON"),
    ],
)
def test_a_bad_frame_is_answered_and_the_connection_goes_on(serve_mock, frame, status, word):
    server = serve_mock(SAY)
    with opened(server) as socket:
        socket.send(frame)
        error = read(socket)[-1]
        assert (error["type"], error["status"]) == ("error", status)
        assert word in error["error"]["message"]
        create(socket, "one")
        assert said(read(socket)) == "T1"


def test_a_fault_of_ours_is_answered_and_the_connection_goes_on(serve_mock, monkeypatch):
    server = serve_mock(SAY)
    with opened(server) as socket:
        with monkeypatch.context() as patched:
            patched.setattr(server.pipeline, "prepare", lambda request: 1 / 0)
            create(socket, "one")
            assert read(socket)[-1]["status"] == 500
        create(socket, "one")
        assert said(read(socket)) == "T1"


def test_an_engine_that_fails_midway_ends_the_response_as_failed(serve_mock, monkeypatch):
    from antiphon_turns.errors import StreamInterrupted

    server = serve_mock(SAY)
    speak = server.pipeline.engine.generate

    async def broken(job):
        async for chunk in speak(job):
            yield chunk
            raise StreamInterrupted("the engine is gone")

    monkeypatch.setattr(server.pipeline.engine, "generate", broken)
    with opened(server) as socket:
        create(socket, "one", store=True)
        last = read(socket)[-1]
        assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "server_error")
    assert server.http.get(f"/v1/responses/{last['response']['id']}").json()["status"] == "failed"


def test_leaving_stops_what_runs(serve_mock):
    server = serve_mock(SAY, mock_token_delay_ms=20.0)
    with opened(server) as socket:
        create(socket, "long")
        read(socket, until=("response.output_text.delta",))
        assert server.running_turns() == 1
    for _ in range(200):
        if server.running_turns() == 0:
            break
        time.sleep(0.02)
    assert server.running_turns() == 0


def test_silence_is_filled(serve_mock):
    server = serve_mock(SAY, mock_token_delay_ms=500.0, keepalive_seconds=0.1)
    with opened(server) as socket:
        create(socket, "one")
        events = read(socket, until=("keepalive",))
        numbers = [event["sequence_number"] for event in events]
        assert numbers == sorted(set(numbers))


def test_a_frame_beyond_the_limit_closes_the_connection(serve_mock):
    server = serve_mock(SAY, max_body_bytes=4096)
    with opened(server) as socket:
        create(socket, "x" * 8192)
        error = read(socket)[-1]  # the server of the tests takes bigger frames than its application
        assert error["status"] == 413


def test_a_stop_closes_the_connection(serve_mock):
    server = serve_mock(SAY)
    with opened(server) as socket:
        create(socket, "one")
        read(socket)
        server.stop()
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(20)
        assert closed.value.rcvd.code == 1012


def test_a_stop_lets_a_running_turn_end_and_starts_no_other(serve_mock):
    server = serve_mock(SAY, mock_token_delay_ms=20.0)
    with opened(server) as socket:
        create(socket, "one")
        create(socket, "and two")
        assert json.loads(socket.recv(20))["type"] == "response.created"
        server.stop()
        assert said(read(socket)) == "T1"
        error = read(socket)[-1]
        assert (error["type"], error["status"]) == ("error", 503)
        assert int(error["headers"]["retry-after"]) >= 1
        with pytest.raises(ConnectionClosed):
            socket.recv(20)


def test_switched_off_is_said_at_once(serve_mock):
    server = serve_mock(SAY, enable_websocket=False)
    with pytest.raises(InvalidStatus) as refused, opened(server):
        pass
    assert refused.value.response.status_code == 426
    assert "POST" in json.loads(refused.value.response.body)["error"]["message"]
    for path in ("/v1/responses", "/v1/responses?x=1"):
        answer = server.http.get(path)
        assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")


def test_a_plain_get_is_told_to_upgrade_or_to_post(serve_mock):
    server = serve_mock(SAY)
    answer = server.http.get("/v1/responses")
    assert answer.status_code == 426
    assert answer.json()["error"]["code"] == "upgrade_required"


def test_a_web_page_from_elsewhere_is_refused(serve_mock):
    server = serve_mock(SAY)
    with pytest.raises(InvalidStatus) as refused, opened(server, Origin="https://elsewhere.example"):
        pass
    assert refused.value.response.status_code == 403
    with opened(server, Origin=server.url) as socket:
        create(socket, "one")
        assert said(read(socket)) == "T1"


def test_no_other_path_is_a_websocket(serve_mock):
    server = serve_mock(SAY)
    with pytest.raises(InvalidStatus), connect(server.url.replace("http", "ws", 1) + "/v1/messages", proxy=None):
        pass


def test_a_connection_remembers_the_last_responses_only():
    from msgspec import Raw

    memory = ConnectionMemory(size=10)
    for number in range(10):
        memory.add(str(number), (Raw(b"12345"),))
    assert [number for number in range(10) if memory.find(str(number))] == list(range(2, 10))
    memory.add("big", (Raw(b"12345"), Raw(b"123456")))
    assert memory.find("big") is None
