"""Slots, slices and prompts computed ahead on the real default model: short prompts, one thread, one engine with two slots."""

import asyncio
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packages.antiphon.tests.embedded_bench import ENDLESS, Bench, collect, idle, job, output

from antiphon.engines.base import Chunk, Job, Placement
from antiphon.engines.default_model import default_model_path
from antiphon.engines.embedded import EmbeddedEngine, EmbeddedOptions
from antiphon.router.hashing import extend, root_of
from antiphon.simulation.cache_events import Removed, Stored
from antiphon_turns.errors import WorkerRefusal

OPTIONS = EmbeddedOptions(slots=2, slice_tokens=64, kv_events=True)
CONTEXT = 1024


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def bench(files: Path) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(tempfile, "tempdir", str(files))
        engine = EmbeddedEngine(default_model_path(), context_length=CONTEXT, threads=1, options=OPTIONS)
        runner.run(engine.start())
        try:
            yield Bench(runner, engine)
        finally:
            runner.run(engine.close())
            assert not list(files.iterdir())


@pytest.fixture(autouse=True)
def empty(bench: Bench) -> None:
    bench.engine.forget()
    bench.engine.cache.take_events()


def prompt(name: str, tokens: int) -> list[int]:
    """Ids that no other prompt begins with; none of them is a control token."""
    seed = sum(ord(letter) * 31**at for at, letter in enumerate(name)) % 10_007
    return [1000 + (seed + 7919 * at) % 40_000 for at in range(tokens)]


def turn(ids: list[int], session: str, max_tokens: int = 1, **fields: Any) -> Job:
    ends = fields.pop("session_ends", False)
    return job(ids, max_tokens, stop_ids=frozenset(), placement=Placement(session=session, session_ends=ends), **fields)


def cached(chunks: list[Chunk]) -> int:
    (told,) = [chunk.cached_tokens for chunk in chunks if chunk.cached_tokens is not None]
    return told


def finish(chunks: list[Chunk]) -> str | None:
    return chunks[-1].finish


def test_two_sessions_share_a_prefix_and_keep_their_own_turn_after_turn(bench: Bench) -> None:
    history = {name: prompt("shared", 200) + prompt(name, 20) for name in ("a", "b")}
    found: dict[str, list[int]] = {"a": [], "b": []}
    for number in range(3):
        for name, ids in history.items():
            chunks = bench.generate(turn(ids, name, 4))
            found[name].append(cached(chunks) - (200 if number == 0 else len(ids) - 20))
            ids += output(chunks) + prompt(f"{name}{number}", 20)
    # Of what stood in the slot only the last sampled token was not computed yet.
    assert found == {"a": [-200, -1, -1], "b": [0, -1, -1]}


def test_what_follows_a_copy_is_what_follows_a_computed_prompt(bench: Bench) -> None:
    ids = prompt("copied", 150)
    bench.generate(turn([*ids, *prompt("x", 10)], "x"))
    copied = bench.generate(turn([*ids, *prompt("y", 10)], "y", 12))
    alone = bench.generate(turn([*ids, *prompt("y", 10)], "y", 12, cache_salt="alone"))
    assert (cached(copied), cached(alone)) == (150, 0)
    assert output(copied) == output(alone)


def test_a_copy_leaves_no_file_and_nobody_else_may_read_its_folder(bench: Bench, files: Path) -> None:
    ids = prompt("filed", 150)
    for name in ("p", "q"):
        bench.generate(turn([*ids, *prompt(name, 60)], name))
    (folder,) = files.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(folder.iterdir())


def test_a_copy_that_fails_only_costs_time(bench: Bench, files: Path, caplog: pytest.LogCaptureFixture) -> None:
    ids = prompt("uncopied", 150)
    bench.generate(turn([*ids, *prompt("p", 60)], "p"))
    (folder,) = files.iterdir()
    away = folder.rename(files / "away")
    try:
        with caplog.at_level(logging.WARNING):
            chunks = bench.generate(turn([*ids, *prompt("q", 60)], "q"))
    finally:
        away.rename(folder)
    assert (cached(chunks), len(output(chunks))) == (0, 1)
    assert "could not be copied" in caplog.text


def test_prompts_that_arrive_together_compute_their_beginning_once(bench: Bench) -> None:
    async def both() -> list[list[Chunk]]:
        ids = prompt("together", 250)
        jobs = [turn(ids + prompt(name, 20), name, 30) for name in ("one", "two")]
        return await asyncio.gather(*(collect(bench.engine, one) for one in jobs))

    assert [cached(chunks) for chunks in bench.run(both())] == [0, 250]


def test_a_short_prompt_and_an_urgent_one_pass_a_long_one(bench: Bench) -> None:
    order: list[str] = []

    async def run(name: str, wanted: Job) -> None:
        async for chunk in bench.engine.generate(wanted):
            if chunk.ids:
                order.append(name)

    async def beside() -> None:
        async with asyncio.TaskGroup() as group:
            chunks = bench.engine.generate(turn(prompt("long", 400), "long"))
            assert (await anext(chunks)).cached_tokens == 0  # its first slice is done
            group.create_task(run("short", turn(prompt("short", 30), "short")))
            group.create_task(run("urgent", turn(prompt("urgent", 100), "urgent", priority=2)))
            async for chunk in chunks:
                if chunk.ids:
                    order.append("long")

    bench.run(beside())
    assert order == ["urgent", "short", "long"]


def test_waiting_is_told_and_a_job_that_waits_can_be_cancelled(bench: Bench) -> None:
    async def run() -> list[Chunk]:
        endless = [bench.engine.generate(job(prompt(name, 10), 900, grammar=ENDLESS)) for name in ("e1", "e2")]
        for chunks in endless:
            async for chunk in chunks:
                if chunk.ids:
                    break
        gone = asyncio.create_task(collect(bench.engine, turn(prompt("gone", 20), "gone")))
        waits = asyncio.create_task(collect(bench.engine, turn(prompt("waits", 20), "waits")))
        await asyncio.sleep(0)
        gone.cancel()
        await endless[0].aclose()
        found = await waits
        await endless[1].aclose()
        assert gone.cancelled()
        await idle(bench.engine, within=10.0)
        return found

    found = bench.run(run())
    assert found[0].queue_seconds is not None and found[0].queue_seconds > 0
    assert [chunk.queue_seconds for chunk in found[1:]] == [None] * (len(found) - 1)


def test_cancelling_within_a_slice_frees_the_engine_and_keeps_what_was_computed(bench: Bench) -> None:
    ids = prompt("cancelled", 400)

    async def cancel() -> None:
        chunks = bench.engine.generate(turn(ids, "c"))
        assert (await anext(chunks)).cached_tokens == 0
        task = asyncio.create_task(collect(bench.engine, turn(prompt("other", 20), "o")))
        rest = asyncio.ensure_future(anext(chunks))
        blocks = 0
        async with asyncio.timeout(30):
            while blocks < 5 or not await bench.engine.busy():
                await bench.engine.busy()
                blocks += sum(len(event.hashes) for event in bench.engine.cache.take_events() if isinstance(event, Stored))
        rest.cancel()
        assert output(await task)
        await idle(bench.engine, within=10.0)

    bench.run(cancel())
    assert 64 <= cached(bench.generate(turn(ids, "c"))) < 400 - 64


def test_a_prompt_computed_ahead_is_there_for_the_turn(bench: Bench) -> None:
    ids = prompt("ahead", 150)
    chunks = bench.generate(turn(ids, "ahead", prefill_only=True))
    assert (output(chunks), finish(chunks), cached(chunks)) == ([], "length", 0)
    assert cached(bench.generate(turn([*ids, *prompt("tail", 10)], "ahead"))) == 150


def test_what_is_computed_ahead_gives_way_at_once(bench: Bench) -> None:
    ids = prompt("dropped", 400)

    async def run() -> tuple[list[Chunk], list[Chunk]]:
        ahead = asyncio.create_task(collect(bench.engine, turn(ids, "dropped", prefill_only=True)))
        async with asyncio.timeout(30):
            while not await bench.engine.busy():
                pass
        real = await collect(bench.engine, turn(prompt("real", 20), "real", 2))
        assert ahead.done()
        return await ahead, real

    ahead, real = bench.run(run())
    assert (output(ahead), finish(ahead)) == ([], "length")
    assert len(output(real)) == 2
    assert cached(bench.generate(turn(ids[:300], "dropped"))) < 290


def test_nothing_is_computed_ahead_beside_a_turn(bench: Bench) -> None:
    async def run() -> list[Chunk]:
        chunks = bench.engine.generate(job(prompt("beside", 10), 900, grammar=ENDLESS))
        await anext(chunks)
        ahead = await collect(bench.engine, turn(prompt("idle", 100), "idle", prefill_only=True))
        await chunks.aclose()
        return ahead

    assert bench.run(run()) == [Chunk([], "length", None, None, 0.0)]
    assert cached(bench.generate(turn(prompt("idle", 100), "idle"))) == 0


def test_a_salt_keeps_prefixes_apart(bench: Bench) -> None:
    ids = prompt("salted", 40)
    found = [cached(bench.generate(turn(ids, "s", cache_salt=salt))) for salt in ("one", "two", "one", "two", "", "three")]
    assert found == [0, 0, 39, 39, 0, 0]


def test_a_retained_prompt_outlives_others_until_its_session_ends(bench: Bench) -> None:
    kept = prompt("kept", 80)

    def pass_by(count: int) -> None:
        for number in range(count):
            bench.generate(turn(prompt(f"passing {count} {number}", 40), f"{number}"))

    bench.generate(turn(kept, "kept", retain_seconds=600.0))
    pass_by(3)
    assert cached(bench.generate(turn(kept, "kept", session_ends=True))) == 79
    pass_by(4)
    assert cached(bench.generate(turn(kept, "kept"))) == 0


def test_the_events_tell_what_is_cached(bench: Bench) -> None:
    ids = prompt("told", 90)
    chunks = bench.generate(turn(ids, "told", 20))
    events = bench.engine.cache.take_events()
    stored = [event for event in events if isinstance(event, Stored)]
    hashes = [block_hash for event in stored for block_hash in event.hashes]
    assert hashes == extend([*ids, *output(chunks)[:-1]], root_of(""), 16)
    assert [token for event in stored for token in event.token_ids] == [*ids, *output(chunks)][: len(hashes) * 16]
    for name in ("over", "written"):
        bench.generate(turn(prompt(name, 120), name))
    removed = {h for event in bench.engine.cache.take_events() if isinstance(event, Removed) for h in event.hashes}
    assert set(hashes) <= removed
    assert bench.engine.cache.total_blocks == 2 * CONTEXT // 16


def test_a_prompt_beyond_the_context_is_refused_before_anything_is_computed(bench: Bench) -> None:
    with pytest.raises(WorkerRefusal, match=f"1500 tokens.*{CONTEXT}"):
        bench.generate(turn(prompt("beyond", 1500), "beyond"))
