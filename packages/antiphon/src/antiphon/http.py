"""HTTP by hand for the streaming routes: bodies with a limit, responses, and noticing that a client has gone."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

from antiphon.observe.observation import note_answer
from antiphon_turns.errors import BodyTooLarge


class ClientGone(Exception):
    """The client closed the connection before the request was whole."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Request headers with lower-case names; of a repeated one the last counts."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def printable(text: str) -> str:
    """Text of a client as part of one log line: nothing in it moves a terminal's cursor or forges a line."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


async def read_body(headers: Mapping[str, str], receive: Receive, *, limit: int) -> bytes:
    """The whole body. Raises BodyTooLarge as soon as the limit is passed, ClientGone when the client leaves before."""
    too_large = BodyTooLarge(f"the request body is larger than {limit} bytes; raise --max-body-bytes to allow it")
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise too_large
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


async def send_response(send: Send, status: int, headers: Iterable[tuple[str, str]], body: bytes, *, upgrade: bool = False) -> None:
    """A whole response. `upgrade`: the refusal of a request to connect a WebSocket."""
    headers = list(headers)
    note_answer(status, headers)
    kind = "websocket.http.response" if upgrade else "http.response"
    encoded = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
    encoded.append((b"content-length", str(len(body)).encode()))
    await send({"type": f"{kind}.start", "status": status, "headers": encoded})
    await send({"type": f"{kind}.body", "body": body})


class Heartbeat:
    """Awaits `beat` whenever nothing has left for `interval` seconds of wall clock: whoever writes notes the time in `quiet_since`.
    Runs from its construction to `stop`."""

    def __init__(self, beat: Callable[[], Awaitable[None]], interval: float) -> None:
        self._beat = beat
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self.quiet_since = self._loop.time()
        self._ticker = asyncio.create_task(self._tick())

    def note(self) -> None:
        """Something leaves now."""
        self.quiet_since = self._loop.time()

    def stop(self) -> None:
        """Stops the clock."""
        self._ticker.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(max(self.quiet_since + self._interval - self._loop.time(), 0.05))
            if self._loop.time() - self.quiet_since >= self._interval:
                self.note()
                await self._beat()


class EventStream:
    """An open SSE response. What `keepalive` gives leaves by wall clock while nothing else does."""

    def __init__(self, send: Send, *, keepalive: Callable[[], bytes], interval: float) -> None:
        self._send = send
        self._keepalive = keepalive
        self._interval = interval
        self._heartbeat: Heartbeat | None = None

    async def open(self, headers: Iterable[tuple[str, str]]) -> None:
        """Sends status and headers."""
        headers = list(headers)
        note_answer(200, headers)
        encoded = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
        encoded += [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": encoded})
        self._heartbeat = Heartbeat(lambda: self.write(self._keepalive()), self._interval)

    def write(self, data: bytes) -> Awaitable[None]:
        """Sends bytes of one or more whole SSE events, when awaited."""
        if self._heartbeat is not None:
            self._heartbeat.note()
        return self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def close(self) -> None:
        """Ends the response."""
        self.abandon()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def abandon(self) -> None:
        """Stops the clock without sending anything more."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None


class Disconnect:
    """Cancels the running request when its client goes away. Use as an async context manager around the work;
    `gone` tells a cancellation of ours from one of the server's."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None
        self.gone = False

    async def __aenter__(self) -> "Disconnect":
        work = asyncio.current_task()
        self._watcher = asyncio.create_task(self._watch(work))
        return self

    async def __aexit__(self, *exc: object) -> bool:
        if self._watcher is not None:
            self._watcher.cancel()
        ours = self.gone and exc[0] is asyncio.CancelledError
        work = asyncio.current_task()
        if ours and work is not None:
            work.uncancel()
        return ours

    async def _watch(self, work: "asyncio.Task[Any] | None") -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if work is not None:
            work.cancel()
