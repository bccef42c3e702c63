"""The fleet in simulated time: placing, failing over, timing out, draining, coming back; and nothing is left in flight."""

import asyncio
from contextlib import aclosing
from random import Random
from typing import Any

import msgspec
import pytest
from packages.antiphon.tests.fleet_world import STOP, World, said

from antiphon.engines.mock_faults import Fault
from antiphon.fleet.fleet import FleetOptions
from antiphon.fleet.members import MemberOptions
from antiphon.fleet.migration import MigrationLimits
from antiphon.router.router import RouterOptions
from antiphon.workers.breaker import BreakerOptions
from antiphon.workers.card import WorkerCard
from antiphon_turns import RoutingWish, Sampling
from antiphon_turns.errors import (
    ConfigError,
    Overloaded,
    StreamInterrupted,
    WorkerError,
    WorkerRefusal,
    WorkerTimeout,
    WorkerUnavailable,
)

QUICK = FleetOptions(first_token_seconds=30, token_seconds=2)


def metric(world: World, name: str, **labels: str) -> float:
    return sum(
        sample.value
        for family in world.metrics.collect()
        for sample in family.samples
        if sample.name == name and all(sample.labels[label] == value for label, value in labels.items())
    )


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
    assert metric(world, "antiphon_routing_decisions_total") == 2
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


def test_a_full_queue_is_told_at_once() -> None:
    world = World(1, router=RouterOptions(queue_threshold=0.0, queue_limit=2))

    async def work() -> list[Any]:
        return await asyncio.gather(*(world.played(world.job(tokens=3)) for _ in range(5)), return_exceptions=True)

    found = world.run(work)
    assert sum(isinstance(one, Overloaded) and one.retry_after > 0 for one in found) == 2
    assert sum(isinstance(one, list) for one in found) == 3
    assert metric(world, "antiphon_routing_refusals_total", reason="full") == 2


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
    assert metric(world, "antiphon_migrations_total") == 1


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
    assert metric(world, "antiphon_migrations_total", kind="ongoing") > 50


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
    assert metric(world, "antiphon_migrations_total", kind="ongoing") == 200


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
    assert metric(world, "antiphon_migrations_total") == 0


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

    world.run(work)


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
    assert metric(world, "antiphon_migrations_total") == moved


def test_output_under_a_grammar_does_not_move_once_it_has_begun() -> None:
    world = World(2)
    world.workers["a"].faults = [Fault("cut-after", 3), Fault("cut-after", 0)]

    async def work() -> None:
        with pytest.raises(StreamInterrupted):
            await world.chunks(world.job(grammar="start: A"))
        job = world.job(grammar="start: A", wish=RoutingWish(worker="a"))
        assert await world.played(job) == said(job.prompt_ids, 1, 20)

    world.run(work)
    assert metric(world, "antiphon_migrations_total", kind="new") == 1


# -- silence ---------------------------------------------------------------------------------------------------------


def test_a_long_prefill_is_no_silence() -> None:
    world = World(1, options=FleetOptions(first_token_seconds=100, token_seconds=2))
    world.workers["a"].prefill_seconds = 90.0

    async def work() -> None:
        assert len(await world.played(world.job())) == 20

    world.run(work)
    assert metric(world, "antiphon_migrations_total") == 0


def test_a_hanging_only_worker_ends_in_a_time_out() -> None:
    world = World(1, options=FleetOptions(token_seconds=2, migration=MigrationLimits(moves=0)))
    world.workers["a"].faults = [Fault("hang-after", 5)]

    async def work() -> float:
        with pytest.raises(WorkerTimeout, match="said nothing"):
            await world.chunks(world.job())
        return world.clock.now()

    assert 2 <= world.run(work) <= 3.5


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
    assert metric(world, "antiphon_migrations_total") == 0


# -- coming and going ------------------------------------------------------------------------------------------------


def test_all_gone_is_told_and_one_that_returns_serves() -> None:
    world = World(2)

    async def work() -> None:
        for worker in world.workers.values():
            worker.die()
        await world.clock.sleep(11)
        assert not world.fleet.ready() and set(world.states().values()) == {"unwell"}
        with pytest.raises(WorkerUnavailable, match="come back"):
            await world.chunks(world.job())
        world.workers["b"].live()
        await world.clock.sleep(11)
        assert world.fleet.ready()
        assert (await world.chunks(world.job()))[0].worker == "b"

    world.run(work)
    assert metric(world, "antiphon_routing_refusals_total", reason="nobody") == 1


def test_an_answer_that_has_begun_waits_for_its_worker_to_return() -> None:
    world = World(1)
    worker = world.workers["a"]
    worker.faults = [Fault("crash-after", 8)]

    async def restart() -> None:
        while worker.alive:
            await world.clock.sleep(0.01)
        await world.clock.sleep(3)
        worker.live()

    async def work() -> None:
        job = world.job(tokens=30)
        back = asyncio.create_task(restart())
        assert await world.played(job) == said(job.prompt_ids, 1, 30)
        await back

    world.run(work)


def test_an_answer_that_has_begun_does_not_wait_for_ever() -> None:
    world = World(1, options=FleetOptions(return_seconds=5))
    world.workers["a"].faults = [Fault("crash-after", 8)]

    async def work() -> float:
        with pytest.raises(WorkerError):
            await world.chunks(world.job())
        return world.clock.now()

    assert 5 <= world.run(work) <= 7


def test_a_draining_worker_gets_nothing_new_and_finishes() -> None:
    world = World(2)

    async def work() -> None:
        job = world.job(tokens=100, wish=RoutingWish(worker="a"))
        running = asyncio.create_task(world.played(job))
        await world.clock.sleep(0.3)
        draining = msgspec.structs.replace(world.addresses["a"], draining=True)
        world.directory.set([draining, world.addresses["b"]])
        await world.clock.sleep(0.01)
        assert world.states() == {"a": "draining", "b": "ready"}
        assert {(await world.chunks(world.job()))[0].worker for _ in range(4)} == {"b"}
        assert await running == said(job.prompt_ids, 1, 100)
        world.directory.set([world.addresses["b"]])
        await world.clock.sleep(1)
        assert world.states() == {"b": "ready"} and world.workers["a"].closed == 1

    world.run(work)
    assert metric(world, "antiphon_migrations_total") == 0


def test_a_worker_that_leaves_the_directory_may_finish() -> None:
    world = World(2)

    async def work() -> None:
        job = world.job(tokens=100, wish=RoutingWish(worker="a"))
        running = asyncio.create_task(world.played(job))
        await world.clock.sleep(0.3)
        world.directory.set([world.addresses["b"]])
        await world.clock.sleep(0.1)
        assert world.workers["a"].closed == 0
        assert await running == said(job.prompt_ids, 1, 100)
        await world.clock.sleep(1)
        assert world.workers["a"].closed == 1

    world.run(work)


def test_a_worker_that_fails_job_after_job_rests() -> None:
    breaker = BreakerOptions(failures=2, seconds=10)
    world = World(2, options=FleetOptions(members=MemberOptions(breaker=breaker)))
    world.workers["a"].faults = [Fault("cut-after", 0)] * 3

    async def work() -> None:
        for _ in range(2):
            await world.chunks(world.job(wish=RoutingWish(worker="a")))
        assert world.states()["a"] == "resting"
        assert {(await world.chunks(world.job()))[0].worker for _ in range(4)} == {"b"}
        await world.clock.sleep(11)
        assert world.states()["a"] == "ready"
        await world.chunks(world.job(wish=RoutingWish(worker="a")))
        assert world.states()["a"] == "resting"
        await world.clock.sleep(12)
        assert world.states()["a"] == "resting"
        await world.clock.sleep(10)
        assert (await world.chunks(world.job(wish=RoutingWish(worker="a"))))[0].worker == "a"

    world.run(work)


def test_a_restart_is_seen_by_its_card() -> None:
    told: list[tuple[str, str]] = []

    class Follower:
        def joined(self, name: str, card: WorkerCard) -> None:
            told.append((name, card.incarnation))

        def left(self, name: str) -> None:
            told.append((name, "left"))

    world = World(1, follower=Follower())

    async def work() -> None:
        await world.chunks(world.job(prompt=range(640)))
        world.workers["a"].live()
        await world.clock.sleep(6)
        await world.chunks(world.job(prompt=range(640)))
        world.directory.set([])
        await world.clock.sleep(1)

    world.run(work)
    assert told == [("a", "1"), ("a", "1+"), ("a", "left")]
    assert metric(world, "antiphon_routing_decisions_total", reason="load") == 2


def test_a_worker_with_another_model_is_refused_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    world = World(2)
    world.workers["a"].refuses = "its tokenizer gives other ids"

    async def work() -> None:
        assert world.states() == {"a": "refused", "b": "ready"}
        assert "its tokenizer gives other ids" in caplog.text
        assert {(await world.chunks(world.job()))[0].worker for _ in range(4)} == {"b"}
        world.workers["a"].refuses = None
        await world.clock.sleep(6)
        assert world.states() == {"a": "ready", "b": "ready"}

    world.run(work)


def test_a_fleet_without_any_usable_worker_does_not_start() -> None:
    def accept(card: WorkerCard) -> None:
        raise ConfigError("the context of this worker is too short")

    world = World(2, accept=accept)
    with pytest.raises(ConfigError, match="no worker can be used; a: the context"):
        world.run(world.fleet.close)


def test_workers_may_come_later() -> None:
    world = World(1)
    world.workers["a"].die()

    async def work() -> None:
        assert world.states() == {"a": "connecting"} and world.fleet.constrains
        world.workers["a"].live()
        await world.clock.sleep(6)
        assert world.states() == {"a": "ready"}

    world.run(work)


def test_who_cannot_report_probabilities_is_not_asked_for_them() -> None:
    world = World(2, card={"reports_logprobs": False})
    world.workers["b"].card = msgspec.structs.replace(world.workers["b"].card, reports_logprobs=True)

    async def work() -> None:
        assert world.fleet.reports_logprobs
        sampling = Sampling(top_logprobs=2)
        assert {(await world.chunks(world.job(sampling=sampling)))[0].worker for _ in range(4)} == {"b"}

    world.run(work)
