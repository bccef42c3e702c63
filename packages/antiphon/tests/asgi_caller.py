"""An application called in this process, without sockets: fast enough for thousands of requests."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from starlette.types import ASGIApp

from antiphon.app import build_app
from antiphon.config import Settings
from antiphon.pipeline import Pipeline
from antiphon.responses import Responses
from antiphon.seals import SealKey, Seals
from antiphon.serve import build, options_of
from antiphon.state import open_store
from antiphon.trace import TokenTrace


class Answered(NamedTuple):
    """A whole answer, and the seconds it took. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float


async def call(
    app: ASGIApp, method: str, path: str, *, body: bytes = b"", headers: dict[str, str] | None = None, limit: float = 20
) -> Answered:
    """One request; the client stays until the end. Raises TimeoutError after `limit` seconds."""
    path, _, query = path.partition("?")
    given = {"content-type": "application/json", **(headers or {})}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    asked = iter([{"type": "http.request", "body": body, "more_body": False}])
    sent: list = []

    async def receive() -> dict:
        message = next(asked, None)
        if message is None:
            await asyncio.Event().wait()
        return message

    async def send(message: dict) -> None:
        sent.append(message)

    started = time.monotonic()
    async with asyncio.timeout(limit):
        await app(scope, receive, send)
    assert sent[0]["type"] == "http.response.start"
    assert not sent[-1].get("more_body", False), "the answer has no end"
    return Answered(
        sent[0]["status"],
        {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in sent[0]["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
        time.monotonic() - started,
    )


class Socket:
    """One WebSocket connection of the application. Use as an async context manager."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._scope = {"type": "websocket", "scheme": "ws", "path": path, "query_string": b"", "headers": [], "subprotocols": []}
        self._app = app
        self._asked: asyncio.Queue = asyncio.Queue()
        self._sent: asyncio.Queue = asyncio.Queue()

    async def __aenter__(self) -> "Socket":
        self._asked.put_nowait({"type": "websocket.connect"})
        self._served = asyncio.create_task(self._app(self._scope, self._asked.get, self._sent.put))
        assert (await self._sent.get())["type"] == "websocket.accept"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._asked.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self._served

    async def ask(self, frame: bytes, *, last: tuple[str, ...], limit: float = 20) -> tuple[list[dict], float]:
        """The events that answer a frame, up to one whose type is in `last`, and the seconds it took. Raises TimeoutError."""
        started, events = time.monotonic(), []
        self._asked.put_nowait({"type": "websocket.receive", "bytes": frame})
        async with asyncio.timeout(limit):
            while not events or events[-1]["type"] not in last:
                events.append(json.loads((await self._sent.get())["text"], parse_int=float))
        return events, time.monotonic() - started


class InProcess(NamedTuple):
    """A server without sockets, on an event loop that runs while it is called."""

    app: ASGIApp
    loop: asyncio.AbstractEventLoop

    def call(self, method: str, path: str, *, body: bytes = b"", headers: dict[str, str] | None = None) -> Answered:
        """One request."""
        return self.loop.run_until_complete(call(self.app, method, path, body=body, headers=headers))

    def ask(self, path: str, frames: Sequence[bytes], *, last: tuple[str, ...]) -> list[tuple[list[dict], float]]:
        """What answers each of these frames, one after the other on one connection."""

        async def all_of_them() -> list[tuple[list[dict], float]]:
            async with Socket(self.app, path) as socket:
                return [await socket.ask(frame, last=last) for frame in frames]

        return self.loop.run_until_complete(all_of_them())


@contextlib.contextmanager
def in_process(settings: Settings) -> Iterator[InProcess]:
    """The server of the settings."""
    model, engine = build(settings)
    with contextlib.closing(TokenTrace(None)) as trace:
        seals = Seals([SealKey(b"k" * 32)], random_bytes=os.urandom)
        pipeline = Pipeline(model, engine, options=options_of(settings), trace=trace, random_bytes=os.urandom, seals=seals)
        responses = Responses(pipeline, store=open_store(settings))
        app = build_app(pipeline, settings, created=1_700_000_000, responses=responses)
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(engine.start())
            yield InProcess(app, loop)
            loop.run_until_complete(responses.close())
            loop.run_until_complete(engine.close())
