"""Small servers on loopback that speak as engines do, and jobs for them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from antiphon.engines.base import Job
from antiphon.serve import new_loop
from antiphon_turns import Sampling

JOB = Job(request_id="client's own", prompt_ids=[1, 2, 3], max_tokens=8, sampling=Sampling(), stop_ids=frozenset({2, 9}))
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def job(**fields: Any) -> Job:
    """The common job with other fields."""
    return msgspec.structs.replace(JOB, **fields)


class Fake:
    """A running server: where it is, and the bodies and headers of what was asked, by path."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: dict[str, list[Any]] = {}
        self.headers: list[dict[str, str]] = []
        self.gone = asyncio.Event()
        self.changed = asyncio.Condition()

    async def asked(self, path: str, times: int = 1) -> list[Any]:
        """The bodies for a path, once there are so many."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.bodies.get(path, [])) >= times)
        return self.bodies[path]


@contextlib.asynccontextmanager
async def fake(routes: dict[str, Handler]) -> AsyncIterator[Fake]:
    """Serves `"GET /path"` and `"POST /path"`."""
    server = Fake()

    def noting(path: str, handler: Handler) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            async with server.changed:
                server.headers.append({name.lower(): value for name, value in request.headers.items()})
                server.bodies.setdefault(path, []).append(msgspec.json.decode(body) if body else None)
                server.changed.notify_all()
            try:
                return await handler(request)
            except asyncio.CancelledError:
                server.gone.set()
                raise

        return answer

    app = web.Application()
    for route, handler in routes.items():
        method, path = route.split()
        app.router.add_route(method, path, noting(path, handler))
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def says(value: Any, status: int = 200) -> Handler:
    """Answers JSON."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")

    return answer


def streams(*events: Any, end: str = "whole") -> Handler:
    """Answers server-sent events, one write each. `end`: whole, cut (the connection breaks) or hang (nothing more comes)."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            data = event if isinstance(event, str) else msgspec.json.encode(event).decode()
            await response.write(f"data: {data}\n\n".encode())
        if end == "hang":
            await asyncio.Event().wait()
        if end == "cut":
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer


def run(scene: Callable[[], Awaitable[None]]) -> None:
    """Runs an async test on the loop that serves, at most half a minute."""

    async def bounded() -> None:
        await asyncio.wait_for(asyncio.ensure_future(scene()), 30)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(bounded())
