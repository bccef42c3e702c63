"""Responses over WebSocket: `GET /v1/responses` with an upgrade.

The client sends `{"type": "response.create", ...}` text frames, the body of a POST in each; the server sends the events of a
stream as bare JSON frames. One response runs at a time, the next waits. A connection remembers its last responses, so that
`previous_response_id` works on it also where nothing is stored. Sources: Codex 0.171 (wire facts 2.1) and the vendor's
description of the transport.
"""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import aclosing

import msgspec
from starlette.types import Message, Receive, Scope, Send

from antiphon.http import Heartbeat, headers_of, printable, send_response
from antiphon.observe.observation import note_answer, observed_frame
from antiphon.responses import Items, Responses, ResponsesTurn
from antiphon.tenant import tenant_of
from antiphon.turn_route import FAULT
from antiphon_protocols import responses as wire
from antiphon_turns import TurnEnd, TurnStart, Usage
from antiphon_turns.errors import AntiphonError, BodyTooLarge, InternalError, InvalidRequest, RateLimited

log = logging.getLogger("antiphon")

CREATE = "response.create"
# Clients go on from the last response; a few more let them go back a step.
REMEMBERED = 8
MAX_WAITING = 32
REFUSED = b'{"error":{"message":"%s","type":"invalid_request_error","param":null,"code":"%s"}}'
FOREIGN = b"This WebSocket is not for web pages of other origins."
DISABLED = b"Responses over WebSocket are switched off here; use POST /v1/responses."
PLAIN_GET = b"GET /v1/responses is for WebSocket upgrades; use POST /v1/responses."


class ResponsesSocket:
    """The ASGI endpoint: answers a plain GET and, where the transport is off, an upgrade with 426, at once: clients then fall back
    to POST, while on a 404 they try again for seconds."""

    def __init__(self, responses: Responses, *, enabled: bool, body_limit: int, keepalive_seconds: float) -> None:
        self._responses = responses
        self._enabled = enabled
        self._body_limit = body_limit
        self._keepalive_seconds = keepalive_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection until its client leaves."""
        if scope["type"] == "http":
            await refuse_upgrade(send, PLAIN_GET if self._enabled else DISABLED, upgrade=False)
            return
        await receive()  # the request to connect
        headers = headers_of(scope)
        if not self._enabled:
            await refuse_upgrade(send, DISABLED)
            return
        if not same_origin(headers):
            await refuse_upgrade(send, FOREIGN, status=403)
            return
        await send({"type": "websocket.accept"})
        connection = Connection(self._responses, send, headers, body_limit=self._body_limit, keepalive_seconds=self._keepalive_seconds)
        await connection.serve(receive)


def same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a browser would call this a request of our own page. Programs send no Origin; a page from elsewhere could otherwise
    use a server on the loopback of whoever looks at it, because browsers ask nobody before they open a WebSocket."""
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


async def refuse_upgrade(send: Send, text: bytes, *, status: int = 426, upgrade: bool = True) -> None:
    """A status with a sentence, as an answer to an upgrade or to a plain request."""
    body = REFUSED % (text, b"upgrade_required" if status == 426 else b"forbidden")
    await send_response(send, status, [("content-type", "application/json"), ("upgrade", "websocket")], body, upgrade=upgrade)


class Connection:
    """One accepted WebSocket."""

    def __init__(self, responses: Responses, send: Send, headers: Mapping[str, str], *, body_limit: int, keepalive_seconds: float) -> None:
        self._responses = responses
        self._send = send
        self._headers = headers
        self._tenant = tenant_of(headers)
        self._body_limit = body_limit
        self._keepalive_seconds = keepalive_seconds
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting_bytes = 0
        self._memory = ConnectionMemory(size=2 * body_limit)

    async def serve(self, receive: Receive) -> None:
        """Reads frames until the client has gone; what still runs for it then is cancelled."""
        worker = asyncio.create_task(self._work())
        try:
            while (message := await receive())["type"] != "websocket.disconnect":
                frame = frame_of(message)
                # One frame of the largest size may always wait; beside others it must fit, so that a connection holds no more than two.
                full = self._waiting_bytes > 0 and self._waiting_bytes + len(frame) > self._body_limit
                if full or self._waiting.qsize() >= MAX_WAITING:
                    text = f"{self._waiting.qsize()} requests of {self._waiting_bytes} bytes wait on this connection already"
                    await self._write(wire.socket_error(RateLimited(text)))
                else:
                    self._waiting_bytes += len(frame)
                    self._waiting.put_nowait(frame)
        finally:
            worker.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await worker

    async def _work(self) -> None:
        while True:
            frame, tag = await self._waiting.get(), self._responses.pipeline.new_tag()
            self._waiting_bytes -= len(frame)
            with observed_frame(frame, f"req_{tag}"):
                await self._answer(frame, tag)

    async def _answer(self, frame: bytes, tag: str) -> None:
        """Answers one frame. An error before the first event is a frame of its own, a later one the end of the response."""
        try:
            with self._responses.live.turn(), self._responses.pipeline.admission.turns():
                turn = await self._open(frame, tag)
                if turn.call.generate:
                    await self._run(turn)
                else:
                    await self._acknowledge(turn)
        except AntiphonError as error:
            await self._refuse(error, tag)
        except OSError:  # the client is gone; reading notices it too
            raise
        except Exception:  # the wire seam: nothing may leave a client without an answer
            log.exception("responses socket req_%s failed", tag)
            await self._refuse(InternalError(FAULT), tag)

    async def _refuse(self, error: AntiphonError, tag: str) -> None:
        log.warning("responses socket req_%s: %s", tag, printable(error.message))
        note_answer(wire.error_response(error, "").status, ())
        await self._write(wire.socket_error(error))

    async def _open(self, frame: bytes, tag: str) -> ResponsesTurn:
        if len(frame) > self._body_limit:
            raise BodyTooLarge(f"the frame is larger than {self._body_limit} bytes; raise --max-body-bytes to allow it")
        kind = frame_type(frame)
        if kind != CREATE:
            raise InvalidRequest(f"type: only {CREATE!r} frames are understood here, not {kind[:80]!r}", param="type")
        call = wire.read(frame, self._headers, tag=tag)
        # A connection always streams, and a run in the background has no place on it.
        call = msgspec.structs.replace(call, stream=True, background=False)
        past = self._memory.find(call.previous_response_id) if call.previous_response_id else None
        return await self._responses.open(call, tag=tag, tenant=self._tenant, past=past)

    async def _acknowledge(self, turn: ResponsesTurn) -> None:
        """A warm-up: the response has no output, and the next request goes on from its input."""
        projector = self._responses.projector(turn)
        for event in (TurnStart(turn.tag, turn.call.model, 0), TurnEnd("end_turn", Usage(prompt_tokens=0))):
            await self._write(*projector.push_events(event))
        self._memory.add(turn.response_id, (*turn.past, *turn.request.input))

    async def _run(self, turn: ResponsesTurn) -> None:
        prepared = await self._responses.prepare(turn)
        projector = self._responses.projector(turn)
        heartbeat = Heartbeat(lambda: self._write(*payloads_of(projector.keepalive())), self._keepalive_seconds)
        started, begun = time.monotonic(), False
        try:
            async with aclosing(self._responses.run(turn, prepared)) as batches:
                async for batch in batches:
                    for event in batch:
                        payloads = projector.push_events(event)
                        if type(event) is TurnEnd:  # before the client can have read the end and go on from it
                            self._memory.add(turn.response_id, (*turn.past, *turn.request.input, *projector.output()))
                        await self._write(*payloads)
                        heartbeat.note()
                        begun = True
        except AntiphonError as error:
            if not begun:
                raise
            log.warning("responses socket req_%s: %s", turn.tag, printable(error.message))
            await self._write(*payloads_of(projector.fail(error)))
        finally:
            heartbeat.stop()
        tokens = len(prepared.prompt.ids)
        log.info("responses socket req_%s: %d prompt tokens, ended after %.2f s", turn.tag, tokens, time.monotonic() - started)

    async def _write(self, *payloads: bytes) -> None:
        for payload in payloads:
            await self._send({"type": "websocket.send", "text": payload.decode()})


class ConnectionMemory:
    """The items before and within the last responses of a connection, bounded in number and bytes. Neighbours share their items."""

    def __init__(self, *, size: int) -> None:
        self._size = size
        self._known: OrderedDict[str, Items] = OrderedDict()

    def find(self, response_id: str) -> Items | None:
        """All items up to and including the response's; None for one that is not remembered."""
        return self._known.get(response_id)

    def add(self, response_id: str, items: Items) -> None:
        """Remembers a response; one whose items are too many is not, and the client sends them again."""
        if sum(len(bytes(item)) for item in items) > self._size:
            return
        self._known[response_id] = items
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


class Typed(msgspec.Struct, frozen=True):
    """A frame by its type."""

    type: str = ""


def frame_type(frame: bytes) -> str:
    """What a frame says it is. Raises InvalidRequest for what is no JSON object."""
    try:
        return msgspec.json.decode(frame, type=Typed).type
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"frame: invalid JSON: {error}") from None


def frame_of(message: Message) -> bytes:
    """The bytes of a received message, text or binary."""
    text = message.get("text")
    return text.encode("utf-8", "surrogatepass") if text is not None else bytes(message.get("bytes") or b"")


def payloads_of(stream: bytes) -> list[bytes]:
    """The JSON of each event in bytes of a stream."""
    return [event.partition(b"data: ")[2] for event in stream.split(b"\n\n") if b"data: " in event]
