"""Who is at an address: cards of engines that are not ours, from what each tells of itself."""

import asyncio

import msgspec
import pytest
from packages.antiphon.tests.engine_fakes import fake, job, run, says, streams
from packages.antiphon.tests.worker_stage import answer

from antiphon.engines.default_model import default_model_path
from antiphon.engines.http_stream import HttpEngine
from antiphon.engines.llamacpp import CompletionReader, LlamaCppEngine
from antiphon.engines.sglang import SglangEngine
from antiphon.engines.vllm import VllmEngine
from antiphon.engines.vllm_wire import GENERATE
from antiphon.model import ModelChoice, load_model
from antiphon.workers.card import KvFeed
from antiphon.workers.cards import connect
from antiphon.workers.directory import WorkerAddress
from antiphon_turns import Sampling
from antiphon_turns.errors import ConfigError, StreamInterrupted, WorkerProtocolError, WorkerUnavailable

METRICS = """# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="32",cache_dtype="auto",num_gpu_blocks="1456",num_cpu_blocks="None"} 1.0
process_start_time_seconds 1.79599233808e+09
"""
SOURCES = {
    str(rank): {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{15557 + rank}",
        "replay_endpoint": f"tcp://*:{15657 + rank}",
        "topic": "kv-events",
    }
    for rank in range(2)
}


def text(value: str):
    async def say(request):
        from aiohttp import web

        return web.Response(text=value)

    return say


def vllm_routes(**more) -> dict:
    return {
        "GET /version": says({"version": "0.32.0"}),
        "GET /v1/models": says({"object": "list", "data": [{"id": "smollm2", "max_model_len": 8192, "owned_by": "vllm"}]}),
        "GET /kv_event_sources": says(SOURCES),
        "GET /metrics": text(METRICS),
        f"POST {GENERATE}": says({"choices": []}),
        **more,
    }


SGLANG = {
    "model_path": "org/model",
    "served_model_name": "model",
    "page_size": 16,
    "dp_size": 2,
    "chunked_prefill_size": 8192,
    "max_total_num_tokens": 160_000,
    "grammar_backend": "llguidance",
    "enable_priority_scheduling": True,
    "kv_events_config": '{"publisher":"zmq","endpoint":"tcp://*:5557","topic":"kv"}',
    "version": "0.5.23",
}


def address(url: str, **more) -> WorkerAddress:
    return WorkerAddress(name="w", url=url, **more)


@pytest.mark.parametrize("kind", ["vllm", None])
def test_a_vllm_server(kind):
    async def scene():
        async with fake(vllm_routes()) as server:
            card, engine = await connect(address(server.url, kind=kind))
            assert isinstance(engine, VllmEngine)
            assert (card.kind, card.model, card.context_length, card.ranks) == ("vllm", "smollm2", 8192, 2)
            assert (card.block_tokens, card.cache_blocks) == (32, 1456)
            assert card.constrains
            assert engine.constrains
            assert not card.reports_logprobs
            assert card.incarnation == "1.79599233808e+09"
            assert card.feeds[1] == KvFeed(
                events="tcp://127.0.0.1:15558", replay="tcp://127.0.0.1:15658", topic="kv-events", rank=1, bind=False
            )
            (probe,) = server.bodies[GENERATE]
            assert probe["sampling_params"]["structured_outputs"]["grammar"].startswith("%llguidance")

    run(scene)


def test_what_the_operator_says_goes_before():
    async def scene():
        async with fake(vllm_routes()) as server:
            mine = KvFeed(events="tcp://10.0.0.1:1")
            card, _ = await connect(address(server.url, block_tokens=64), feeds=[mine])
            assert (card.block_tokens, card.feeds) == (64, (mine,))

    run(scene)


def test_a_vllm_server_that_connects_is_bound_for():
    async def scene():
        source = {"0": {"enable_kv_cache_events": True, "endpoint": "tcp://127.0.0.1:15557", "topic": ""}}
        async with fake(vllm_routes(**{"GET /kv_event_sources": says(source)})) as server:
            card, _ = await connect(address(server.url))
            assert card.feeds == (KvFeed(events="tcp://127.0.0.1:15557", bind=True),)

    run(scene)


@pytest.mark.parametrize("status", [400, 403])
def test_a_vllm_server_that_takes_no_grammars_does_not_constrain(status):
    async def scene():
        refusal = says({"error": {"message": "no"}}, status)
        routes = vllm_routes(**{f"POST {GENERATE}": refusal, "GET /kv_event_sources": says({}), "GET /metrics": says({}, 404)})
        async with fake(routes) as server:
            card, engine = await connect(address(server.url))
            assert not card.constrains
            assert not engine.constrains
            assert (card.block_tokens, card.feeds, card.ranks) == (None, (), 1)

    run(scene)


@pytest.mark.parametrize("kind", ["sglang", None])
def test_an_sglang_server(kind):
    async def scene():
        routes = {"GET /get_server_info": says(SGLANG), "GET /get_model_info": says({"model_path": "org/model", "max_model_len": 32768})}
        async with fake(routes) as server:
            card, engine = await connect(address(server.url, kind=kind))
            assert isinstance(engine, SglangEngine)
            assert (card.kind, card.model, card.context_length, card.ranks) == ("sglang", "model", 32768, 2)
            assert (card.block_tokens, card.cache_blocks, card.batch_tokens) == (16, 10_000, 8192)
            assert card.constrains
            assert [feed.events for feed in card.feeds] == ["tcp://127.0.0.1:5557", "tcp://127.0.0.1:5558"]

    run(scene)


def test_sglang_with_another_grammar_backend_does_not_constrain():
    async def scene():
        info = says({**SGLANG, "grammar_backend": "xgrammar", "kv_events_config": None})
        async with fake({"GET /get_server_info": info, "GET /get_model_info": says({})}) as server:
            card, _ = await connect(address(server.url))
            assert not card.constrains
            assert card.feeds == ()

    run(scene)


@pytest.mark.parametrize(("said", "constrains"), [("zqzqzq", True), ("zq", True), ("Hello", False), ("", False)])
def test_a_llama_server(said, constrains):
    async def scene():
        props = {"model_path": "/models/a.gguf", "default_generation_settings": {"n_ctx": 4096}, "total_slots": 4}
        async with fake({"GET /props": says(props), "POST /completion": says({"content": said})}) as server:
            card, engine = await connect(address(server.url))
            assert isinstance(engine, LlamaCppEngine)
            assert (card.kind, card.model, card.context_length) == ("llamacpp", "a.gguf", 4096)
            assert card.constrains is constrains

    run(scene)


def test_a_server_that_is_not_ready_may_be_later():
    async def scene():
        async with fake({"GET /card": says({}, 503)}) as server:
            with pytest.raises(WorkerUnavailable, match="not ready"):
                await connect(address(server.url))

    run(scene)


def test_an_engines_key_is_asked_for():
    async def scene():
        async with fake({"GET /version": says({"error": "Unauthorized"}, 401)}) as server:
            with pytest.raises(ConfigError, match="key"):
                await connect(address(server.url))

    run(scene)


def test_somebody_else_is_refused():
    async def scene():
        async with fake({"GET /": says({})}) as server:
            with pytest.raises(ConfigError, match="no worker of ours"):
                await connect(address(server.url))
            with pytest.raises(ConfigError):
                await connect(address(server.url, kind="vllm"))

    run(scene)


@pytest.fixture(scope="module")
def model():
    return load_model(ModelChoice(path=default_model_path()))


@pytest.mark.parametrize("same", [True, False])
def test_the_tokenizer_must_be_the_same(model, same):
    async def scene():
        async def tokenize(request):
            ids = model.tokenizer.encode(msgspec.json.decode(await request.read())["prompt"], added=True)
            return await says({"tokens": ids if same else [*ids[:7], 0, *ids[8:]]})(request)

        async with fake(vllm_routes(**{"POST /tokenize": tokenize})) as server:
            if same:
                card, _ = await connect(address(server.url), tokenizer=model.tokenizer)
                assert card.reports_logprobs
            else:
                with pytest.raises(ConfigError, match="at token 7 of a probe text it has 0"):
                    await connect(address(server.url), tokenizer=model.tokenizer)

    run(scene)


def test_an_engine_that_does_not_tokenize_is_taken_with_a_warning(model, caplog):
    async def scene():
        async with fake(vllm_routes()) as server:
            await connect(address(server.url), tokenizer=model.tokenizer)

    run(scene)
    assert "same tokens" in caplog.text


# llama.cpp


def told(*ids: int, count: int, content: str = "x", **more) -> dict:
    return {"tokens": list(ids), "tokens_predicted": count, "content": content, "stop": False, **more}


def test_a_llama_stream_is_cut_behind_a_stop_id():
    async def scene():
        progress = {"tokens": [0], "prompt_progress": {"cache": 2, "processed": 3, "total": 3}}
        events = [progress, told(5, count=1), told(9, count=2), told(6, count=3)]
        async with fake({"POST /completion": streams(*events, end="hang")}) as server:
            engine = LlamaCppEngine(HttpEngine("the engine", server.url))
            await engine.start()
            ids, chunks = await answer(engine, job(sampling=Sampling(temperature=0)))
            assert ids == [5, 9]
            assert (chunks[0].cached_tokens, chunks[-1].finish) == (2, "stop")
            await server.gone.wait()
            (body,) = server.bodies["/completion"]
            assert (body["prompt"], body["n_predict"], body["return_tokens"]) == ([1, 2, 3], 8, True)
            await engine.close()

    run(scene)


def test_ids_that_llama_cpp_keeps_to_itself_are_the_tokenizers():
    data = b"data: " + msgspec.json.encode(told(8, count=3, content="\N{DRAGON}")) + b"\n\n"
    chunk = CompletionReader(job(), lambda text: [6, 7, 8] if text == "\N{DRAGON}" else []).feed(data)
    assert chunk is not None
    assert chunk.ids == [6, 7, 8]
    with pytest.raises(WorkerProtocolError, match="kept 2"):
        CompletionReader(job()).feed(data)


def test_a_llama_error_event_interrupts():
    data = b'data: {"error": {"message": "out of memory", "type": "server_error"}}\n\n'
    with pytest.raises(StreamInterrupted, match="out of memory"):
        CompletionReader(job()).feed(data)


def test_a_real_llama_server(model):
    xllamacpp = pytest.importorskip("xllamacpp")

    def load():
        params = xllamacpp.CommonParams()
        params.model.path = str(default_model_path())
        params.n_ctx = 512
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = ["secret"]
        params.verbosity = -1
        return xllamacpp.Server(params)

    async def scene():
        servers = [await asyncio.to_thread(load)]
        card, engine = await connect(address(servers[0].listening_address), tokenizer=model.tokenizer, key="secret")
        assert (card.kind, card.context_length) == ("llamacpp", 512)
        assert card.constrains
        await engine.start()
        prompt = model.tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", added=True)
        wanted = job(prompt_ids=prompt, max_tokens=12, sampling=Sampling(temperature=0), stop_ids=model.stop_ids)
        ids, chunks = await answer(engine, wanted)
        assert ids
        assert chunks[-1].finish in ("stop", "length")
        assert (await answer(engine, wanted))[1][0].cached_tokens == len(prompt) - 1
        held, _ = await answer(engine, msgspec.structs.replace(wanted, grammar='%llguidance {}\nstart: "blue" <[2]>'))
        assert model.tokenizer.decode(held) == "blue<|im_end|>"
        assert (await answer(engine, msgspec.structs.replace(wanted, prefill_only=True)))[0] == []
        await engine.close()
        await asyncio.to_thread(servers.clear)

    run(scene)
