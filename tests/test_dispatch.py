"""What leaves with which token, on every surface: an engine gives one token a step, and all that is sent before the next counts to it."""

import asyncio
import os
from itertools import product
from pathlib import Path

import pytest
from bench.arrivals import PATHS, WIRES, marks, read_frames, request
from bench.dispatch import in_order, part_lags
from bench.prompts import MODEL
from bench.scripted import INTERLEAVED, Clock, long_argument, prompt, script

from antiphon.app import build_app
from antiphon.config import Settings
from antiphon.engines.base import Chunk
from antiphon.pipeline import Pipeline
from antiphon.responses import Responses
from antiphon.serve import build, options_of
from antiphon.state import open_store
from antiphon.store_sqlite import MEMORY
from antiphon.trace import TokenTrace

CALL_AND_CALL = script("calls", [("reasoning", "Why"), ("call", "one two"), ("call", "three four"), ("call", "five"), ("text", "Done now")])
SCRIPTS = {said.name: said for said in (INTERLEAVED, CALL_AND_CALL, long_argument(200))}


class Stepped:
    """An engine that says known ids, one for each `step`. `given` is the number of the latest, `waits` is set while it is asked for one."""

    constrains = False
    reports_logprobs = False

    def __init__(self, ids):
        self._ids = ids
        self._steps = asyncio.Queue()
        self.waits = asyncio.Event()
        self.given = -1

    def ready(self):
        return True

    def step(self):
        self.waits.clear()
        self.given += 1
        self._steps.put_nowait(None)

    async def generate(self, job):
        for place, token_id in enumerate(self._ids):
            self.waits.set()
            await self._steps.get()
            yield Chunk([token_id], "stop" if place + 1 == len(self._ids) else None, 0 if place == 0 else None)


async def first_of(task, event):
    """Waits until the task is over or the event is set."""
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()


async def play(model, said, wire, mode):
    """(number of the token, bytes) of everything sent; -1 before the first token is given."""
    settings = Settings(engine="mock", argument_streaming=mode, store=Path(MEMORY))
    tokens = Clock(said, model.tokenizer).tokens
    engine = Stepped([*tokens, model.tokenizer.id_of(model.family.frame.end_of_turn)])
    pipeline = Pipeline(model, engine, options=options_of(settings), trace=TokenTrace(None), random_bytes=os.urandom)
    responses = Responses(pipeline, store=open_store(settings))
    app = build_app(pipeline, settings, created=0, responses=responses)
    sent = []
    body = [{"type": "http.request", "body": request(wire, MODEL, prompt(said, 0)), "more_body": False}]

    async def receive():
        return body.pop() if body else await asyncio.Future()

    async def send(message):
        sent.append((engine.given, message.get("body", b"")))

    scope = {"type": "http", "method": "POST", "path": PATHS[wire], "raw_path": PATHS[wire].encode(), "headers": [], "query_string": b""}
    task = asyncio.ensure_future(app(scope, receive, send))
    await first_of(task, engine.waits)
    for _ in range(len(tokens) + 1):
        engine.step()
        await first_of(task, engine.waits)
    await task
    await responses.close()
    return sent


@pytest.fixture(scope="module")
def model():
    return build(Settings(engine="mock"))[0]


def lags_of(model, said, wire, mode):
    """By (number of the part, what): how many tokens after its own it left. And what the stream told."""
    told = marks(wire, read_frames(asyncio.run(play(model, said, wire, mode))))
    clock = Clock(said, model.tokenizer)
    calls = [part for part in said.parts if part.kind == "call"]
    lags = {}
    for number, part in enumerate(said.parts):
        for what, lag in part_lags(part, calls.index(part) if part in calls else 0, told, clock.token_at):
            lags[number, what] = None if lag is None else round(lag * 1e6)
    return lags, told


@pytest.mark.parametrize(("wire", "name"), [*product(WIRES, SCRIPTS)])
def test_a_whole_call_leaves_with_its_closing_token_and_nothing_of_it_before(model, wire, name):
    said = SCRIPTS[name]
    lags, told = lags_of(model, said, wire, "whole")
    assert {key: lag for key, lag in lags.items() if key[1] == "whole call"} == {
        (number, "whole call"): 0 for number, part in enumerate(said.parts) if part.kind == "call"
    }
    closings = {Clock(said, model.tokenizer).token_at(part.closing) for part in said.parts if part.kind == "call"}
    assert {mark.at for mark in told if mark.kind == "call"} == closings


@pytest.mark.parametrize(("wire", "name"), [*product(WIRES, SCRIPTS)])
def test_in_incremental_mode_the_first_argument_byte_leaves_with_its_token(model, wire, name):
    said = SCRIPTS[name]
    lags, _ = lags_of(model, said, wire, "incremental")
    first = [lag for (_, what), lag in lags.items() if what == "first byte"]
    assert len(first) == sum(part.kind == "call" for part in said.parts)
    assert all(lag is not None and lag <= 0 for lag in first)
    assert all(lag == 0 for (_, what), lag in lags.items() if what == "whole call")


@pytest.mark.parametrize(("wire", "name", "mode"), [*product(WIRES, SCRIPTS, ("whole", "incremental"))])
def test_blocks_come_in_order_and_every_word_with_its_token(model, wire, name, mode):
    said = SCRIPTS[name]
    lags, told = lags_of(model, said, wire, mode)
    assert in_order(said, told, closes=wire != "chat")
    assert [lag for (_, what), lag in lags.items() if what == "last byte"] == [0] * sum(part.kind != "call" for part in said.parts)
    if wire != "chat":
        reasoning = [number for number, part in enumerate(said.parts) if part.kind == "reasoning"]
        assert [lags[number, "closed"] for number in reasoning] == [0] * len(reasoning)


def test_a_block_in_the_wrong_place_or_left_open_is_noticed(model):
    _, told = lags_of(model, CALL_AND_CALL, "messages", "whole")
    assert not in_order(INTERLEAVED, told, closes=True)
    assert not in_order(CALL_AND_CALL, [mark for mark in told if mark.what != "close"], closes=True)
    assert not in_order(CALL_AND_CALL, [*told, told[1]], closes=True)
