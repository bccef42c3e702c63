"""Bodies of every known client with one thing wrong, at every depth: the answer is good, or a refusal in the surface's envelope.

A sample of fixed seed is sent by default; `make mutate` sends every one.
"""

import json
import os
import random
from pathlib import Path

import pytest
from answer_manners import complaint, frames_complaint
from asgi_caller import Answered, in_process
from client_bodies import BODIES, CODEX
from mutations import mutants

from antiphon.config import Settings
from antiphon.store_sqlite import MEMORY

ALL = os.environ.get("ANTIPHON_MUTATE") == "all"
SAMPLE = 60
SHOWN = 20
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@pytest.fixture(scope="module")
def server():
    with in_process(Settings(engine="mock", http_port=0, context_length=4096, store=Path(MEMORY), max_body_bytes=1 << 20)) as running:
        yield running


def chosen(client, body):
    """The mutants that are sent."""
    found = list(mutants(body))
    return found if ALL else random.Random(client).sample(found, SAMPLE)


def check(wrong, sent, caplog):
    assert not wrong, f"{len(wrong)} of {sent}:\n" + "\n".join(f"{name} -> {found}" for name, found in wrong[:SHOWN])
    faults = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert not faults, faults[:SHOWN]


@pytest.mark.parametrize("client", BODIES)
def test_every_body_is_good_as_it_stands(server, client):
    path, body = BODIES[client]
    answer = server.call("POST", path, body=json.dumps(body).encode())
    assert answer.status == 200, answer.body
    assert complaint(path, answer) is None


@pytest.mark.timeout(1800 if ALL else 120)
@pytest.mark.parametrize("client", BODIES)
def test_what_is_wrong_is_refused_in_the_surfaces_words(server, client, caplog):
    path, body = BODIES[client]
    sent = chosen(client, body)
    wrong = [(mutant.name, found) for mutant in sent if (found := complaint(path, server.call("POST", path, body=mutant.body)))]
    check(wrong, len(sent), caplog)


FRAME = {"type": "response.create", **CODEX, "generate": True}


@pytest.mark.timeout(1800 if ALL else 120)
def test_the_same_as_frames_of_a_websocket(server, caplog):
    [(good, _)] = server.ask("/v1/responses", [json.dumps(FRAME).encode()], last=ENDS)
    assert good[-1]["type"] == "response.completed"
    sent = chosen("frame", FRAME)
    answers = server.ask("/v1/responses", [mutant.body for mutant in sent], last=ENDS)
    wrong = [(mutant.name, found) for mutant, answer in zip(sent, answers, strict=True) if (found := frames_complaint(*answer))]
    check(wrong, len(sent), caplog)


GOOD_ERROR = {"error": {"message": "m", "type": "t", "param": None, "code": "c"}}


@pytest.mark.parametrize(
    ("path", "status", "kind", "body", "why"),
    [
        ("/v1/chat/completions", 500, "application/json", GOOD_ERROR, "status 500"),
        ("/v1/chat/completions", 422, "application/json", GOOD_ERROR, "status 422"),
        ("/v1/chat/completions", 400, "text/plain", GOOD_ERROR, "content type"),
        ("/v1/chat/completions", 400, "application/json", {"detail": "m"}, "no envelope"),
        ("/v1/messages", 400, "application/json", GOOD_ERROR, "another envelope"),
        ("/v1/messages", 200, "text/event-stream", b'data: {"type":"message_start"}\n\n', "without its end"),
        ("/v1/responses", 200, "text/event-stream", b'data: {"type":"response.failed"}\n\n', "failed in the stream"),
        ("/v1/responses", 200, "application/json", {"object": "chat.completion"}, "object is"),
        ("/v1/chat/completions", 400, "application/json", {"error": {**GOOD_ERROR["error"], "message": "m" * 2000}}, "2000 characters"),
    ],
)
def test_bad_answers_are_noticed(path, status, kind, body, why):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = complaint(path, Answered(status, {"content-type": kind, "x-request-id": "r", "request-id": "r"}, text, 0.1))
    assert found is not None
    assert why in found
