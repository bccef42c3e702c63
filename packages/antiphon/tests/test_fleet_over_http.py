"""A frontend and workers over loopback: turns, who served them, what clients are told when nobody can."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from packages.antiphon.tests.worker_stage import Stage, worker

from antiphon.access.key import hash_of
from antiphon.config import Settings
from antiphon.serve import run_frontend, run_server
from antiphon_turns.errors import ConfigError

SECONDS = 30.0
BODIES: dict[str, dict[str, Any]] = {
    "/v1/messages": {"max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/completions": {"prompt": "hello", "max_tokens": 50},
    "/v1/responses": {"input": "hello"},
}


class WorkerThread:
    """A worker in a loop and thread of its own, until `stop`."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._main()))
        self.stage: Stage | None = None
        self._thread.start()
        assert self._up.wait(SECONDS)

    @property
    def url(self) -> str:
        assert self.stage is not None
        return self.stage.url

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(SECONDS)
            self._loop.close()

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        async with worker(**self._settings) as stage:
            self.stage = stage
            self._up.set()
            await self._stop.wait()


@contextlib.contextmanager
def workers(count: int, **settings: Any) -> Iterator[list[WorkerThread]]:
    with contextlib.ExitStack() as stack:
        started = [WorkerThread(**settings) for _ in range(count)]
        for one in started:
            stack.callback(one.stop)
        yield started


def until(server: Any, status: str) -> dict[str, Any]:
    """What /health says once it says so."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found: dict[str, Any] = server.http.get("/health").json()
        if found["status"] == status:
            return found
    raise AssertionError(f"/health never said {status}")


def ask(server: Any, path: str, **fields: Any) -> Any:
    return server.http.post(path, json={"model": "antiphon-mock", **BODIES[path], **fields})


@pytest.fixture(scope="module")
def started(run_server: Any) -> Iterator[Any]:
    """A frontend with two workers."""
    with workers(2) as two:
        urls = [f"{name}={one.url}" for name, one in zip("ab", two, strict=True)]
        with run_server(Settings(engine="mock", http_port=0, worker_urls=urls)) as server:
            until(server, "ready")
            yield server


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_turns_on_every_surface(started: Any, path: str, stream: bool) -> None:  # noqa: FBT001 - a parameter of the table
    answer = ask(started, path, stream=stream)
    assert answer.status_code == 200 and "mock" in answer.text


def test_health_and_metrics_tell_of_the_workers(started: Any) -> None:
    ask(started, "/v1/messages")
    health = started.http.get("/health").json()
    assert [(one["name"], one["state"], one["kind"], one["jobs"]) for one in health["workers"]] == [
        ("a", "ready", "mock", 0),
        ("b", "ready", "mock", 0),
    ]
    assert health["queued_turns"] == 0 and set(health["kv_events"]) == {"a", "b"}
    metrics = started.http.get("/metrics").text
    assert 'antiphon_kv_event_source_missing{target="a",worker="a"} 0.0' in metrics
    for line in ('antiphon_worker_state{state="ready",worker="a"} 1.0', 'antiphon_worker_jobs{rank="0",worker="b"} 0.0'):
        assert line in metrics
    assert 'antiphon_routing_decisions_total{client="other",model="antiphon-mock",reason=' in metrics
    assert "antiphon_router_queue_seconds_count" in metrics


def test_where_the_workers_are_is_for_operators(run_server: Any) -> None:
    keys = {"root": {"hash": hash_of("r"), "operator": True}, "user": {"hash": hash_of("u")}}
    with workers(1) as one, run_server(Settings(engine="mock", http_port=0, worker_urls=[one[0].url], keys=keys)) as server:
        for headers, told in (({}, False), ({"x-api-key": "u"}, False), ({"x-api-key": "r"}, True)):
            body = server.http.get("/health", headers=headers).json()
            assert ("workers" in body, "status" in body) == (told, True)


@pytest.mark.parametrize(("path", "full"), [("/v1/messages", 529), ("/v1/chat/completions", 503), ("/v1/responses", 503)])
def test_a_full_queue_sends_clients_away_with_a_time(run_server: Any, path: str, full: int) -> None:
    with workers(1, mock_fault="hang-after=0") as one:
        settings = Settings(
            engine="mock",
            http_port=0,
            worker_urls=[one[0].url],
            router_queue_threshold=0.0001,
            router_queue_limit=0,
            worker_token_seconds=1,
        )
        with run_server(settings) as server:
            until(server, "ready")
            with server.http.stream("POST", path, json={"model": "antiphon-mock", **BODIES[path], "stream": True}) as running:
                assert running.status_code == 200
                # Its prompt counts until its first token, which never comes.
                answer = ask(server, path)
            assert answer.status_code == full and float(answer.headers["retry-after"]) >= 1
            assert "come back" in answer.text


def test_without_workers_503_on_every_surface_and_recovery(run_server: Any) -> None:
    with workers(1) as (only,), run_server(Settings(engine="mock", http_port=0, worker_urls=[only.url])) as server:
        until(server, "ready")
        only.stop()
        until(server, "no worker")
        for path in BODIES:
            for stream in (False, True):
                answer = ask(server, path, stream=stream)
                assert answer.status_code == 503 and float(answer.headers["retry-after"]) >= 1
        port = int(only.url.rpartition(":")[2])
        back = WorkerThread(http_port=port)
        try:
            until(server, "ready")
            assert ask(server, "/v1/messages").status_code == 200
        finally:
            back.stop()


def test_a_frontend_needs_workers() -> None:
    with pytest.raises(ConfigError, match="a frontend needs workers"):
        run_frontend(Settings(engine="mock", http_port=0))
    with pytest.raises(ConfigError, match="--processes needs workers"):
        run_server(Settings(engine="mock", http_port=0, processes=2))


def test_a_worker_with_a_shorter_context_is_refused(run_server: Any, caplog: pytest.LogCaptureFixture) -> None:
    with workers(1, context_length=1000) as (short,):
        settings = Settings(engine="mock", http_port=0, worker_urls=[short.url], context_length=1000)
        with run_server(settings) as server:
            assert ask(server, "/v1/messages").status_code == 200
        from antiphon.serve import build  # the fixture's own

        engine = build(Settings(engine="mock", worker_urls=[short.url]))[1]
        with pytest.raises(ConfigError, match="--context-length 1000"):
            asyncio.run(engine.start())


def served_by(answer: Any) -> str:
    assert answer.status_code == 200, answer.text
    name: str = answer.json()["nvext"]["worker"]
    return name


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_request_may_name_its_worker_and_is_told_who_served(started: Any, name: str) -> None:
    headers = {"x-worker-instance-id": name}
    body = {"model": "antiphon-mock", **BODIES["/v1/chat/completions"], "nvext": {"extra_fields": ["worker"]}}
    answers = [started.http.post("/v1/chat/completions", json=body, headers=headers) for _ in range(3)]
    assert {served_by(answer) for answer in answers} == {name}
    wrong = started.http.post("/v1/chat/completions", json=body, headers={"x-worker-instance-id": "nobody"})
    assert wrong.status_code == 400 and "no worker is called" in wrong.text


def test_a_session_stays_with_its_worker_and_events_tell_of_its_cache(started: Any) -> None:
    headers = {"x-claude-code-session-id": "s-1"}
    messages: list[dict[str, str]] = []
    workers_seen, cached = set(), []
    for turn in range(6):
        messages += [{"role": "user", "content": f"turn {turn}: " + "many words " * 60}]
        body = {"model": "antiphon-mock", "messages": messages, "nvext": {"extra_fields": ["worker", "cached_tokens"]}}
        answer = started.http.post("/v1/chat/completions", json=body, headers=headers)
        workers_seen.add(served_by(answer))
        cached.append(answer.json()["nvext"]["cached_tokens"])
        messages += [{"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]}]
    assert len(workers_seen) == 1 and all(cached[1:]) and cached == sorted(cached)
    deadline = time.monotonic() + SECONDS
    while started.http.get("/health").json()["kv_events"][workers_seen.copy().pop()] != "fresh":
        assert time.monotonic() < deadline
    assert "antiphon_kv_blocks{" in started.http.get("/metrics").text


def test_the_engine_of_the_process_may_be_one_worker_among_others(run_server: Any) -> None:
    with workers(1) as (other,):
        settings = Settings(engine="mock", http_port=0, worker_urls=[f"other={other.url}"], local_worker=True)
        with run_server(settings) as server:
            health = until(server, "ready")
            assert [(one["name"], one["state"]) for one in health["workers"]] == [("local", "ready"), ("other", "ready")]
            body = {"model": "antiphon-mock", **BODIES["/v1/chat/completions"], "nvext": {"extra_fields": ["worker"]}}
            asked = [{**body, "messages": [{"role": "user", "content": f"question {number}"}]} for number in range(8)]
            seen = {served_by(server.http.post("/v1/chat/completions", json=one)) for one in asked}
            assert seen == {"local", "other"}
    with run_server(Settings(engine="mock", http_port=0, local_worker=True)) as server:
        assert [one["name"] for one in until(server, "ready")["workers"]] == ["local"]
        assert ask(server, "/v1/responses").status_code == 200
