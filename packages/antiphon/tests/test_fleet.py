"""The fleet in simulated time: placing, failing over, timing out, draining, coming back; and nothing is left in flight."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from random import Random
from typing import Any

import msgspec
import pytest
from packages.antiphon.tests.fleet_world import STOP, World, said

from antiphon.engines.base import Chunk, Job
from antiphon.engines.mock_faults import Fault
from antiphon.fleet.fleet import FleetOptions
from antiphon.fleet.members import MemberOptions
from antiphon.fleet.migration import MigrationLimits
from antiphon.router.router import RouterOptions
from antiphon.workers.breaker import BreakerOptions
from antiphon_turns import RoutingWish
from antiphon_turns.errors import (
    Overloaded,
    StreamInterrupted,
    WorkerRefusal,
    WorkerTimeout,
)

QUICK = FleetOptions(first_token_seconds=30, token_seconds=2)


# -- ordinary days ---------------------------------------------------------------------------------------------------


def test_chunks_come_through_and_name_the_worker() -> None:
    world = World()

    async def work() -> None:
        job = world.job(tokens=5)
        chunks = await world.chunks(job)
        assert [chunk.worker for chunk in chunks] == ["a", None, None, None, None]
        assert [token for chunk in chunks for token in chunk.ids] == said(job.prompt_ids, 1, 5)
        assert chunks[-1].finish == "length" and chunks[0].cached_tokens == 0 and chunks[0].queue_seconds == 0
        assert (await world.chunks(world.job(tokens=1)))[0].worker == "b"

    world.run(work)
    assert world.metric("antiphon_routing_decisions_total") == 2
    assert [worker.closed for worker in world.workers.values()] == [1, 1]


def test_a_session_stays_where_its_prefix_is() -> None:
    world = World(4)

    async def work() -> set[str | None]:
        prompt, found = list(range(640)), set()
        for _ in range(10):
            other = asyncio.create_task(world.chunks(world.job(tokens=3)))
            found.add((await world.chunks(world.job(prompt=prompt, session="s", tokens=2)))[0].worker)
            prompt += range(len(prompt), len(prompt) + 64)
            await other
        return found

    assert len(world.run(work)) == 1


def test_waiting_counts_as_queue_time() -> None:
    world = World(1, router=RouterOptions(queue_threshold=0.0))

    async def work() -> None:
        first, second = await asyncio.gather(world.chunks(world.job(tokens=3)), world.chunks(world.job(tokens=3)))
        assert first[0].queue_seconds == 0 and second[0].queue_seconds == pytest.approx(0.11)

    world.run(work)


def test_waiting_counts_where_the_engine_tells_of_its_queue_before_it_samples() -> None:
    world = World(1, router=RouterOptions(queue_threshold=0.0))
    sample = world.workers["a"]._sample

    async def early(job: Job, slowness: float) -> AsyncGenerator[Chunk, None]:
        yield Chunk([], None, 0, None, 0.5)
        async with aclosing(sample(job, slowness)) as chunks:
            async for chunk in chunks:
                yield Chunk(chunk.ids, chunk.finish)

    async def work() -> None:
        world.workers["a"]._sample = early  # type: ignore[method-assign]
        first, second = await asyncio.gather(world.chunks(world.job(tokens=3)), world.chunks(world.job(tokens=3)))
        told = [[chunk.queue_seconds for chunk in chunks if chunk.queue_seconds is not None] for chunks in (first, second)]
        assert told == [[0.5], [pytest.approx(0.61)]]

    world.run(work)


def test_a_full_queue_is_told_at_once() -> None:
    world = World(1, router=RouterOptions(queue_threshold=0.0, queue_limit=2))

    async def work() -> list[Any]:
        return await asyncio.gather(*(world.played(world.job(tokens=3)) for _ in range(5)), return_exceptions=True)

    found = world.run(work)
    assert sum(isinstance(one, Overloaded) and one.retry_after > 0 for one in found) == 2
    assert sum(isinstance(one, list) for one in found) == 3
    assert world.metric("antiphon_routing_refusals_total", reason="full") == 2


def test_what_only_fills_a_cache_gives_way() -> None:
    world = World(1, router=RouterOptions(queue_threshold=0.0))

    async def work() -> None:
        running = asyncio.create_task(world.chunks(world.job(tokens=3)))
        await world.clock.sleep(0.01)
        with pytest.raises(Overloaded):
            await world.chunks(world.job(prefill_only=True))
        await running
        world.workers["a"].faults = [Fault("cut-after", 0)]
        with pytest.raises(StreamInterrupted):
            await world.chunks(world.job(prefill_only=True))

    world.run(work)
    assert world.metric("antiphon_migrations_total") == 0


def test_a_client_that_leaves_frees_worker_and_queue() -> None:
    world = World(1, router=RouterOptions(queue_threshold=0.0))

    async def work() -> None:
        running = asyncio.create_task(world.chunks(world.job(tokens=500)))
        await world.clock.sleep(0.05)
        waiting = asyncio.create_task(world.chunks(world.job(tokens=500)))
        await world.clock.sleep(0.01)
        assert world.router.queued == 1
        waiting.cancel()
        await world.clock.sleep(0.01)
        assert world.router.queued == 0
        await world.clock.sleep(0.5)
        running.cancel()
        async with aclosing(world.fleet.generate(world.job(tokens=500))) as chunks:
            assert (await anext(chunks)).worker == "a"

    world.run(work)


def test_ranks_are_told_to_the_worker() -> None:
    world = World(1, card={"ranks": 2})

    async def work() -> None:
        await asyncio.gather(world.chunks(world.job()), world.chunks(world.job()))

    world.run(work)
    assert sorted(str(job.placement.wish.rank) for job in world.workers["a"].jobs) == ["0", "1"]


# -- failing over ----------------------------------------------------------------------------------------------------

FAULTS = [Fault("crash-after", 7), Fault("hang-after", 7), Fault("cut-after", 7), Fault("wrong-ids"), Fault("slow", 300.0)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_whatever_a_worker_does_the_answer_is_whole(fault: Fault) -> None:
    world = World(2, options=QUICK)
    world.workers["a"].faults = [fault]

    async def work() -> None:
        job = world.job(tokens=40)
        chunks = await world.chunks(job)
        assert [token for chunk in chunks for token in chunk.ids] == said(job.prompt_ids, 1, 40)
        assert [chunk.worker for chunk in chunks if chunk.worker is not None][-1] == "b"
        assert chunks[-1].finish == "length"

    world.run(work)
    assert world.metric("antiphon_migrations_total") == 1


def test_two_hundred_streams_lose_nothing() -> None:
    world = World(4, options=FleetOptions(first_token_seconds=30, token_seconds=2, migration=MigrationLimits(moves=8)))
    dice = Random(11)
    kinds = ["crash-after", "crash-after", "hang-after", "cut-after"]

    async def fail() -> None:
        """Somebody fails most of the time, and comes back."""
        while True:
            name = dice.choice(world.names)
            worker = world.workers[name]
            if worker.alive:
                worker.faults = [Fault(dice.choice(kinds), float(dice.randrange(30)))]  # type: ignore[arg-type]
            await world.clock.sleep(0.2)
            for one in world.workers.values():
                if not one.alive:
                    one.live()

    async def one(number: int) -> None:
        job = world.job(tokens=30, session=f"s{number % 9}")
        assert await world.played(job) == said(job.prompt_ids, 1, 30)

    async def work() -> None:
        trouble = asyncio.create_task(fail())
        for batch in range(50):
            await asyncio.gather(*(one(4 * batch + number) for number in range(4)))
        trouble.cancel()

    world.run(work, limit=100_000)
    assert world.metric("antiphon_migrations_total", kind="ongoing") > 50


def test_two_hundred_crashes_in_a_row() -> None:
    world = World(2, options=FleetOptions(members=MemberOptions(breaker=BreakerOptions(failures=1000))))

    async def work() -> None:
        for number in range(200):
            busy = world.workers["a" if number % 2 else "b"]
            busy.faults = [Fault("crash-after", float(number % 29 + 1))]
            job = world.job(tokens=30, wish=RoutingWish(worker="a" if number % 2 else "b"))
            assert await world.played(job) == said(job.prompt_ids, 1, 30)
            busy.live()
            while not all(state == "ready" for state in world.states().values()):
                await world.clock.sleep(0.1)

    world.run(work, limit=100_000)
    assert world.metric("antiphon_migrations_total", kind="ongoing") == 200


def test_a_refusal_is_not_asked_again() -> None:
    world = World(2)

    async def refuse(job: Any) -> Any:
        raise WorkerRefusal("this prompt is too long for me")
        yield

    world.workers["a"].generate = refuse  # type: ignore[method-assign]
    world.workers["b"].generate = refuse  # type: ignore[method-assign]

    async def work() -> None:
        with pytest.raises(WorkerRefusal, match="too long"):
            await world.chunks(world.job())

    world.run(work)
    assert world.metric("antiphon_migrations_total") == 0


def test_a_client_of_a_worker_that_breaks_is_contained(caplog: pytest.LogCaptureFixture) -> None:
    world = World(2)

    async def broken(job: Any) -> Any:
        raise RuntimeError("a bug")
        yield

    world.workers["a"].generate = broken  # type: ignore[method-assign]

    async def work() -> None:
        job = world.job()
        assert await world.played(job) == said(job.prompt_ids, 1, 20)

    world.run(work)
    assert "the client failed" in caplog.text


def test_an_end_that_only_lacked_its_finish_is_given() -> None:
    world = World(2)
    world.workers["a"].faults = [Fault("cut-after", 20)]

    async def work() -> None:
        job = world.job(tokens=20)
        chunks = await world.chunks(job)
        assert [token for chunk in chunks for token in chunk.ids] == said(job.prompt_ids, 1, 20)
        assert chunks[-1].finish == "length"
        job = world.job(tokens=50)
        sampled = said(job.prompt_ids, 1, 50)
        world.workers["a"].faults = world.workers["b"].faults = [Fault("cut-after", 9)]
        chunks = await world.chunks(msgspec.structs.replace(job, stop_ids=frozenset({STOP, sampled[8]})))
        assert [token for chunk in chunks for token in chunk.ids] == sampled[:9] and chunks[-1].finish == "stop"
        # Where it could not go on elsewhere it need not either.
        world.workers["a"].faults = world.workers["b"].faults = [Fault("cut-after", 20)]
        assert (await world.chunks(world.job(tokens=20, grammar="start: /a*/")))[-1].finish == "length"

    world.run(work)
    assert world.metric("antiphon_migrations_total") == 0


@pytest.mark.parametrize(
    ("limits", "moved"),
    [
        (MigrationLimits(moves=0), 0),
        (MigrationLimits(moves=1), 1),
        (MigrationLimits(tokens=70), 0),
        (MigrationLimits(tokens=73), 1),
    ],
)
def test_limits_of_moving(limits: MigrationLimits, moved: int) -> None:
    world = World(5, options=FleetOptions(migration=limits))
    for worker in world.workers.values():
        worker.faults = [Fault("cut-after", 9)]

    async def work() -> None:
        with pytest.raises(StreamInterrupted):
            await world.chunks(world.job(tokens=400, wish=RoutingWish(worker="b")))

    world.run(work)
    assert world.metric("antiphon_migrations_total") == moved


def test_output_under_a_grammar_does_not_move_once_it_has_begun() -> None:
    world = World(2)
    world.workers["a"].faults = [Fault("cut-after", 3), Fault("cut-after", 0)]

    async def work() -> None:
        with pytest.raises(StreamInterrupted):
            await world.chunks(world.job(grammar="start: A"))
        job = world.job(grammar="start: A", wish=RoutingWish(worker="a"))
        assert await world.played(job) == said(job.prompt_ids, 1, 20)

    world.run(work)
    assert world.metric("antiphon_migrations_total", kind="new") == 1


# -- silence ---------------------------------------------------------------------------------------------------------


def test_a_long_prefill_is_no_silence() -> None:
    world = World(1, options=FleetOptions(first_token_seconds=100, token_seconds=2))
    world.workers["a"].prefill_seconds = 90.0

    async def work() -> None:
        assert len(await world.played(world.job())) == 20

    world.run(work)
    assert world.metric("antiphon_migrations_total") == 0


def test_a_hanging_only_worker_ends_in_a_time_out() -> None:
    world = World(1, options=FleetOptions(token_seconds=2, migration=MigrationLimits(moves=0)))
    world.workers["a"].faults = [Fault("hang-after", 5)]

    async def work() -> float:
        with pytest.raises(WorkerTimeout, match="said nothing"):
            await world.chunks(world.job())
        return world.clock.now()

    assert 2 <= world.run(work) <= 3.5


def test_a_silent_worker_that_answers_no_probe_is_given_up_sooner() -> None:
    world = World(2)
    world.workers["a"].faults = [Fault("hang-after", 5)]

    async def power_off() -> None:
        await world.clock.sleep(0.5)
        world.workers["a"].alive = False

    async def work() -> float:
        job = world.job(wish=RoutingWish(worker="a"))
        off = asyncio.create_task(power_off())
        assert await world.played(job) == said(job.prompt_ids, 1, 20)
        await off
        return world.clock.now()

    assert 10 < world.run(work) < 20


def test_a_cancelled_client_is_no_silent_worker() -> None:
    world = World(1, options=QUICK)
    world.workers["a"].faults = [Fault("hang-after", 5)]

    async def work() -> None:
        running = asyncio.create_task(world.chunks(world.job()))
        await world.clock.sleep(1)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()

    world.run(work)
    assert world.metric("antiphon_migrations_total") == 0
