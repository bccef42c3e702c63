"""Workers of a fleet that come, go, drain, rest, restart or cannot be used."""

import asyncio

import msgspec
import pytest
from packages.antiphon.tests.fleet_world import World, said

from antiphon.engines.mock_faults import Fault
from antiphon.fleet.fleet import FleetOptions
from antiphon.fleet.members import MemberOptions
from antiphon.router.kv_source import ListenerState, TargetState
from antiphon.workers.breaker import BreakerOptions
from antiphon.workers.card import WorkerCard
from antiphon.workers.directory import WorkerAddress
from antiphon_turns import RoutingWish, Sampling
from antiphon_turns.errors import (
    ConfigError,
    WorkerError,
    WorkerUnavailable,
)


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
    assert world.metric("antiphon_routing_refusals_total", reason="nobody") == 1


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
    assert world.metric("antiphon_migrations_total") == 0


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
        def follow(self, worker: str, card: WorkerCard) -> None:
            told.append((worker, card.incarnation))

        def forget(self, worker: str) -> None:
            told.append((worker, "left"))

        def states(self) -> list[TargetState]:
            return []

        def listener(self) -> ListenerState:
            return ListenerState(0, 0.0)

        async def snapshot(self) -> bytes:
            return b""

        async def close(self) -> None:
            told.append(("", "closed"))

    world = World(1, follower=Follower())

    async def work() -> None:
        await world.chunks(world.job(prompt=range(640)))
        world.workers["a"].live()
        await world.clock.sleep(6)
        await world.chunks(world.job(prompt=range(640)))
        world.directory.set([])
        await world.clock.sleep(1)

    world.run(work)
    assert told == [("a", "1"), ("a", "1+"), ("a", "left"), ("", "closed")]
    assert world.metric("antiphon_routing_decisions_total", reason="load") == 2


def test_nothing_is_placed_on_a_worker_that_is_met_anew() -> None:
    world = World(1)
    worker = world.workers["a"]
    close, seen = worker.close, []

    async def closing() -> None:
        seen.append((world.states()["a"], world.fleet.ready(), [load.available for load in world.router.loads()]))
        await world.clock.sleep(0.1)
        await close()

    async def work() -> None:
        worker.close = closing  # type: ignore[method-assign]
        worker.live()
        await world.clock.sleep(6)
        assert seen == [("connecting", False, [False])]
        assert len(await world.played(world.job())) == 20

    world.run(work)


def test_a_new_process_does_not_rest_for_the_failures_of_the_old_one(caplog: pytest.LogCaptureFixture) -> None:
    world = World(2, options=FleetOptions(members=MemberOptions(breaker=BreakerOptions(failures=2, seconds=60))))
    world.workers["a"].faults = [Fault("cut-after", 0)] * 2

    async def work() -> None:
        for _ in range(2):
            await world.chunks(world.job(wish=RoutingWish(worker="a")))
        assert world.states()["a"] == "resting"
        world.workers["a"].die()
        await world.clock.sleep(20)
        caplog.clear()
        world.workers["a"].live()
        await world.clock.sleep(6)
        assert world.states()["a"] == "ready"
        assert [record for record in caplog.records if "unwell" in record.getMessage() or "resting" in record.getMessage()] == []

    with caplog.at_level("INFO"):
        world.run(work)


def test_a_worker_that_comes_late_is_never_called_unwell(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    world.workers["a"].die()

    async def work() -> None:
        await world.clock.sleep(10)
        world.workers["a"].live()
        await world.clock.sleep(6)
        assert world.states() == {"a": "ready"}

    with caplog.at_level("INFO"):
        world.run(work)
    assert "worker a is ready" in caplog.text and "unwell" not in caplog.text


def test_what_fails_on_a_worker_that_has_left_is_not_held_against_its_namesake() -> None:
    world = World(2)
    world.workers["a"].faults = [Fault("crash-after", 0)]

    async def work() -> None:
        world.directory.set([world.addresses["a"]])
        await world.clock.sleep(0.01)
        job = world.job()
        running = asyncio.create_task(world.chunks(job))
        await world.clock.sleep(0.05)
        world.directory.set([WorkerAddress(name="a", url="b")])
        chunks = await running
        assert [token for chunk in chunks for token in chunk.ids] == said(job.prompt_ids, 1, 20)

    world.run(work)


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
