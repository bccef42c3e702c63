"""The routes of the Responses surface: create, retrieve, follow, delete, cancel, list input, compact, count."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, aclosing
from typing import NamedTuple
from urllib.parse import parse_qs

import msgspec
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from antiphon.background import BackgroundRuns, Run
from antiphon.http import Disconnect, EventStream, headers_of, read_body, send_response
from antiphon.responses import Responses, ResponsesTurn
from antiphon.store import StoredResponse
from antiphon.surfaces import Call, Envelope
from antiphon.tenant import tenant_of
from antiphon.turn_route import Answer, cache_header, guarded, notes, run_watched
from antiphon_protocols import responses as wire
from antiphon_protocols import sse
from antiphon_turns.errors import InvalidRequest, NotFound, UnsupportedFeature

PATH = "/v1/responses"
JSON = ("content-type", "application/json")
# A follower's keep-alive has no number: the run's own events have them all.
UNNUMBERED = sse.event("keepalive", b'{"type":"keepalive"}')
PAGE = 20
MAX_PAGE = 100


class Asked(NamedTuple):
    """One request on its way through a handler."""

    answer: Answer
    send: Send
    receive: Receive
    headers: Mapping[str, str]
    tenant: str
    tag: str
    response_id: str
    query: Mapping[str, str]


Handler = Callable[[Asked], Awaitable[None]]


class ResponsesRoutes:
    """The handlers, and what they share."""

    def __init__(self, responses: Responses, surface: Envelope, *, body_limit: int, keepalive_seconds: float) -> None:
        self.responses = responses
        self._surface = surface
        self._body_limit = body_limit
        self._keepalive_seconds = keepalive_seconds
        self.create = Endpoint(self, self._create)

    @property
    def runs(self) -> BackgroundRuns:
        """The background runs."""
        return self.responses.runs

    def routes(self) -> list[BaseRoute]:
        """Everything but creation, which is a turn route."""
        one = PATH + "/{response_id}"
        table: list[tuple[str, str, Handler]] = [
            (PATH + "/compact", "POST", self._compact),
            (PATH + "/input_tokens", "POST", self._count),
            (one, "GET", self._retrieve),
            (one, "DELETE", self._delete),
            (one + "/cancel", "POST", self._cancel),
            (one + "/input_items", "GET", self._input_items),
        ]
        return [Route(path, Endpoint(self, handler), methods=[method]) for path, method, handler in table]

    def asked(self, scope: Scope, receive: Receive, send: Send) -> Asked:
        """A request with its answer, tenant and parameters."""
        pipeline = self.responses.pipeline
        tag, headers = pipeline.new_tag(), headers_of(scope)
        found = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        return Asked(
            answer=Answer(pipeline, self._surface, send, tag=tag, keepalive_seconds=self._keepalive_seconds),
            send=send,
            receive=receive,
            headers=headers,
            tenant=tenant_of(headers),
            tag=tag,
            response_id=scope.get("path_params", {}).get("response_id", ""),
            query={name: values[-1] for name, values in found.items()},
        )

    async def _create(self, asked: Asked) -> None:
        body = await read_body(asked.headers, asked.receive, limit=self._body_limit)
        call = wire.read(body, asked.headers, tag=asked.tag)
        await self._run(asked, await self.responses.open(call, tag=asked.tag, tenant=asked.tenant))

    async def _compact(self, asked: Asked) -> None:
        body = await read_body(asked.headers, asked.receive, limit=self._body_limit)
        call = wire.read_compact(body, asked.headers, tag=asked.tag)
        await self._run(asked, await self.responses.open(call, tag=asked.tag, tenant=asked.tenant, compact=True))

    async def _run(self, asked: Asked, turn: ResponsesTurn) -> None:
        if turn.call.background:
            await self._start(asked, turn)
            return
        call = Call(
            turn=turn.request.turn,
            projector=lambda request_id, created: self.responses.projector(turn),
            argument_streaming=turn.request.argument_streaming,
        )
        with self.responses.pipeline.admission.turns():
            await run_watched(asked.answer, call, [await self.responses.prepare(turn)], asked.receive)

    async def _start(self, asked: Asked, turn: ResponsesTurn) -> None:
        with ExitStack() as room:
            room.enter_context(self.responses.pipeline.admission.turns())
            prepared = await self.responses.prepare(turn)
            run = self.responses.start(turn, prepared, room)
        headers = [(self._surface.request_id_header, asked.answer.request_id), *notes(prepared), cache_header([prepared], None)]
        if turn.call.stream:
            await self._follow(asked, run, 0, headers)
        else:
            await send_response(asked.send, 200, [*headers, JSON], run.body())

    async def _follow(self, asked: Asked, run: Run, start: int, headers: list[tuple[str, str]]) -> None:
        """Streams a run's events; the run does not notice whether the client stays."""
        stream = EventStream(asked.send, keepalive=lambda: UNNUMBERED, interval=self._keepalive_seconds)
        await stream.open(headers)
        async with Disconnect(asked.receive) as client, aclosing(run.follow(start)) as batches:
            async for batch in batches:
                await stream.write(b"".join(map(wire.framed, batch)))
        if client.gone:
            stream.abandon()
        else:
            await stream.close()

    async def _retrieve(self, asked: Asked) -> None:
        run = self.runs.find(asked.tenant, asked.response_id)
        if asked.query.get("stream", "").lower() in ("true", "1"):
            start = number(asked.query, "starting_after", -1, least=-1) + 1
            if run is None:
                await self._stored(asked)
                text = "only background responses of this server's own run can be followed; retrieve it without stream"
                raise UnsupportedFeature(text, param="stream")
            await self._follow(asked, run, start, [(self._surface.request_id_header, asked.answer.request_id)])
            return
        await self._reply(asked, run.body() if run is not None else (await self._stored(asked)).body)

    async def _delete(self, asked: Asked) -> None:
        run = self.runs.find(asked.tenant, asked.response_id)
        if run is not None:
            await self.runs.cancel(run)
            self.runs.forget(run)
        deleted = self.responses.store is not None and await self.responses.store.delete(asked.tenant, asked.response_id)
        if not deleted and run is None:
            raise missing(asked.response_id)
        await self._reply(asked, msgspec.json.encode({"id": asked.response_id, "object": "response", "deleted": True}))

    async def _cancel(self, asked: Asked) -> None:
        run = self.runs.find(asked.tenant, asked.response_id)
        if run is not None:
            await self.runs.cancel(run)
            await self._reply(asked, run.body())
            return
        stored = await self._stored(asked)
        if not msgspec.json.decode(stored.body, type=Background).background:
            raise InvalidRequest("Only background responses can be cancelled; close the connection of any other.", param="response_id")
        await self._reply(asked, stored.body)

    async def _input_items(self, asked: Asked) -> None:
        stored = await self._stored(asked)
        limit = number(asked.query, "limit", PAGE, least=1, most=MAX_PAGE)
        order = asked.query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise InvalidRequest("order: must be 'asc' or 'desc'", param="order")
        items = [(msgspec.json.decode(item, type=Labelled).id, item) for item in stored.input_items]
        items = items if order == "asc" else items[::-1]
        page = page_of(items, limit=limit, after=asked.query.get("after"), before=asked.query.get("before"))
        await self._reply(asked, page)

    async def _count(self, asked: Asked) -> None:
        body = await read_body(asked.headers, asked.receive, limit=self._body_limit)
        turn = await self.responses.open(wire.read(body, asked.headers, tag=asked.tag), tag=asked.tag, tenant=asked.tenant)
        count = await self.responses.pipeline.count(turn.request.turn, tenant=turn.tenant)
        await self._reply(asked, msgspec.json.encode({"object": "response.input_tokens", "input_tokens": count}))

    async def _stored(self, asked: Asked) -> StoredResponse:
        store = self.responses.store
        stored = await store.get(asked.tenant, asked.response_id) if store is not None else None
        if stored is None:
            raise missing(asked.response_id)
        return stored

    async def _reply(self, asked: Asked, body: bytes) -> None:
        await send_response(asked.send, 200, [(self._surface.request_id_header, asked.answer.request_id), JSON], body)


class Endpoint:
    """A handler as an ASGI endpoint, with the seam of the turn routes around it."""

    def __init__(self, routes: ResponsesRoutes, handler: Handler) -> None:
        self._routes = routes
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        asked = self._routes.asked(scope, receive, send)
        await guarded(asked.answer, self._handler(asked))


class Labelled(msgspec.Struct, frozen=True):
    """An item by its id."""

    id: str = ""


class Background(msgspec.Struct, frozen=True):
    """A stored response, as far as cancelling goes."""

    background: bool | None = None


def missing(response_id: str) -> NotFound:
    """The refusal of an id that is not stored, or is another tenant's."""
    return NotFound(f"Response with id {response_id[:80]!r} not found.", param="response_id")


def number(query: Mapping[str, str], name: str, default: int, *, least: int, most: int = 1 << 31) -> int:
    """A whole number of the query. Raises InvalidRequest."""
    text = query.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    value = int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 12 else None
    if value is None or not least <= value <= most:
        raise InvalidRequest(f"{name}: must be a whole number from {least} to {most}", param=name)
    return value


def page_of(items: list[tuple[str, msgspec.Raw]], *, limit: int, after: str | None, before: str | None) -> bytes:
    """One page of a list, as the vendor's list object. Raises InvalidRequest for a cursor that is not in it."""
    names = [name for name, _ in items]
    for cursor in (after, before):
        if cursor and cursor not in names:
            raise InvalidRequest(f"no item {cursor[:80]!r} is in this list", param="after" if cursor is after else "before")
    start = names.index(after) + 1 if after else 0
    stop = names.index(before) if before else len(items)
    if before and not after:
        start = max(start, stop - limit)
    page = items[start : min(stop, start + limit)]
    return msgspec.json.encode(
        {
            "object": "list",
            "data": [item for _, item in page],
            "first_id": page[0][0] if page else None,
            "last_id": page[-1][0] if page else None,
            "has_more": start + len(page) < stop or bool(before and not after and start > 0),
        }
    )
