"""A real vLLM as a worker: what the router learns of it, who goes first, what becomes of those who leave."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable

import httpx

from antiphon.engines.base import Chunk, Engine, Job
from antiphon.engines.default_model import default_model_path
from antiphon.engines.vllm import VllmEngine
from antiphon.model import Model, ModelChoice, load_model
from antiphon.router.hashing import extend, root_of
from antiphon.router.kv_source import KvIndex
from antiphon.serve import new_loop
from antiphon.workers.card import WorkerCard
from antiphon.workers.cards import connect
from antiphon.workers.directory import WorkerAddress
from antiphon_turns import Sampling

LIMIT_SECONDS = 240


def run(vllm: str, scene: Callable[[WorkerCard, Engine, Model], Awaitable[None]]) -> None:
    """A scene with a client of the server."""

    async def main() -> None:
        model = load_model(ModelChoice(path=default_model_path()))
        card, engine = await connect(WorkerAddress(name="v0", url=vllm), tokenizer=model.tokenizer)
        await engine.start()
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await scene(card, engine, model)
        finally:
            await engine.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def job(model: Model, text: str, **fields: object) -> Job:
    """A job of one user message."""
    prompt = model.tokenizer.encode(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n", added=True)
    common = {"max_tokens": 16, "sampling": Sampling(temperature=0.0), "stop_ids": model.stop_ids}
    return Job(request_id="r", prompt_ids=prompt, **{**common, **fields})  # type: ignore[arg-type]


async def chunks_of(engine: Engine, wanted: Job) -> list[Chunk]:
    return [chunk async for chunk in engine.generate(wanted)]


def running(vllm: str) -> int:
    """Requests that the server runs or holds."""
    metrics = httpx.get(f"{vllm}/metrics", timeout=10).text
    counts = re.findall(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)", metrics, re.MULTILINE)
    return sum(int(float(count)) for count in counts)


def test_the_card_is_put_together(vllm: str) -> None:
    async def scene(card: WorkerCard, engine: Engine, model: Model) -> None:
        assert (card.kind, card.model, card.context_length, card.block_tokens) == ("vllm", "smollm2", 8192, 32)
        assert card.constrains
        assert engine.constrains
        assert len(card.feeds) == 1
        assert card.cache_blocks

    run(vllm, scene)


def test_both_routes_say_the_same(vllm: str) -> None:
    async def scene(card: WorkerCard, engine: Engine, model: Model) -> None:
        assert isinstance(engine, VllmEngine)
        wanted = job(model, "Count to five.", sampling=Sampling(temperature=0.0, top_logprobs=2))
        ours = await chunks_of(engine, wanted)
        other = VllmEngine(engine._http, model=card.model, spell=engine._spell, completions=True)
        theirs = await chunks_of(other, wanted)
        assert [id_ for chunk in ours for id_ in chunk.ids] == [id_ for chunk in theirs for id_ in chunk.ids]
        assert ours[-1].finish == theirs[-1].finish
        assert theirs[-1].cached_tokens is not None
        for chunks in (ours, theirs):
            told = [one for chunk in chunks for one in chunk.logprobs or ()]
            assert len(told) == sum(len(chunk.ids) for chunk in chunks)
            assert all(one is not None and len(one.top) == 2 and one.sampled.logprob <= 0 for one in told)

    run(vllm, scene)


def test_a_prompt_can_be_computed_ahead_and_salts_keep_apart(vllm: str) -> None:
    async def scene(card: WorkerCard, engine: Engine, model: Model) -> None:
        text = "Ahead: " + " ".join(map(str, range(200)))
        assert await chunks_of(engine, job(model, text, cache_salt="a", prefill_only=True)) == [Chunk([], "length", 0)]
        for salt, least, most in (("a", 256, 2000), ("b", 0, 0)):
            last = (await chunks_of(engine, job(model, text, cache_salt=salt, max_tokens=2)))[-1]
            assert least <= (last.cached_tokens or 0) <= most

    run(vllm, scene)


def test_a_grammar_is_kept_to_with_control_tokens(vllm: str) -> None:
    async def scene(card: WorkerCard, engine: Engine, model: Model) -> None:
        grammar = '%llguidance {}\nstart: "blue" | "green" end\nend: <[2]>'
        chunks = await chunks_of(engine, job(model, "Say something.", grammar=grammar))
        text = model.tokenizer.decode([id_ for chunk in chunks for id_ in chunk.ids])
        assert text.removesuffix("<|im_end|>") in ("blue", "green")

    run(vllm, scene)


def test_the_index_follows_the_events(vllm: str) -> None:
    async def scene(card: WorkerCard, engine: Engine, model: Model) -> None:
        index = KvIndex()
        try:
            index.follow("v0", card)
            wanted = job(model, "Events: " + " ".join(map(str, range(300))), max_tokens=2)
            await chunks_of(engine, wanted)
            blocks = len(wanted.prompt_ids) // 32
            await until(lambda: held_blocks(index, wanted) >= blocks)
        finally:
            await index.close()

    run(vllm, scene)


def test_whoever_leaves_frees_the_server(vllm: str) -> None:
    async def scene(card: WorkerCard, engine: Engine, model: Model) -> None:
        streams = [engine.generate(job(model, f"Story {n}", max_tokens=4000, stop_ids=frozenset())) for n in range(3)]
        firsts = [asyncio.ensure_future(anext(stream)) for stream in streams]
        await asyncio.wait(firsts, return_when=asyncio.FIRST_COMPLETED)
        assert running(vllm) == 3, "two run and one waits"
        for first in firsts:
            first.cancel()
        await asyncio.wait(firsts)
        for stream in streams:
            await stream.aclose()
        started = time.monotonic()
        await until(lambda: running(vllm) == 0)
        assert time.monotonic() - started < 5

    run(vllm, scene)


def test_a_client_that_leaves_the_frontend_frees_the_server(vllm: str, frontend: str) -> None:
    text = "Count from 1 to 2000, one number a line: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,"
    body = {"model": "SmolLM2-135M-Instruct", "max_tokens": 4000, "temperature": 0, "stream": True}

    async def scene() -> None:
        async with httpx.AsyncClient(base_url=frontend, timeout=60) as http:
            messages = [{"role": "user", "content": text}]
            async with http.stream("POST", "/v1/chat/completions", json={**body, "messages": messages}) as answer:
                async for line in answer.aiter_lines():
                    assert "[DONE]" not in line, "the model has ended before it could be left"
                    if '"content":"' in line and await asyncio.to_thread(running, vllm) == 1:
                        break
        await until(lambda: running(vllm) == 0)

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_the_urgent_go_first(vllm: str) -> None:
    """Field report 159 on the real engine: a higher priority of ours is served first there."""

    async def scene(card: WorkerCard, engine: Engine, model: Model) -> None:
        order: list[str] = []

        async def one(name: str, priority: int, tokens: int) -> None:
            await chunks_of(engine, job(model, f"Story {name}", priority=priority, max_tokens=tokens, stop_ids=frozenset()))
            order.append(name)

        running_ones = [asyncio.ensure_future(one(f"long {n}", 0, 120)) for n in range(2)]
        await until(lambda: running(vllm) == 2)
        waiting = [asyncio.ensure_future(one(f"background {n}", -5, 40)) for n in range(3)]
        await until(lambda: running(vllm) == 5)
        urgent = asyncio.ensure_future(one("urgent", 5, 40))
        await asyncio.gather(*running_ones, *waiting, urgent)
        assert order.index("urgent") < min(order.index(f"background {n}") for n in range(3)), json.dumps(order)

    run(vllm, scene)


async def until(reached: Callable[[], bool]) -> None:
    """Looks until it is so; the scene's own limit ends it otherwise."""
    while not await asyncio.to_thread(reached):
        await asyncio.sleep(0.05)


def held_blocks(index: KvIndex, wanted: Job) -> int:
    """How many leading blocks of the prompt the index knows at the worker."""
    overlap = index.overlaps(extend(wanted.prompt_ids, root_of(""), 32)).get("v0")
    return 0 if overlap is None else overlap.blocks
