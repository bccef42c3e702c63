"""The client of SGLang: both kinds of stream, its priorities, its aborts."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.antiphon.tests.engine_fakes import fake, job, run, says, streams
from packages.antiphon.tests.worker_stage import answer

from antiphon.engines.base import Chunk, Placement
from antiphon.engines.http_stream import HttpEngine
from antiphon.engines.sglang import SglangEngine
from antiphon.engines.sglang_http import ABORT, GENERATE, GenerateReader, Manners, generate_body, wire_priority
from antiphon.engines.vllm_http import wire_priority as vllm_priority
from antiphon_turns import RoutingWish, SampledLogprob, Sampling, TokenLogprob
from antiphon_turns.errors import StreamInterrupted, WorkerProtocolError, WorkerRefusal

ANSWER = [5, 5, 5, 6, 5, 5, 7]
STEPS = [1, 2, 5, 5, 7]
"""Tokens sampled up to each event; one event brings nothing."""


def stream_of(*, cumulative: bool, finish: object = None) -> list[dict]:
    """The events of the answer."""
    events = []
    for before, now in pairwise([0, *STEPS]):
        meta = {"id": "x", "completion_tokens": now, "cached_tokens": 2, "prompt_tokens": 3, "finish_reason": None}
        events.append({"text": "", "output_ids": ANSWER[:now] if cumulative else ANSWER[before:now], "meta_info": meta})
    events[-1]["meta_info"]["finish_reason"] = finish or {"type": "stop", "matched": 7}
    return events


def client(url: str, manners: Manners | None = None) -> SglangEngine:
    return SglangEngine(HttpEngine("the engine", url, silence_seconds=5), manners=manners or Manners())


@given(st.lists(st.integers(0, 1200), max_size=8), st.booleans())
def test_both_kinds_of_stream_say_the_same_however_they_are_cut(cuts, cumulative):
    data = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in stream_of(cumulative=cumulative))
    reader = GenerateReader(job())
    places = [0, *sorted({min(cut, len(data)) for cut in cuts}), len(data)]
    found: list[Chunk] = [chunk for start, end in pairwise(places) if (chunk := reader.feed(data[start:end])) is not None]
    assert [token_id for chunk in found for token_id in chunk.ids] == ANSWER
    assert [chunk.cached_tokens for chunk in found if chunk.cached_tokens is not None] == [2]
    assert found[-1].finish == "stop"


@pytest.mark.parametrize("cumulative", [True, False])
def test_a_job_streams(cumulative):
    async def scene():
        async with fake({f"POST {GENERATE}": streams(*stream_of(cumulative=cumulative), "[DONE]")}) as server:
            engine = client(server.url)
            await engine.start()
            ids, chunks = await answer(engine, job())
            assert ids == ANSWER
            assert (chunks[0].cached_tokens, chunks[-1].finish) == (2, "stop")
            await engine.close()

    run(scene)


def test_the_request_says_what_the_job_says():
    sampling = Sampling(temperature=0.5, seed=7, top_logprobs=2)
    wanted = job(sampling=sampling, priority=3, cache_salt="tenant", grammar="start: /a/", placement=Placement(wish=RoutingWish(rank=1)))
    assert msgspec.json.decode(generate_body(wanted, "ours", Manners(priorities=True))) == {
        "input_ids": [1, 2, 3],
        "rid": "ours",
        "stream": True,
        "sampling_params": {
            "max_new_tokens": 8,
            "stop_token_ids": [2, 9],
            "temperature": 0.5,
            "sampling_seed": 7,
            "ebnf": "start: /a/",
        },
        "return_logprob": True,
        "top_logprobs_num": 2,
        "return_text_in_logprobs": True,
        "cache_salt": "tenant",
        "routed_dp_rank": 1,
        "priority": 3,
    }
    assert "priority" not in msgspec.json.decode(generate_body(wanted, "ours", Manners()))


def test_priorities_mean_the_same_everywhere():
    """Field report 159: whatever sign an engine reads, the more urgent job goes first there, and one that only fills the cache last."""
    jobs = [job(priority=10), job(priority=0), job(priority=-4), job(prefill_only=True, priority=10)]
    vllm = sorted(jobs, key=vllm_priority)
    higher = sorted(jobs, key=lambda one: wire_priority(one, Manners(priorities=True)), reverse=True)
    lower = sorted(jobs, key=lambda one: wire_priority(one, Manners(priorities=True, lower_first=True)))
    assert vllm == higher == lower == jobs


def test_probabilities_of_the_new_tokens():
    meta = {"completion_tokens": 2, "output_token_logprobs": [[-0.5, 5, "a"], [-0.25, 6, "b"]]}
    meta["output_top_logprobs"] = [[[-0.5, 5, "a"]], [[-0.25, 6, "b"], [-1.0, 7, "c"]]]
    reader = GenerateReader(job(sampling=Sampling(top_logprobs=2)))
    first = {"output_ids": [5], "meta_info": {"completion_tokens": 1, "output_token_logprobs": [[-0.5, 5, "a"]]}}
    assert reader.feed(b"data: " + msgspec.json.encode(first) + b"\n\n") is not None
    chunk = reader.feed(b"data: " + msgspec.json.encode({"output_ids": [5, 6], "meta_info": meta}) + b"\n\n")
    assert chunk is not None
    likely = (TokenLogprob("b", -0.25, b"b"), TokenLogprob("c", -1.0, b"c"))
    assert (chunk.ids, chunk.logprobs) == ([6], [SampledLogprob(TokenLogprob("b", -0.25, b"b"), likely)])


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ({"type": "abort", "message": "out of memory", "status_code": 500}, StreamInterrupted),
        ({"type": "abort", "message": "too long", "status_code": 400}, WorkerRefusal),
    ],
    ids=["engine", "request"],
)
def test_an_abort_by_the_server_is_an_error(finish, kind):
    async def scene():
        events = stream_of(cumulative=True, finish=finish)
        async with fake({f"POST {GENERATE}": streams(*events), f"POST {ABORT}": says({})}) as server:
            engine = client(server.url)
            await engine.start()
            with pytest.raises(kind, match=finish["message"]):
                await answer(engine, job())
            await engine.close()

    run(scene)


def test_a_count_that_cannot_be_is_a_protocol_error():
    data = b"data: " + msgspec.json.encode({"output_ids": [5], "meta_info": {"completion_tokens": 3}}) + b"\n\n"
    with pytest.raises(WorkerProtocolError, match="sampled 3"):
        GenerateReader(job()).feed(data)


def test_whoever_leaves_aborts_by_an_id_of_ours():
    """Field reports 119 and 120: this server ends all requests whose id begins with the one it is told, so all have one length."""

    async def scene():
        first = stream_of(cumulative=False)[0]
        async with fake({f"POST {GENERATE}": streams(first, end="hang"), f"POST {ABORT}": says({})}) as server:
            engine = client(server.url)
            await engine.start()
            for request_id in ("a", "ab"):
                stream = engine.generate(job(request_id=request_id))
                await anext(stream)
                await stream.aclose()
            aborts = await server.asked(ABORT, 2)
            await server.gone.wait()
            asked = [body["rid"] for body in server.bodies[GENERATE]]
            assert [body["rid"] for body in aborts] == asked
            assert len(set(asked)) == 2
            assert {len(one) for one in asked} == {32}
            await engine.close()

    run(scene)


def test_a_prefill_only_job_has_no_tokens():
    async def scene():
        meta = {"completion_tokens": 1, "cached_tokens": 2, "finish_reason": {"type": "length", "length": 1}}
        async with fake({f"POST {GENERATE}": streams({"output_ids": [5], "meta_info": meta})}) as server:
            engine = client(server.url, Manners(priorities=True))
            await engine.start()
            assert await answer(engine, job(prefill_only=True)) == ([], [Chunk([], "length", 2)])
            (body,) = server.bodies[GENERATE]
            assert body["sampling_params"]["max_new_tokens"] == 1
            assert body["priority"] < -(1 << 20)
            await engine.close()

    run(scene)
