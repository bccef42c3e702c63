"""What a frontend tells of its KV index: metrics, and the snapshot for a sibling."""

import asyncio
import socket

import aiohttp
import uvicorn
from packages.antiphon.tests.kv_world import Worker, card_of, held_by, ids, in_step, index_of
from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.kv_snapshot_route import PATH, KvSnapshotRoute, snapshot_of
from antiphon.metrics.fleet_metrics import EventGauges
from antiphon.router.kv_source import KvIndex
from antiphon_turns.errors import AntiphonError


def refuse(request: Request, error: AntiphonError) -> Response:
    return Response(error.message, status_code=504)


class Stuck(KvIndex):
    async def snapshot(self) -> bytes:
        raise TimeoutError


async def served(index: KvIndex, listener: socket.socket) -> uvicorn.Server:
    app = Starlette(routes=[Route(PATH, KvSnapshotRoute(index.snapshot, refuse).snapshot)])
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
    server.task = asyncio.create_task(server.serve(sockets=[listener]))  # type: ignore[attr-defined]
    return server


def test_a_sibling_begins_with_what_another_frontend_knows() -> None:
    async def run() -> None:
        with socket.socket() as listener, socket.socket() as closed:
            for one in (listener, closed):
                one.bind(("127.0.0.1", 0))
            listener.listen()
            here, nobody = (f"http://127.0.0.1:{one.getsockname()[1]}" for one in (listener, closed))
            worker = Worker(ring_messages=1)
            siblings = [nobody, f"{here}/"]
            async with index_of() as index, index_of(sibling=lambda: snapshot_of(siblings, key="k")) as sibling:
                index.follow("w", card_of(worker.publisher.feed()))
                for start in range(3):
                    worker.fill(ids(40, start=100 * start))
                    await in_step(index, worker)
                server = await served(index, listener)
                sibling.follow("w", card_of(worker.publisher.feed()))
                await in_step(sibling, worker)
                assert sibling.held("w") == held_by(worker)
                server.should_exit = True
                await server.task  # type: ignore[attr-defined]
            assert await snapshot_of([nobody]) is None
            worker.close()

    asyncio.run(run())


def test_a_listener_that_does_not_answer_is_an_error_of_the_snapshot_only() -> None:
    async def run() -> tuple[int, bytes | None]:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            server = await served(Stuck(), listener)
            async with aiohttp.ClientSession() as session, session.get(url + PATH) as answer:
                status = answer.status
            found = await snapshot_of([url])
            server.should_exit = True
            await server.task  # type: ignore[attr-defined]
            return status, found

    assert asyncio.run(run()) == (504, None)


def test_111_metrics_name_the_workers_without_events() -> None:
    async def run() -> str:
        worker = Worker()
        worker.fill(ids(40))
        async with index_of() as index:
            index.follow("dumb", card_of())
            index.follow("w", card_of(worker.publisher.feed()))
            await in_step(index, worker)
            registry = CollectorRegistry()
            registry.register(EventGauges(index.states, index.listener))
            text = generate_latest(registry).decode()
        worker.close()
        return text

    lines = asyncio.run(run()).splitlines()
    assert {
        'antiphon_kv_event_source_missing{target="dumb",worker="dumb"} 1.0',
        'antiphon_kv_event_source_missing{target="w",worker="w"} 0.0',
        'antiphon_kv_event_state{state="fresh",target="w",worker="w"} 1.0',
        'antiphon_kv_blocks{target="w",worker="w"} 10.0',
        'antiphon_kv_event_messages_total{target="w",worker="w"} 1.0',
        "antiphon_kv_listener_deaths_total 0.0",
    } <= set(lines)
