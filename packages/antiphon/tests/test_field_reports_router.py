"""Field reports about routing. Numbers: `cases/field_reports.jsonl`."""

import asyncio
from collections import Counter
from contextlib import aclosing
from typing import Any

import pytest
from packages.antiphon.tests import test_router_api
from packages.antiphon.tests.fleet_world import World
from packages.antiphon.tests.kv_world import card_of

from antiphon.engines.base import Chunk
from antiphon.engines.mock_faults import Fault
from antiphon.fleet.fleet import FleetOptions
from antiphon.fleet.migration import MigrationLimits
from antiphon.metrics.fleet_metrics import EventGauges
from antiphon.router.kv_source import KvIndex
from antiphon_turns.errors import WorkerError


def test_111_a_silent_publisher_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> list[Any]:
        index = KvIndex()
        index.follow("quiet-one", card_of())
        index.routed("quiet-one", [1, 2, 3])
        try:
            return [sample for family in EventGauges(index.states, index.listener).collect() for sample in family.samples]
        finally:
            await index.close()

    samples = asyncio.run(work())
    missing = [sample for sample in samples if sample.name == "antiphon_kv_event_source_missing"]
    assert [(sample.labels["worker"], sample.value) for sample in missing] == [("quiet-one", 1)]
    assert "quiet-one" in caplog.text and "publishes no KV events" in caplog.text


def test_113_prompts_to_compute_spread_over_idle_workers() -> None:
    world = World(4)

    async def work() -> Counter[str | None]:
        jobs = [world.job(prompt=range(50_000 * n, 50_000 * n + 32_000), tokens=1) for n in range(40)]
        return Counter((chunks[0].worker) for chunks in await asyncio.gather(*map(world.chunks, jobs)))

    shares = world.run(work)
    assert sum(shares.values()) == 40 and max(shares.values()) <= 0.4 * 40


def test_115_a_session_stays_on_one_worker() -> None:
    """How clients name their session is in test_field_reports_hints."""
    world = World(2)

    async def work() -> set[str | None]:
        prompt, workers = list(range(512)), set()
        for turn in range(10):
            others = [asyncio.create_task(world.chunks(world.job(session=f"o{turn}{n}", tokens=4))) for n in range(3)]
            workers.add((await world.chunks(world.job(prompt=prompt, session="s-1", tokens=3)))[0].worker)
            prompt += range(9000 + 100 * turn, 9000 + 100 * turn + 80)
            await asyncio.gather(*others)
        return workers

    assert len(world.run(work)) == 1


def test_117_large_ids_come_back_as_they_were() -> None:
    async def work(api: test_router_api.Api) -> None:
        answer = await api.told("POST", "/workers", worker_id=9007199254740993)
        assert answer["worker_id"] == "9007199254740993"
        assert (await api.told("GET", "/loads"))["loads"][0]["worker"] == "9007199254740993"
        found = await api.told("POST", "/select", token_ids=[1], worker_id=9007199254740993)
        assert found["worker_id"] == "9007199254740993"
        await api.told("POST", "/workers", worker_id="9007199254740993", ranks=2)
        assert len((await api.told("GET", "/workers"))["workers"]) == 1

    test_router_api.run(work)


@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_122_nothing_stays_in_flight_in_the_router(how: str) -> None:
    world = World(2, options=FleetOptions(migration=MigrationLimits(moves=0)))

    async def one() -> list[Chunk]:
        async with aclosing(world.fleet.generate(world.job(tokens=50))) as chunks:
            return [chunk async for chunk in chunks]

    async def work() -> None:
        if how == "failed":
            for worker in world.workers.values():
                worker.faults = [Fault("cut-after", 3)] * 5
        running = [asyncio.create_task(one()) for _ in range(5)]
        await world.clock.sleep(0.2)
        if how == "cancelled":
            for task in running:
                task.cancel()
        ends = await asyncio.gather(*running, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError if how == "cancelled" else WorkerError) for end in ends)
        await world.clock.sleep(0.1)
        assert world.router.in_flight == 0
        assert all(load.active == load.prefill_tokens == load.decode_tokens == 0 for load in world.router.loads())

    world.run(work)
