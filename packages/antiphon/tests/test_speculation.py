"""Speculative prefill: what is computed ahead is a beginning of the prompt that comes, on every family and for every client; and it
never costs a client anything."""

import asyncio
import json
import random
from array import array
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest
from bench.prefix import mock_bench
from packages.antiphon.tests.fleet_world import World
from packages.antiphon.tests.replay_clients import CLIENTS, PlainResponses
from packages.antiphon.tests.replay_world import TOOLS, Frontend, family_model, sampled, some_turn

from antiphon.engines.base import Chunk, Job, Placement
from antiphon.engines.mock_script import Rule
from antiphon.pipeline import PipelineOptions
from antiphon.prompts import PromptOptions
from antiphon.router.router import RouterOptions
from antiphon.simulation.clock import VirtualClock
from antiphon.speculation import Finished, Speculation, SpeculationOptions
from antiphon.stabilize import ANTHROPIC_PREAMBLE
from antiphon.surfaces import messages_surface
from antiphon_turns import AgentHints, CallSegment, ReasoningSegment, RoutingWish, Sampling, Segment, TextSegment, TurnRequest
from antiphon_turns.errors import AntiphonError, ContextOverflow, Overloaded, RequestError, WorkerUnavailable

FAMILIES = ("deepseek_v3_2", "deepseek_v4", "deepseek_v41", "gemma4", "glm47", "harmony", "hermes", "kimi_k2", "kimi_k3")
NEWER = ("minimax_m2", "minimax_m3", "mistral", "qwen3_coder")
ALWAYS = PipelineOptions(prompts=PromptOptions(rules=(ANTHROPIC_PREAMBLE,)), speculation=SpeculationOptions(mode="always"))
# What a client says next, with the frame around it and the opening of the turn to come: few tokens in these sessions.
NEWS = 80


@pytest.mark.parametrize("family", [*FAMILIES, *NEWER])
def test_what_is_computed_ahead_begins_the_next_prompt(family: str) -> None:
    model = family_model(family)
    wrong, sent, reached = [], 0, 0
    with Frontend(model, seed=family, options=ALWAYS) as frontend:
        for name, kind in CLIENTS.items():
            dice = random.Random(f"{family}/{name}")
            client = kind(TOOLS, thinking=dice.choice(("on", "on", "default", "off")))
            calls, before = 0, None
            for number in range(5):
                made = some_turn(dice, model.family.name, last=dice.random() < 0.4, reasons=client.thinking != "off")
                if isinstance(client, PlainResponses) and len(made) == 1 and isinstance(made[0], ReasoningSegment):
                    made = (*made, TextSegment("Done."))
                say = partial(sampled, model=model, made=made, dice=dice, number=calls)
                asked = frontend.ask(client.surface, client.body(), say)
                if before is not None:
                    prefix, prompt = list(before), list(asked.prompt)
                    sent += 1
                    reached += len(prompt) - len(prefix) < NEWS
                    if prompt[: len(prefix)] != prefix:
                        same = next(n for n, (a, b) in enumerate(zip(prefix, prompt, strict=False)) if a != b)
                        spell = model.tokenizer.decode
                        wrong.append(f"{name} {number}: {spell(prefix[same - 5 :][:20])!r} is not {spell(prompt[same - 5 :][:20])!r}")
                frontend.settle()
                before = frontend.engine.ahead[-1].prompt_ids if frontend.engine.ahead else None
                frontend.engine.ahead.clear()
                client.take(asked.answer)
                calls += sum(isinstance(segment, CallSegment) for segment in made)
    assert not wrong, "\n".join(wrong)
    assert sent > 20 and reached > 0.9 * sent


class Workers:
    """An engine that holds its jobs until it is told to go on, or fails them."""

    constrains = reports_logprobs = False

    def __init__(self, error: AntiphonError | None = None) -> None:
        self.jobs: list[Job] = []
        self.closed = 0
        self.up = True
        self.go_on = asyncio.Event()
        self._error = error

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def ready(self) -> bool:
        return self.up

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        self.jobs.append(job)
        try:
            await self.go_on.wait()
            if self._error is not None:
                raise self._error
            yield Chunk([], "length")
        finally:
            self.closed += 1


JOB = Job(
    request_id="r",
    prompt_ids=[1, 2, 3],
    max_tokens=9,
    sampling=Sampling(),
    stop_ids=frozenset({0}),
    priority=7,
    cache_salt="salt",
    retain_seconds=60,
    placement=Placement(session="s", parent="p", strict_priority=3, head_start=2, osl=50),
)
HINTED = TurnRequest(surface="chat", model="m", messages=(), session="s", hints=AgentHints(speculative_prefill=True))
CUT = CallSegment("run", '{"cm', "c", status="truncated")


def ended(request: TurnRequest = HINTED, *, session: str = "s", **fields: Any) -> Finished:
    told: dict[str, Any] = {"reply": (TextSegment("Done."),), "stop_reason": "end_turn", "job": JOB, "output_ids": [4, 5], **fields}
    return Finished(line=("t", session), request=request, **told)


class Play:
    """Speculation about a prefix that is known beforehand."""

    def __init__(self, *, ahead: Sequence[int] = (1, 2, 3, 9, 9), error: AntiphonError | None = None, **options: Any) -> None:
        self.engine = Workers(error)
        self.outcomes: list[tuple[str, int]] = []
        self.refusal: RequestError | None = None
        self.ahead = array("I", ahead)
        options.setdefault("mode", "asked")
        self.speculation = Speculation(
            self.engine, self.predict, options=SpeculationOptions(**options), count=lambda *one: self.outcomes.append(one)
        )

    async def predict(self, request: TurnRequest, reply: Sequence[Segment], tenant: str) -> "array[int]":
        if self.refusal is not None:
            raise self.refusal
        return self.ahead

    async def follow(self, *turns: Finished) -> None:
        """The turns end, and what follows has come as far as it can."""
        for turn in turns:
            self.speculation.follow(turn, tenant="t")
        for _ in range(5):
            await asyncio.sleep(0)


def test_the_job_goes_where_the_turn_was_and_gives_way() -> None:
    async def run() -> None:
        play = Play()
        await play.follow(ended(worker="gpu-1"))
        (job,) = play.engine.jobs
        assert (list(job.prompt_ids), job.prefill_only, job.priority, job.cache_salt, job.retain_seconds) == (
            [1, 2, 3, 9, 9], True, 0, "salt", 60,
        )  # fmt: skip
        assert job.placement == Placement(session="s", parent="p", osl=0, wish=RoutingWish(worker="gpu-1"))
        assert play.speculation.sent
        play.engine.go_on.set()
        await play.speculation.idle()
        assert play.outcomes == [("finished", 2)] and len(play.speculation) == 0 and not play.speculation.sent

    asyncio.run(run())


PLAIN = msgspec.structs.replace(HINTED, hints=AgentHints())
LAST = msgspec.structs.replace(HINTED, session_ends=True)
RAW = msgspec.structs.replace(HINTED, prompt="text")


@pytest.mark.parametrize(
    ("mode", "turn", "wanted"),
    [
        ("asked", ended(), True),
        ("asked", ended(PLAIN), False),
        ("always", ended(PLAIN), True),
        ("off", ended(), False),
        ("always", ended(LAST), False),
        ("always", ended(RAW), False),
        ("always", ended(reply=()), False),
        ("always", ended(reply=(CUT,)), False),
        ("always", ended(stop_reason="tool_use"), True),
        ("always", ended(stop_reason="max_tokens"), False),
        ("always", ended(stop_reason="cancelled"), False),
        ("always", ended(stop_reason="error"), False),
    ],
)
def test_who_gets_it(mode: str, turn: Finished, *, wanted: bool) -> None:
    async def run() -> None:
        play = Play(mode=mode)
        await play.follow(turn)
        assert len(play.engine.jobs) == wanted
        await play.speculation.close()

    asyncio.run(run())


def test_it_ends_at_once_when_the_session_goes_on() -> None:
    async def run() -> None:
        play = Play()
        await play.follow(ended(), ended(session="other"))
        play.speculation.arrived(("t", "nobody"))
        play.speculation.arrived(("t", "s"))
        await play.follow()
        assert play.engine.closed == 1 and play.outcomes == [("cancelled", 0)] and len(play.speculation) == 1
        await play.speculation.close()
        assert play.engine.closed == 2 and play.outcomes[1:] == [("cancelled", 0)]

    asyncio.run(run())


def test_a_session_has_one_and_the_server_a_few() -> None:
    async def run() -> None:
        play = Play(jobs=2)
        await play.follow(ended(), ended())
        assert len(play.speculation) == 1 and play.outcomes == [("cancelled", 0)]
        await play.follow(ended(session="b"), ended(session="c"))
        assert len(play.speculation) == 2 and play.outcomes[-1] == ("dropped", 0)
        play.speculation.arrived(("t", "b"))
        play.engine.up = False
        await play.follow(ended(session="d"))
        assert ("dropped", 0) in play.outcomes[2:]
        await play.speculation.close()

    asyncio.run(run())


def test_nothing_to_compute_and_every_failure_stay_inside() -> None:
    async def run(play: Play) -> list[tuple[str, int]]:
        play.engine.go_on.set()
        await play.follow(ended())
        await play.speculation.idle()
        return play.outcomes

    assert asyncio.run(run(Play(ahead=(1, 2, 3, 4)))) == [("needless", 0)]
    assert asyncio.run(run(Play(ahead=()))) == [("needless", 0)]
    assert asyncio.run(run(Play(error=WorkerUnavailable("gone")))) == [("failed", 0)]
    assert asyncio.run(run(Play(error=Overloaded("every worker is busy")))) == [("dropped", 0)]
    refused = Play()
    refused.refusal = ContextOverflow(10, 5)
    assert asyncio.run(run(refused)) == [("failed", 0)]
    assert refused.engine.jobs == []


def test_in_a_fleet_it_goes_to_the_worker_that_served_and_never_waits() -> None:
    world = World(2, router=RouterOptions(queue_threshold=1.0), card={"batch_tokens": 64})
    play = Play()
    outcomes: list[tuple[str, int]] = []
    speculation = Speculation(world.fleet, play.predict, options=SpeculationOptions(), count=lambda *one: outcomes.append(one))

    async def work() -> None:
        for session, worker in (("s", "b"), ("t", "a"), ("u", "b")):
            speculation.follow(ended(session=session, worker=worker), tenant="t")
        await speculation.idle()
        assert [(len(worker.jobs), {job.prefill_only for job in worker.jobs}) for worker in world.workers.values()] == [
            (1, {True}),
            (2, {True}),
        ]
        busy = asyncio.create_task(world.chunks(world.job(prompt=range(640), wish=RoutingWish(worker="b"))))
        await world.clock.sleep(0.01)
        speculation.follow(ended(session="v", worker="b"), tenant="t")
        await speculation.idle()
        await busy
        world.workers["a"].die()
        speculation.follow(ended(session="w", worker="a"), tenant="t")
        await speculation.idle()

    world.run(work)
    assert outcomes == [("finished", 2)] * 3 + [("dropped", 0), ("failed", 0)]


TOOL = {"name": "run", "input_schema": {"type": "object", "properties": {"cmd": {"type": "string"}}}}
WRITES = "think of it " * 40 + "\n</think>\n\n<tool_call>\n<function=run>\n<parameter=cmd>\n{}\n</parameter>\n</function>\n</tool_call>"
RULES = [{"when": "<tool_response>", "say": "Fine.\n</think>\n\nDone."}, {"when": "", "say": WRITES.format("some words of a file " * 60)}]


SETTINGS = [("asked", False, False), ("asked", True, True), ("always", False, True), ("off", True, False)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("setting", "hint", "ahead"), SETTINGS)
def test_the_next_turn_pays_only_for_the_result(serve_mock: Any, *, setting: str, hint: bool, stream: bool, ahead: bool) -> None:
    server = serve_mock(RULES, replay="none", speculative_prefill=setting)
    body: dict[str, Any] = {"model": "antiphon-mock", "max_tokens": 900, "tools": [TOOL], "thinking": {"type": "adaptive"}}
    body |= {"nvext": {"agent_hints": {"speculative_prefill": hint}}}
    body["messages"] = [{"role": "user", "content": "Write the file."}]
    headers = {"x-session-id": "S"}
    content = server.http.post("/v1/messages", json=body, headers=headers).json()["content"]
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "It is written."}
    body["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    answer = server.http.post("/v1/messages", json={**body, "stream": stream}, headers=headers)
    assert answer.status_code == 200
    last = server.traced()[-1]
    computed = len(last["prompt_ids"]) - last["cached_tokens"]
    assert (computed < 60) == ahead and (computed > 250) == (not ahead)
    metrics = server.http.get("/metrics").text
    finished = 'antiphon_speculative_prefills_total{model="antiphon-mock",outcome="finished"}'
    assert (finished in metrics) == ahead


def test_the_next_request_ends_what_is_being_computed() -> None:
    rules = [Rule(when=rule["when"], say=rule["say"]) for rule in RULES]
    clock = VirtualClock()
    body: dict[str, Any] = {"model": "antiphon-mock", "max_tokens": 900, "tools": [TOOL], "thinking": {"type": "adaptive"}}
    body["messages"] = [{"role": "user", "content": "Write the file."}]

    async def run() -> str:
        opened = mock_bench(strip=True, rules=rules, clock=clock, passing=clock.run, speculative_prefill="always", replay="none")
        async with opened as bench:
            speculation, pipeline = bench.pipeline.speculation, bench.pipeline
            content = (await bench.ask(json.dumps(body).encode())).content
            while not speculation.sent:
                await asyncio.sleep(0)
            result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "ok"}
            body["messages"] += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
            call = messages_surface().ingest(json.dumps(body).encode(), {})
            await pipeline.prepare(call.turn)
            assert len(speculation) == 0
            await speculation.close()
            assert not speculation.sent
            return pipeline.metrics.text().decode()

    assert 'antiphon_speculative_prefills_total{model="antiphon-mock",outcome="cancelled"} 1.0' in asyncio.run(run())
