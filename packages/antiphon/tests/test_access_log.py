"""The access log: one line a request, of every kind, and nothing in it that a client said."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from antiphon.config import Settings
from antiphon.observe.log_file import LogFile
from antiphon.observe.scribe import Scribe
from antiphon_turns.errors import ConfigError

TOOLS = [{"name": "run", "input_schema": {"type": "object", "properties": {"cmd": {"type": "string"}}}}]
CALL = "<tool_call>\n<function=run>\n<parameter=cmd>\nls\n</parameter>\n</function>\n</tool_call>"
RULES = [{"when": "act", "say": f"Hm.\n</think>\n\n{CALL}"}, {"when": "", "say": "Hm.\n</think>\n\nPRIVATE-ANSWER here."}]
KEY = "sk-private-key"


def body(text: str = "PRIVATE-QUESTION", **more: Any) -> dict[str, Any]:
    return {"model": "antiphon-mock", "max_tokens": 50, "messages": [{"role": "user", "content": text}], **more}


def lines_of(path: Path, count: int) -> list[dict[str, Any]]:
    """The lines of the log once there are so many; they are written by another thread."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        lines = path.read_bytes().splitlines() if path.exists() else []
        if len(lines) >= count:
            return [json.loads(line) for line in lines]
        os.sched_yield()
    raise AssertionError(f"{len(lines)} lines, not {count}")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.jsonl"


def test_a_turn_has_its_line(serve_mock: Any, log: Path) -> None:
    server = serve_mock(RULES, access_log=log)
    headers = {"user-agent": "claude-cli/2.1 (external)", "x-dynamo-session-id": "session-1", "x-dynamo-parent-session-id": "session-0"}
    answer = server.http.post("/v1/messages", json=body("act", tools=TOOLS), headers=headers)
    (line,) = lines_of(log, 1)
    usage = answer.json()["usage"]
    assert line["request_id"] == answer.headers["request-id"]
    assert (line["method"], line["path"], line["status"], line["surface"]) == ("POST", "/v1/messages", 200, "messages")
    assert (line["client"], line["model"], line["session"], line["parent"]) == ("claude-code", "antiphon-mock", "session-1", "session-0")
    assert (line["stop_reason"], line["calls"], line["stream"], line["migrations"]) == ("tool_use", 1, False, 0)
    assert (line["prompt_tokens"], line["output_tokens"]) == (usage["input_tokens"], usage["output_tokens"])
    assert line["cached_tokens"] == usage["cache_read_input_tokens"] == 0
    assert 0 < line["ttft"] < line["duration"] and line["queue"] is not None
    assert line["time"].endswith("Z") and line["worker"] == "mock-0"


def test_refusals_probes_and_unknown_paths_have_lines(serve_mock: Any, log: Path) -> None:
    server = serve_mock(RULES, access_log=log, api_key=KEY)
    server.http.get("/health")
    server.http.post("/v1/messages", json=body())
    server.http.get("/nothing?key=PRIVATE-QUERY", headers={"x-api-key": KEY})
    server.http.post("/v1/messages", content=b"{", headers={"x-api-key": KEY})
    lines = lines_of(log, 4)
    assert [line["status"] for line in lines] == [200, 401, 404, 400]
    assert all(line["request_id"] for line in lines[1:])
    assert [line["key"] is None for line in lines] == [True, True, False, False]
    assert [line["surface"] for line in lines] == [None, "messages", None, "messages"]
    assert lines[3]["stop_reason"] is None


def test_nothing_private_is_written(serve_mock: Any, log: Path) -> None:
    server = serve_mock(RULES, access_log=log, api_key=KEY)
    headers = {"x-api-key": KEY, "authorization": f"Bearer {KEY}", "cookie": "PRIVATE-COOKIE"}
    assert server.http.post("/v1/messages", json=body(stream=True), headers=headers).status_code == 200
    assert server.http.post("/v1/chat/completions?PRIVATE-QUERY", json=body(n=2), headers=headers).status_code == 200
    lines = lines_of(log, 2)
    assert [line["stop_reason"] for line in lines] == ["end_turn", "end_turn"]
    text = log.read_text()
    assert "PRIVATE" not in text and KEY not in text


def test_choices_are_summed(serve_mock: Any, log: Path) -> None:
    server = serve_mock(RULES, access_log=log)
    usage = server.http.post("/v1/chat/completions", json=body(n=3)).json()["usage"]
    (line,) = lines_of(log, 1)
    assert line["output_tokens"] == usage["completion_tokens"]


def test_background_and_socket_requests_have_one_line_each(serve_mock: Any, log: Path) -> None:
    server = serve_mock(RULES, access_log=log)
    ask = {"model": "antiphon-mock", "input": "hello", "background": True}
    begun = server.http.post("/v1/responses", json=ask)
    (line,) = lines_of(log, 1)
    assert (line["request_id"], line["stop_reason"], line["status"]) == (begun.headers["x-request-id"], "end_turn", 200)
    with connect(server.url.replace("http", "ws") + "/v1/responses") as socket:
        socket.send(json.dumps({"type": "response.create", "model": "antiphon-mock", "input": "hello"}))
        while json.loads(socket.recv())["type"] != "response.completed":
            pass
        socket.send(json.dumps({"type": "nothing"}))
        assert json.loads(socket.recv())["type"] == "error"
        lines = lines_of(log, 3)[1:]
    assert [(line["status"], line["stop_reason"], line["surface"]) for line in lines] == [
        (200, "end_turn", "responses"),
        (400, None, "responses"),
    ]


def test_a_client_that_leaves_is_told_apart(serve_mock: Any, log: Path) -> None:
    rules = [{"when": "", "say": "</think>\n\n" + "word " * 400, "token_delay_ms": 50}]
    server = serve_mock(rules, access_log=log)
    with server.http.stream("POST", "/v1/messages", json=body(stream=True, max_tokens=4000)) as answer:
        next(answer.iter_bytes())
    (line,) = lines_of(log, 1)
    assert (line["status"], line["stop_reason"]) == (200, "cancelled")
    assert 'status="200"' in next(row for row in server.http.get("/metrics").text.splitlines() if row.startswith("antiphon_requests_total"))


def test_a_log_that_was_moved_is_begun_anew(serve_mock: Any, log: Path) -> None:
    server = serve_mock(RULES, access_log=log)
    assert 'antiphon_lost_entries_total{what="access log"} 0.0' in server.http.get("/metrics").text
    lines_of(log, 1)
    log.rename(log.with_suffix(".1"))
    server.http.get("/")
    (line,) = lines_of(log, 1)
    assert line["path"] == "/"
    assert len(log.with_suffix(".1").read_bytes().splitlines()) == 1
    assert log.stat().st_mode & 0o007 == 0


def test_a_log_that_cannot_be_written_is_told_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write the access log"):
        LogFile(tmp_path / "no" / "log", what="access log")


def test_a_slow_disk_loses_lines_instead_of_holding_them_all(caplog: pytest.LogCaptureFixture) -> None:
    import threading

    entered, go, written = threading.Event(), threading.Event(), []

    def write(items: list[int]) -> None:
        entered.set()
        go.wait(20)
        written.extend(items)

    scribe: Scribe[int] = Scribe("log", write, pending_bytes=30)
    scribe.take(0, 10)
    entered.wait(20)
    for number in range(1, 6):
        scribe.take(number, 10)
    go.set()
    scribe.close()
    assert (written, scribe.dropped) == ([0, 1, 2], 3)
    assert [record.message for record in caplog.records] == ["the log loses entries: too much is waiting to be written"]


def test_standard_output_can_be_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    file = LogFile(Path("-"), what="access log")
    file.write(b"line\n")
    file.close()
    assert capfd.readouterr().out == "line\n"
    assert Settings(access_log=Path("-")).access_log == Path("-")
