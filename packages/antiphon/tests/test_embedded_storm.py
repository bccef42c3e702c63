"""The embedded engine over a stand-in for llama.cpp: whatever comes, and whoever leaves in the middle, nobody hangs and no block is
claimed that is not there."""

import asyncio
import random
from array import array
from typing import Any

import pytest
from packages.antiphon.tests.fake_llama import FakeLlama

from antiphon.engines.base import Chunk, Job, Placement
from antiphon.engines.embedded import EmbeddedEngine, EmbeddedOptions
from antiphon.router.hashing import extend, root_of
from antiphon.simulation.cache_events import Cleared, Removed, Stored
from antiphon_turns import Sampling
from antiphon_turns.errors import WorkerError, WorkerUnavailable

BLOCK = 16


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> EmbeddedOptions:
    monkeypatch.setattr("antiphon.engines.embedded.LlamaServer", FakeLlama)
    return EmbeddedOptions(slots=3, block_tokens=BLOCK, kv_events=True)


def new_engine(options: EmbeddedOptions) -> EmbeddedEngine:
    return EmbeddedEngine("no-model.gguf", context_length=4096, options=options)


def job(ids: list[int], max_tokens: int = 3, **fields: Any) -> Job:
    return Job(request_id="r", prompt_ids=ids, max_tokens=max_tokens, sampling=Sampling(), stop_ids=frozenset(), **fields)


async def collect(engine: EmbeddedEngine, wanted: Job) -> list[Chunk]:
    return [chunk async for chunk in engine.generate(wanted)]


def random_job(rng: random.Random) -> Job:
    system = [1000 + at for at in range(rng.choice((0, 300, 700)))]
    session = rng.randrange(5)
    own = [2000 + 100 * session + at % 90 for at in range(rng.randrange(1, 500))]
    return job(
        system + own,
        rng.randrange(1, 12),
        priority=rng.randrange(-2, 3),
        prefill_only=rng.random() < 0.2,
        retain_seconds=rng.choice((0.0, 60.0)),
        cache_salt=rng.choice(("", "", "salt")),
        placement=Placement(session=f"{session}", session_ends=rng.random() < 0.2),
    )


class Claims:
    """The blocks that the events say are held."""

    def __init__(self) -> None:
        self.held: dict[int, str] = {}

    def read(self, engine: EmbeddedEngine) -> None:
        for event in engine.cache.take_events():
            if isinstance(event, Stored):
                self.held.update(dict.fromkeys(event.hashes, event.salt))
            elif isinstance(event, Removed):
                for block_hash in event.hashes:
                    del self.held[block_hash]
            else:
                assert isinstance(event, Cleared)
                self.held.clear()


def really_held() -> set[int]:
    """What the slots have, under either salt: the stand-in knows none."""
    slots = [array("I", tokens) for tokens in FakeLlama.latest.slots]
    return {one for tokens in slots for salt in ("", "salt") for one in extend(tokens, root_of(salt), BLOCK)}


async def storm(engine: EmbeddedEngine, rng: random.Random, count: int) -> None:
    """Jobs at random times, a third of which are cancelled at random times. Raises TimeoutError when one hangs."""
    tasks: list[tuple[Job, asyncio.Task[list[Chunk]]]] = []
    for _ in range(count):
        wanted = random_job(rng)
        tasks.append((wanted, asyncio.create_task(collect(engine, wanted))))
        for _ in range(rng.randrange(40)):
            await asyncio.sleep(0)
        if rng.random() < 0.35:
            rng.choice(tasks)[1].cancel()
    async with asyncio.timeout(30):
        results = await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)
    for (wanted, _), chunks in zip(tasks, results, strict=True):
        if isinstance(chunks, asyncio.CancelledError):
            continue
        assert isinstance(chunks, list), chunks
        assert [chunk.finish for chunk in chunks if chunk.finish] == ["length"]
        assert sum(len(chunk.ids) for chunk in chunks) == (0 if wanted.prefill_only else wanted.max_tokens)
        assert len([chunk for chunk in chunks if chunk.cached_tokens is not None]) <= 1
        assert chunks[0].queue_seconds is not None or wanted.prefill_only


@pytest.mark.parametrize("seed", range(25))
def test_nobody_hangs_and_no_block_is_claimed_that_is_not_there(options: EmbeddedOptions, seed: int) -> None:
    async def run() -> None:
        engine = new_engine(options)
        await engine.start()
        claims, rng = Claims(), random.Random(seed)
        for _ in range(3):
            await storm(engine, rng, 12)
            claims.read(engine)
            assert claims.held.keys() <= really_held()
        told = [chunk.cached_tokens for chunk in await collect(engine, job([7] * 700)) if chunk.cached_tokens is not None]
        again = [chunk.cached_tokens for chunk in await collect(engine, job([7] * 700)) if chunk.cached_tokens is not None]
        assert (told, again) == ([0], [699])
        await engine.close()
        claims.read(engine)
        assert not claims.held

    asyncio.run(run())


def test_an_engine_that_closed_in_the_middle_starts_anew(options: EmbeddedOptions) -> None:
    async def run() -> None:
        engine = new_engine(options)
        await engine.start()
        tasks = [asyncio.create_task(collect(engine, job([number] * 900, 50))) for number in range(6)]
        for _ in range(20):
            await asyncio.sleep(0)
        await engine.close()
        FakeLlama.latest.slots[:] = [[] for _ in range(options.slots)]
        await engine.start()
        after = await collect(engine, job([9] * 400))
        assert sum(len(chunk.ids) for chunk in after) == 3
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert any(isinstance(result, WorkerUnavailable) for result in results)
        assert all(isinstance(result, WorkerError | asyncio.CancelledError | list) for result in results)
        assert sum(len(chunk.ids) for chunk in await collect(engine, job([9] * 400))) == 3

    asyncio.run(run())


def test_a_consumer_that_stalls_holds_nobody_up(options: EmbeddedOptions) -> None:
    async def run() -> None:
        engine = new_engine(options)
        await engine.start()
        stalled = engine.generate(job([1] * 2000))
        assert (await anext(stalled)).cached_tokens == 0
        async with asyncio.timeout(30):
            for number in range(2, 6):
                await collect(engine, job([number] * 600))
        rest = [chunk async for chunk in stalled]
        assert rest[-1].finish == "length"

    asyncio.run(run())


def test_jobs_side_by_side_compute_their_shared_beginning_once(options: EmbeddedOptions) -> None:
    async def run() -> list[int | None]:
        engine = new_engine(options)
        await engine.start()
        beginning = list(range(1000, 3000))
        jobs = [job(beginning + [number] * 50, 60) for number in range(3)]
        results = await asyncio.gather(*(collect(engine, wanted) for wanted in jobs))
        return [next(chunk.cached_tokens for chunk in chunks if chunk.cached_tokens is not None) for chunks in results]

    first, *others = asyncio.run(run())
    assert first == 0
    # Of the first one's last slice less than a batch is left to the request that samples.
    assert all(told is not None and told >= 2000 - EmbeddedOptions().batch for told in others)
    assert FakeLlama.latest.copies == 2
