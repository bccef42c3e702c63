"""The router over HTTP: workers registered, prompts placed, reservations counted and ended."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import Response

from antiphon.fleet.reservations import Reservations
from antiphon.fleet.select_route import SelectRoutes
from antiphon.router.ask import Ask, WorkerInfo
from antiphon.router.kv_source import KvIndex
from antiphon.router.router import Router, RouterOptions
from antiphon_protocols.chat.errors import error_response

PROMPT = list(range(640))


class Api:
    """A client of the routes, and the router behind them."""

    def __init__(self, client: httpx.AsyncClient, router: Router) -> None:
        self.client = client
        self.router = router

    async def call(self, method: str, path: str, **body: Any) -> httpx.Response:
        return await self.client.request(method, f"/router{path}", json=body or None)

    async def told(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        answer = await self.call(method, path, **body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def register(self, *names: str | int, **fields: Any) -> None:
        for name in names:
            await self.told("POST", "/workers", worker_id=name, batch_tokens=1000, **fields)

    async def loads(self) -> dict[str, tuple[int, int]]:
        return {one["worker"]: (one["active"], one["prefill_tokens"]) for one in (await self.told("GET", "/loads"))["loads"]}


@asynccontextmanager
async def api(**options: Any) -> AsyncIterator[Api]:
    index, numbers = KvIndex(), count(1)
    clock = asyncio.get_running_loop().time
    router = Router(RouterOptions(**options), clock=clock, random=Random(1), view=index)
    routes = SelectRoutes(router, index, clock=clock, new_id=lambda: f"r{next(numbers)}", body_limit=1 << 20)

    def refuse(request: Any, error: Any) -> Response:
        status, headers, body = error_response(error, "req")
        return Response(body, status_code=status, headers=headers)

    app = Starlette(routes=routes.routes(refuse))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://router") as client:
        try:
            yield Api(client, router)
        finally:
            await routes.close()


def run(work: Callable[[Api], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def whole() -> None:
        async with api(**options) as one:
            await work(one)

    asyncio.run(whole())


def test_select_says_where_and_counts_nothing() -> None:
    async def work(one: Api) -> None:
        await one.register("a", "b")
        for _ in range(3):
            found = await one.told("POST", "/select", token_ids=PROMPT, session="s")
            assert found["reason"] == "load" and found["prompt_tokens"] == 640 and found["cached_tokens"] == 0
        assert await one.loads() == {"a": (0, 0), "b": (0, 0)}

    run(work)


def test_a_reservation_is_load_until_it_is_told_to_end() -> None:
    async def work(one: Api) -> None:
        await one.register("a", "b")
        first = await one.told("POST", "/select_and_reserve", token_ids=PROMPT, reservation_id="mine")
        assert first["reservation_id"] == "mine" and (await one.loads())[first["worker_id"]] == (1, 640)
        again = await one.call("POST", "/select_and_reserve", token_ids=PROMPT, reservation_id="mine")
        assert again.status_code == 400 and "in use" in again.text
        assert (await one.call("POST", "/reservations/mine/prefill_complete")).status_code == 204
        assert (await one.call("POST", "/reservations/mine/output_block", tokens=160)).status_code == 204
        (load,) = [load for load in one.router.loads() if load.active]
        assert (load.prefill_tokens, load.decode_tokens) == (0, 800)
        scores = await one.told("POST", "/overlap_scores", token_ids=[*PROMPT, 1, 2])
        assert scores["cached_tokens"][first["worker_id"]] == 640
        follows = await one.told("POST", "/select_and_reserve", token_ids=[*PROMPT, *PROMPT])
        assert (follows["worker_id"], follows["reason"], follows["cached_tokens"]) == (first["worker_id"], "cache", 640)
        for name in ("mine", follows["reservation_id"]):
            assert (await one.call("DELETE", f"/reservations/{name}")).status_code == 204
        assert await one.loads() == {"a": (0, 0), "b": (0, 0)}
        for method, path in [("DELETE", ""), ("POST", "/prefill_complete"), ("POST", "/output_block")]:
            gone = await one.call(method, f"/reservations/mine{path}", tokens=1)
            assert gone.status_code == 404 and "no reservation" in gone.text

    run(work)


def test_reservations_wait_for_room_and_are_sent_away() -> None:
    async def work(one: Api) -> None:
        await one.register("a")
        await one.told("POST", "/select_and_reserve", token_ids=PROMPT * 3, reservation_id="busy")
        waits = asyncio.create_task(one.told("POST", "/select_and_reserve", token_ids=PROMPT, reservation_id="waits"))
        while not one.router.queued:
            await asyncio.sleep(0)
        full = await one.call("POST", "/select_and_reserve", token_ids=PROMPT)
        assert full.status_code == 503 and int(full.headers["retry-after"]) >= 1
        await one.call("POST", "/reservations/busy/prefill_complete")
        assert (await waits)["worker_id"] == "a"
        await one.told("POST", "/select_and_reserve", token_ids=list(range(5000, 7000)), reservation_id="busy too")
        late = await one.call("POST", "/select_and_reserve", token_ids=PROMPT, max_wait_seconds=0.01)
        assert late.status_code == 503 and "no worker had room" in late.text
        assert one.router.queued == 0

    run(work, queue_limit=1)


def test_a_worker_that_leaves_sends_those_who_wait_away() -> None:
    async def work(one: Api) -> None:
        nobody = await one.call("POST", "/select", token_ids=PROMPT)
        assert nobody.status_code == 503
        await one.register("a")
        await one.told("POST", "/select_and_reserve", token_ids=PROMPT * 3)
        waits = asyncio.create_task(one.call("POST", "/select_and_reserve", token_ids=PROMPT))
        while not one.router.queued:
            await asyncio.sleep(0)
        assert (await one.call("DELETE", "/workers/a")).status_code == 204
        assert (await waits).status_code == 503
        assert (await one.call("DELETE", "/workers/a")).status_code == 404

    run(work)


def test_wishes() -> None:
    async def work(one: Api) -> None:
        await one.register("a", "b")
        await one.register("ranks", ranks=2, constrains=True)
        assert (await one.told("POST", "/select", token_ids=PROMPT, worker_id="b"))["reason"] == "wish"
        assert (await one.told("POST", "/select", token_ids=PROMPT, exclude=["a", "b"]))["worker_id"] == "ranks"
        assert (await one.told("POST", "/select", token_ids=PROMPT, needs_grammar=True, rank=1))["rank"] == 1
        assert (await one.told("POST", "/select", token_ids=PROMPT, mode="random"))["reason"] == "random"
        assert (await one.call("POST", "/select", token_ids=PROMPT, worker_id="c")).status_code == 400

    run(work)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/select", {"token_ids": []}),
        ("/select", {"token_ids": [-1]}),
        ("/select", {"token_ids": [1 << 40]}),
        ("/select", {"token_ids": [1], "mode": "best"}),
        ("/select", {"token_ids": [1], "colour": "red"}),
        ("/workers", {"worker_id": "a/b"}),
        ("/workers", {"worker_id": "a", "ranks": 0}),
        ("/workers", {"worker_id": "a", "kv_events": ["nowhere"]}),
        ("/workers", {"worker_id": 1.5}),
        ("/select", {"token_ids": [1], "session": "s" * 257}),
        ("/select", {"token_ids": [1], "salt": "s" * 257}),
        ("/workers", {"worker_id": "a" * 257}),
        ("/workers", {"worker_id": "a", "ranks": 1_000_000_000}),
        ("/workers", {"worker_id": "a", "block_tokens": 0}),
        ("/workers", {"worker_id": "a", "batch_tokens": -1}),
        ("/select", {"token_ids": [1], "osl": -5}),
        ("/select", {"token_ids": [1], "priority": 1 << 40}),
        ("/select", {"token_ids": [1], "latency_sensitivity": -1.0}),
        ("/select_and_reserve", {"token_ids": [1], "reservation_id": "a/b"}),
    ],
)
def test_bodies_that_mean_nothing_are_refused(path: str, body: dict[str, Any]) -> None:
    async def work(one: Api) -> None:
        answer = await one.call("POST", path, **body)
        assert answer.status_code == 400 and answer.json()["error"]["message"]

    run(work)


def test_reservations_that_nobody_ends_end_by_themselves() -> None:
    async def work() -> None:
        router = Router(RouterOptions(), clock=lambda: 0.0, random=Random(1))
        reservations = Reservations(router, idle_seconds=0.0)
        router.join(WorkerInfo(name="a"))
        await reservations.make(Ask(key="k", prompt_tokens=4, arrival=0.0, ids=[1, 2, 3, 4]), max_wait=1)
        assert "k" in reservations and router.in_flight == 1
        while "k" in reservations:
            await asyncio.sleep(0)
        assert router.in_flight == 0

    asyncio.run(work())


def test_the_index_can_be_taken_over() -> None:
    async def work(one: Api) -> None:
        await one.register("a")
        answer = await one.call("GET", "/dump")
        assert answer.status_code == 200 and answer.content
        listed = await one.told("GET", "/workers")
        assert listed["workers"][0]["worker_id"] == "a" and listed["kv_events"][0]["state"] == "none"

    run(work)


def test_it_is_off_unless_asked_for(serve_mock: Any) -> None:
    assert serve_mock().http.get("/router/loads").status_code == 404
