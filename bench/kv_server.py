"""`antiphon serve --engine mock` with a KV index beside it that follows when told: `POST /bench/follow` (worker cards as JSON by name),
`POST /bench/forget`, `POST /bench/resume` (a snapshot), `GET /bench/states`, `GET /antiphon/kv-snapshot`."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

import antiphon.serve
from antiphon.cli import main
from antiphon.router.kv_source import KvIndex, TargetState
from antiphon.workers.card import WorkerCard


class States(msgspec.Struct, frozen=True):
    """What the index knows, and what that has cost the listener."""

    targets: list[TargetState]
    ingest_cpu_seconds: float


class WithIndex:
    """The server's own application, and a few routes before it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._index = KvIndex()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or not scope["path"].startswith(("/bench/", "/antiphon/kv-")):
            await self._app(scope, receive, send)
            return
        answer = await self._answer(scope["path"], await Request(scope, receive).body())
        await Response(answer)(scope, receive, send)

    async def _answer(self, path: str, body: bytes) -> bytes:
        index = self._index
        if path == "/bench/follow":
            for name, card in msgspec.json.decode(body, type=dict[str, WorkerCard]).items():
                index.follow(name, card)
        elif path == "/bench/forget":
            for worker in {one.worker for one in index.states()}:
                index.forget(worker)
        elif path == "/bench/resume":
            index.resume(body)
        elif path == "/antiphon/kv-snapshot":
            return await index.snapshot()
        return msgspec.json.encode(States(index.states(), index.listener().cpu_seconds))


def run() -> None:
    """The arguments are those of `antiphon`."""
    name = "build_app"
    build = getattr(antiphon.serve, name)
    setattr(antiphon.serve, name, lambda *args, **options: WithIndex(build(*args, **options)))
    main()


if __name__ == "__main__":
    run()
