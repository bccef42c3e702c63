"""Field reports about a request's life and the routes around it. Numbers: `cases/field_reports.jsonl`."""

import threading
import time

import httpx
import pytest
from report_harness import script

from antiphon_turns.errors import StreamInterrupted

WORDS = {"model": "antiphon-mock", "max_tokens": 90000, "messages": [{"role": "user", "content": "@@REPEAT:4000@@"}]}
PATHS = ["/v1/messages", "/v1/chat/completions"]


def idle(server):
    """Waits until nothing runs; each look is a round trip through the server's own loop."""
    deadline = time.monotonic() + 10
    while server.running_turns() or server.pipeline.engine.running or server.pipeline.admission.taken:
        assert time.monotonic() < deadline


def leave(server, path, body, *, after):
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(server.url + path, json=body, timeout=httpx.Timeout(5, read=after))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("streamed", "n"), [(False, 1), (True, 1), (False, 3), (True, 3)])
def test_119_a_client_that_leaves_frees_the_engine(serve_mock, path, streamed, n):
    """While a body is waited for, and before the first token of a stream."""
    server = serve_mock(mock_token_delay_ms=300)
    several = {"n": n} if n > 1 and "chat" in path else {}
    leave(server, path, {**WORDS, "stream": streamed, **several}, after=0.2)
    idle(server)
    assert {record["finish"] for record in server.traced()} == {"cancelled"}


def test_120_only_ids_of_ours_cancel(serve_mock):
    server = serve_mock(mock_token_delay_ms=4)
    answers = []
    body = {**WORDS, "messages": [{"role": "user", "content": "@@REPEAT:60@@"}]}

    def ask():
        answers.append(httpx.post(server.url + PATHS[1], json=body, headers={"x-request-id": "ab"}, timeout=20).json())

    second = threading.Thread(target=ask)
    second.start()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(server.url + PATHS[1], json=WORDS, headers={"x-request-id": "a"}, timeout=httpx.Timeout(5, read=0.1))
    second.join(20)
    assert answers[0]["choices"][0]["message"]["content"].split() == ["word"] * 60
    idle(server)


def test_122_nothing_stays_in_flight(serve_mock, monkeypatch):
    server = serve_mock(mock_token_delay_ms=400)
    for _ in range(5):
        leave(server, PATHS[0], {**WORDS, "stream": True}, after=0.05)

    def broken(prompt_ids):
        raise StreamInterrupted("broke off")

    monkeypatch.setattr(server.pipeline.engine, "_speak", broken)
    statuses = [
        server.http.post(path, json={**WORDS, "n": n}).status_code for path, n in [*((path, 1) for path in PATHS * 2), (PATHS[1], 3)]
    ]
    assert statuses == [502] * 5
    idle(server)


@pytest.mark.parametrize(
    ("method", "path"),
    [("HEAD", "/"), ("HEAD", "/api/hello"), ("GET", "/api/hello"), ("POST", "/api/event_logging/batch")],
)
def test_155_side_calls_are_answered_cheaply(serve_mock, method, path):
    """Without a key too: Claude Code sends none with its probes, and takes a 401 for a bad connection."""
    server = serve_mock(script("x"), api_key="K")
    answer = server.http.request(method, path, content=b'{"events": []}' if method == "POST" else None)
    assert answer.status_code == 200
    assert server.traced() == []


@pytest.mark.parametrize(("path", "status"), [(PATHS[0], 529), (PATHS[1], 503), ("/v1/completions", 503)])
def test_a_full_server_says_when_to_come_back(serve_mock, path, status):
    server = serve_mock(mock_token_delay_ms=30, max_turns=1)
    body = {**WORDS, "prompt": "x"}
    with httpx.stream("POST", server.url + PATHS[0], json={**WORDS, "stream": True}) as running:
        arriving = running.iter_bytes()  # the connection lasts as long as this name
        next(arriving)
        refused = server.http.post(path, json=body)
        assert refused.status_code == status
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == ("overloaded_error" if status == 529 else "server_error")
    idle(server)
    assert server.http.post(path, json={**body, "max_tokens": 1}).status_code == 200


def test_an_engine_that_just_stops_is_no_end(serve_mock, monkeypatch):
    """A clean early end would be taken for the whole turn; clients run nothing and are content."""
    server = serve_mock(script("</think>one two three"))
    engine = server.pipeline.engine
    speak = engine.generate

    async def generate(job):
        async for chunk in speak(job):
            if chunk.finish is None:
                yield chunk

    monkeypatch.setattr(engine, "generate", generate)
    for path, sign in ((PATHS[0], "event: error"), (PATHS[1], '"error":')):
        text = server.http.post(path, json={**WORDS, "stream": True}).text
        assert text.rstrip().splitlines()[-1].startswith("data: {") and sign in text
        assert "message_stop" not in text and "[DONE]" not in text
    assert server.http.post(PATHS[0], json=WORDS).status_code == 502
