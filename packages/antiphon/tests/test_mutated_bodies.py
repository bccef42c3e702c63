"""Bodies of every known client with one thing wrong, at every depth: the answer is good, or a refusal in the surface's envelope.

A sample of fixed seed is sent by default; `make mutate` sends every one.
"""

import json
import os
import random
from pathlib import Path

import pytest
from answer_manners import complaint
from asgi_caller import in_process
from client_bodies import BODIES
from mutations import mutants

from antiphon.config import Settings
from antiphon.store_sqlite import MEMORY

ALL = os.environ.get("ANTIPHON_MUTATE") == "all"
SAMPLE = 100
SHOWN = 20


@pytest.fixture(scope="module")
def server():
    with in_process(Settings(engine="mock", http_port=0, context_length=4096, store=Path(MEMORY), max_body_bytes=1 << 20)) as running:
        yield running


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
    sent = list(mutants(body))
    if not ALL:
        sent = random.Random(client).sample(sent, SAMPLE)
    wrong = [(mutant.name, found) for mutant in sent if (found := complaint(path, server.call("POST", path, body=mutant.body)))]
    assert not wrong, f"{len(wrong)} of {len(sent)}:\n" + "\n".join(f"{name} -> {found}" for name, found in wrong[:SHOWN])
    faults = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert not faults, faults[:SHOWN]
