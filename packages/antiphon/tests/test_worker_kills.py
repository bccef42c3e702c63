"""kill -9 of the worker in the middle of stream after stream: the client gets the whole answer, each byte once (`make faults` does it in
200 consecutive streams; here a few)."""

import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from packages.antiphon.tests.worker_nursery import Nursery

from antiphon.config import Settings

KILLS = int(os.environ.get("ANTIPHON_KILLS", "6"))
TOKENS = 120
SECONDS = 20.0
pytestmark = pytest.mark.timeout(60 + 10 * KILLS)


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in listeners]
    for one in listeners:
        one.close()
    return ports


def states(server: Any) -> dict[int, dict[str, Any]]:
    return {int(one["url"].rpartition(":")[2]): one for one in server.http.get("/health").json()["workers"]}


def until_ready(server: Any, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while sum(one["state"] == "ready" for one in states(server).values()) < count:
        assert time.monotonic() < deadline, states(server)


def ask(server: Any, number: int) -> Iterator[str]:
    """The pieces of an answer, as they come."""
    body = {
        "model": "antiphon-mock",
        "max_tokens": TOKENS,
        "stream": True,
        "messages": [{"role": "user", "content": f"question {number}"}],
    }
    with server.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line == "data: [DONE]":
                return
            if line.startswith("data: "):
                event = json.loads(line[6:])
                assert "error" not in event, event
                deltas = [choice["delta"] for choice in event["choices"]]
                yield "".join(delta.get("reasoning_content") or delta.get("content") or "" for delta in deltas)
    raise AssertionError("the stream was cut")


@pytest.fixture(scope="module")
def fleet(run_server: Any) -> Iterator[tuple[Any, Nursery]]:
    ports = free_ports(3)
    with Nursery() as nursery:
        for port in ports:
            nursery.start(port)
        settings = Settings(engine="mock", http_port=0, worker_urls=[f"http://127.0.0.1:{port}" for port in ports], ledger_bytes=0)
        with run_server(settings) as server:
            until_ready(server, 3)
            yield server, nursery


def test_no_byte_is_lost_doubled_or_changed(fleet: tuple[Any, Nursery]) -> None:
    server, nursery = fleet
    pauses = []
    for number in range(KILLS):
        whole = "".join(ask(server, number))
        assert len(whole.split()) == TOKENS
        pieces, killed, before = [], 0, 0.0
        for piece in ask(server, number):
            pieces.append(piece)
            if killed and before:
                pauses.append(time.monotonic() - before)
                before = 0.0
            if len("".join(pieces).split()) > 5 + number % 90 and not killed:
                killed = next(port for port, one in states(server).items() if one["jobs"])
                nursery.kill(killed)
                before = time.monotonic()
        assert killed and "".join(pieces) == whole
        nursery.start(killed)
        until_ready(server, 2)
    metrics = server.http.get("/metrics").text
    moved = re.findall(r'^antiphon_migrations_total\{.*kind="ongoing".*\} (\S+)$', metrics, re.MULTILINE)
    assert [float(count) for count in moved] == [KILLS]
    assert server.running_turns() == 0
    until_ready(server, 3)
    pauses.sort()
    sys.stdout.write(f"{KILLS} kills; to the next token: median {1000 * pauses[KILLS // 2]:.0f} ms, longest {1000 * pauses[-1]:.0f} ms\n")
