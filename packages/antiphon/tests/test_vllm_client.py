"""The client of vLLM: what it asks, what it reads, and what becomes of failures."""

import asyncio
import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.antiphon.tests.engine_fakes import fake, job, run, says, streams
from packages.antiphon.tests.worker_stage import answer, worker

from antiphon.engines.base import Chunk, Placement
from antiphon.engines.http_stream import HttpEngine
from antiphon.engines.vllm import VllmEngine
from antiphon.engines.vllm_http import GenerateReader, completions_body, generate_body
from antiphon.engines.vllm_wire import ABORT, GENERATE
from antiphon_turns import RoutingWish, SampledLogprob, Sampling, TokenLogprob
from antiphon_turns.errors import (
    StreamInterrupted,
    WorkerProtocolError,
    WorkerRefusal,
    WorkerTimeout,
    WorkerUnavailable,
)

COMPLETIONS = "/v1/completions"
DONE = "[DONE]"


def event(*ids: int, finish: str | None = None, logprobs: list | None = None) -> dict:
    """As vLLM 0.32 writes it."""
    choice = {"index": 0, "finish_reason": finish, "stop_reason": None, "token_ids": list(ids), "routed_experts": None}
    content = None if logprobs is None else {"content": logprobs}
    return {"request_id": "generate-tokens-x", "usage": None, "output_mode": "tokens", "choices": [{**choice, "logprobs": content}]}


def usage(cached: int) -> dict:
    """The event behind the last token."""
    counts = {"prompt_tokens": 3, "total_tokens": 6, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": cached}}
    return {"request_id": "generate-tokens-x", "usage": counts, "output_mode": "tokens", "choices": []}


GOOD = [event(5), event(6), event(7, finish="length"), usage(2), DONE]


def client(url: str, **more) -> VllmEngine:
    return VllmEngine(HttpEngine("the engine", url, silence_seconds=more.pop("silence_seconds", 5)), model="m", **more)


@given(st.lists(st.integers(0, 1500), max_size=8), st.booleans())
def test_a_stream_reads_the_same_however_it_is_cut(cuts, windows):
    line_end = "\r\n\r\n" if windows else "\n\n"
    data = "".join(f"data: {one if one == DONE else msgspec.json.encode(one).decode()}{line_end}" for one in GOOD).encode()
    reader = GenerateReader(job(), None)
    places = [0, *sorted({min(cut, len(data)) for cut in cuts}), len(data)]
    found: list[Chunk] = []
    for start, end in itertools.pairwise(places):
        chunk = reader.feed(data[start:end])
        if chunk is not None:
            found.append(chunk)
            if chunk.finish is not None:
                break
    assert [token_id for chunk in found for token_id in chunk.ids] == [5, 6, 7]
    assert (found[-1].finish, found[-1].cached_tokens) == ("length", 2)


def test_what_arrives_together_leaves_together():
    data = b"".join(b"data: " + msgspec.json.encode(one) + b"\n\n" for one in GOOD[:4])
    assert GenerateReader(job(), None).feed(data) == Chunk([5, 6, 7], "length", 2)


def test_the_request_says_what_the_job_says():
    sampling = Sampling(temperature=0.0, top_p=0.5, top_k=4, min_p=0.1, seed=7, presence_penalty=0.25, top_logprobs=2)
    wanted = job(sampling=sampling, priority=3, cache_salt="tenant", grammar="start: /a/")
    body = msgspec.json.decode(generate_body(wanted, "ours", priorities=True))
    assert body == {
        "token_ids": [1, 2, 3],
        "request_id": "ours",
        "stream": True,
        "stream_options": {"include_usage": True},
        "cache_salt": "tenant",
        "priority": -3,
        "sampling_params": {
            "max_tokens": 8,
            "temperature": 0.0,
            "top_p": 0.5,
            "top_k": 4,
            "min_p": 0.1,
            "seed": 7,
            "presence_penalty": 0.25,
            "stop_token_ids": [2, 9],
            "logprobs": 2,
            "detokenize": False,
            "structured_outputs": {"grammar": "start: /a/"},
        },
    }
    other = msgspec.json.decode(completions_body(wanted, "ours", model="m", priorities=True))
    assert (other["prompt"], other["return_token_ids"], other["priority"], other["model"]) == ([1, 2, 3], True, -3, "m")
    assert "priority" not in msgspec.json.decode(generate_body(wanted, "ours", priorities=False))


def test_probabilities_are_spelled():
    logprob = {"token_id": 5, "logprob": -0.5, "rank": 1, "top_logprobs": [{"token_id": 6, "logprob": -1.0, "rank": 2}]}
    data = b"data: " + msgspec.json.encode(event(5, logprobs=[logprob])) + b"\n\n"
    reader = GenerateReader(job(sampling=Sampling(top_logprobs=1)), lambda token_id: (f"<{token_id}>", bytes([token_id])))
    chunk = reader.feed(data)
    assert chunk is not None
    assert chunk.logprobs == [SampledLogprob(TokenLogprob("<5>", -0.5, b"\x05"), (TokenLogprob("<6>", -1.0, b"\x06"),))]


def test_a_job_streams():
    async def scene():
        async with fake({f"POST {GENERATE}": streams(*GOOD)}) as server:
            engine = client(server.url)
            await engine.start()
            ids, chunks = await answer(engine, job(placement=Placement(wish=RoutingWish(rank=3))))
            assert ids == [5, 6, 7]
            assert [chunk.cached_tokens for chunk in chunks if chunk.cached_tokens is not None] == [2]
            assert server.headers[-1]["x-data-parallel-rank"] == "3"
            await engine.close()

    run(scene)


def test_a_prefill_only_job_has_no_tokens_and_goes_last():
    async def scene():
        async with fake({f"POST {GENERATE}": streams(event(5, finish="length"), usage(2), DONE)}) as server:
            engine = client(server.url)
            await engine.start()
            assert await answer(engine, job(prefill_only=True)) == ([], [Chunk([], "length", 2)])
            (body,) = server.bodies[GENERATE]
            assert body["sampling_params"]["max_tokens"] == 1
            assert body["priority"] > 1 << 20
            await engine.close()

    run(scene)


def test_a_closed_route_leads_to_completions_from_then_on():
    async def scene():
        def told(*ids: int, finish: str | None = None) -> dict:
            return {"choices": [{"index": 0, "text": "x", "finish_reason": finish, "token_ids": list(ids)}]}

        stream = streams(told(5), told(6, finish="stop"), {"choices": [], "usage": usage(1)["usage"]}, DONE)
        refusal = says({"error": {"message": "not open"}}, 403)
        async with fake({f"POST {GENERATE}": refusal, f"POST {COMPLETIONS}": stream}) as server:
            engine = client(server.url)
            await engine.start()
            for _ in range(2):
                ids, chunks = await answer(engine, job())
                assert ids == [5, 6]
                assert (chunks[-1].finish, chunks[-1].cached_tokens) == ("stop", 1)
            assert len(server.bodies[GENERATE]) == 1
            assert len(server.bodies[COMPLETIONS]) == 2
            await engine.close()

    run(scene)


def test_a_server_without_priority_scheduling_is_told_none():
    async def scene():
        good = streams(*GOOD)

        async def picky(request):
            body = msgspec.json.decode(await request.read())
            if body.get("priority"):
                return await says({"error": {"message": "Got priority -3 but Priority scheduling is not enabled."}}, 400)(request)
            return await good(request)

        async with fake({f"POST {GENERATE}": picky}) as server:
            engine = client(server.url)
            await engine.start()
            for _ in range(2):
                assert (await answer(engine, job(priority=3)))[0] == [5, 6, 7]
            assert len(server.bodies[GENERATE]) == 3
            await engine.close()

    run(scene)


@pytest.mark.parametrize(
    ("handler", "kind", "words"),
    [
        (says({"error": {"message": "Token id 9 is out of vocabulary"}}, 400), WorkerRefusal, "out of vocabulary"),
        (says({"error": {"message": "later"}}, 503), WorkerUnavailable, "later"),
        (says({"detail": "boom"}, 500), WorkerProtocolError, "boom"),
        (streams(event(5), end="cut"), StreamInterrupted, "broke off"),
        (streams(event(5)), StreamInterrupted, "early"),
        (streams(event(5), {"error": {"message": "CUDA"}}), StreamInterrupted, "CUDA"),
        (streams(event(5), event(6, finish="abort")), StreamInterrupted, "abort"),
        (streams("{"), WorkerProtocolError, "cannot be read"),
    ],
    ids=["400", "503", "500", "cut", "no finish", "error event", "aborted there", "no JSON"],
)
def test_failures_are_worker_errors(handler, kind, words):
    async def scene():
        async with fake({f"POST {GENERATE}": handler, f"POST {ABORT}": says({})}) as server:
            engine = client(server.url)
            await engine.start()
            with pytest.raises(kind, match=words):
                await answer(engine, job())
            await engine.close()

    run(scene)


def test_silence_is_a_time_out():
    async def scene():
        async with fake({f"POST {GENERATE}": streams(event(5), end="hang"), f"POST {ABORT}": says({})}) as server:
            engine = client(server.url, silence_seconds=0.05)
            await engine.start()
            with pytest.raises(WorkerTimeout):
                await answer(engine, job())
            await engine.close()

    run(scene)


def test_nobody_there_is_unavailable():
    async def scene():
        async with fake({}) as server:
            engine = client(server.url)
        await engine.start()
        with pytest.raises(WorkerUnavailable):
            await answer(engine, job())
        await engine.close()
        with pytest.raises(WorkerUnavailable):
            await answer(engine, job())

    run(scene)


def test_whoever_leaves_ends_the_request_by_an_id_of_ours():
    """Field reports 119 and 120: the connection closes and the request is aborted, by a whole id that no client chose."""

    async def scene():
        async with fake({f"POST {GENERATE}": streams(event(5), end="hang"), f"POST {ABORT}": says({})}) as server:
            engine = client(server.url)
            await engine.start()
            for request_id in ("a", "ab"):
                stream = engine.generate(job(request_id=request_id))
                await anext(stream)
                await stream.aclose()
            aborts = await server.asked(ABORT, 2)
            await server.gone.wait()
            asked = [body["request_id"] for body in server.bodies[GENERATE]]
            assert [body["request_ids"] for body in aborts] == [[f"generate-tokens-{one}"] for one in asked]
            assert len(set(asked)) == 2
            assert {len(one) for one in asked} == {32}
            await engine.close()

    run(scene)


def test_our_own_worker_speaks_it_too():
    async def scene():
        async with worker() as stage:
            engine = client(stage.url)
            await engine.start()
            wanted = stage.job("@@REPEAT:30@@", max_tokens=20)
            expected, _ = await answer(stage.engine, wanted)
            ids, chunks = await answer(engine, wanted)
            assert ids == expected
            assert chunks[-1].finish == "length"
            assert chunks[-1].cached_tokens == (len(wanted.prompt_ids) - 1) // 16 * 16
            with pytest.raises(WorkerRefusal, match="grammar"):
                await answer(engine, stage.job("x", grammar="start: /a/"))
            await engine.close()

    run(scene)


@pytest.mark.parametrize("tokens", [0, 1])
def test_our_own_worker_ends_what_nobody_reads(tokens):
    """Field report 119, over HTTP: before the first token and behind it."""

    async def scene():
        async with worker(mock_token_delay_ms=10_000 if tokens == 0 else 20) as stage:
            engine = client(stage.url)
            await engine.start()
            stream = engine.generate(stage.job("@@REPEAT:500@@"))
            first = asyncio.ensure_future(anext(stream))
            while stage.service.running == 0:
                await asyncio.sleep(0)
            if tokens:
                await first
            first.cancel()
            await asyncio.wait({first})
            await stream.aclose()
            while stage.service.running:
                await asyncio.sleep(0)
            assert stage.engine.running == 0
            await engine.close()

    run(scene)
