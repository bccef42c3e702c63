"""The router over HTTP, for those who serve jobs themselves: they say which workers there are, ask where to send a prompt, and tell how it
goes. docs/router-api.md is the reference. It has workers and loads of its own, apart from those that this server sends turns to."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.engines.base import Placement
from antiphon.fleet.reservations import Reservations
from antiphon.http import headers_of, read_body
from antiphon.router.ask import Ask, Placed, Refused, WorkerInfo
from antiphon.router.kv_source import KvIndex
from antiphon.router.router import Router
from antiphon.workers.card import WorkerCard
from antiphon.workers.static import parse_feed
from antiphon_protocols.body import decode
from antiphon_turns import RouterMode, RoutingWish
from antiphon_turns.errors import AntiphonError, ConfigError, InvalidRequest, NotFound, Overloaded, WorkerUnavailable

PREFIX = "/router"
T = TypeVar("T")
Name = Annotated[str, Meta(max_length=256)]
WorkerId = Name | int
"""Answers always have text: a number beyond 2^53 would not survive every JSON reader on its way back."""
# Each rank is one more target to keep and to weigh.
Ranks = Annotated[int, Meta(ge=1, le=1024)]
Size = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
Signed = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Unsigned = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
Seconds = Annotated[float, Meta(ge=0)]


class WorkerBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A worker. `kv_events` as in a file of workers; `incarnation` changes when its cache is lost."""

    worker_id: WorkerId
    block_tokens: Size = 16
    batch_tokens: Size = 8192
    ranks: Ranks = 1
    constrains: bool = False
    kv_events: list[str] = []
    incarnation: str = ""


class SelectBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A prompt, and what is known of its job. `reservation_id`: the caller's own name for it; `max_wait_seconds`: how long a
    reservation may wait for room."""

    token_ids: list[int]
    session: Name | None = None
    parent: Name | None = None
    salt: Name = ""
    priority: Signed = 0
    strict_priority: Unsigned = 0
    latency_sensitivity: Seconds = 0.0
    osl: Unsigned | None = None
    mode: RouterMode | None = None
    worker_id: WorkerId | None = None
    rank: int | None = None
    exclude: list[WorkerId] = []
    needs_grammar: bool = False
    reservation_id: Name | None = None
    max_wait_seconds: Seconds = 30.0


class OutputBody(msgspec.Struct, forbid_unknown_fields=True):
    """So many tokens more were sampled."""

    tokens: Size


_WORKER = msgspec.json.Decoder(WorkerBody)
_SELECT = msgspec.json.Decoder(SelectBody)
_OUTPUT = msgspec.json.Decoder(OutputBody)
Refuse = Callable[[Request, AntiphonError], Response]


class SelectRoutes:
    """`router` is used by nobody else, `index` is its view, and both go by `clock`."""

    def __init__(
        self,
        router: Router,
        index: KvIndex,
        *,
        clock: Callable[[], float],
        new_id: Callable[[], str],
        body_limit: int,
    ) -> None:
        self._router = router
        self._index = index
        self._clock = clock
        self._new_id = new_id
        self._body_limit = body_limit
        self._workers: dict[str, WorkerBody] = {}
        self._reservations = Reservations(router)

    def routes(self, refuse: Refuse) -> list[Route]:
        """All of them; `refuse` spells an error."""
        table: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("POST", "/workers", self._put_worker),
            ("GET", "/workers", self._list_workers),
            ("DELETE", "/workers/{worker_id}", self._drop_worker),
            ("POST", "/select", self._select),
            ("POST", "/select_and_reserve", self._reserve),
            ("POST", "/reservations/{reservation_id}/prefill_complete", self._prefilled),
            ("POST", "/reservations/{reservation_id}/output_block", self._output),
            ("DELETE", "/reservations/{reservation_id}", self._release),
            ("GET", "/loads", self._loads),
            ("POST", "/overlap_scores", self._overlaps),
            ("GET", "/dump", self._dump),
        ]
        return [Route(PREFIX + path, _guarded(work, refuse), methods=[method]) for method, path, work in table]

    async def close(self) -> None:
        """Ends what waits, and follows no events any longer."""
        self._reservations.close()
        await self._index.close()

    # -- workers

    async def _put_worker(self, request: Request) -> Response:
        body = await self._body(request, _WORKER)
        name = str(body.worker_id)
        if "/" in name or not name:
            raise InvalidRequest("worker_id: must be a name without a slash", param="worker_id")
        try:
            feeds = tuple(parse_feed(feed) for feed in body.kv_events)
        except ConfigError as error:
            raise InvalidRequest(f"kv_events: {error.message}", param="kv_events") from None
        self._workers[name] = body
        card = WorkerCard(
            kind="vllm",
            model="",
            context_length=1,
            block_tokens=body.block_tokens,
            ranks=body.ranks,
            feeds=feeds,
            incarnation=body.incarnation,
        )
        self._index.follow(name, card)
        info = WorkerInfo(
            name=name, block_tokens=body.block_tokens, batch_tokens=body.batch_tokens, ranks=body.ranks, constrains=body.constrains
        )
        self._reservations.deal(self._router.join(info))
        return _json(_shown(body))

    async def _list_workers(self, request: Request) -> Response:
        return _json({"workers": [_shown(body) for body in self._workers.values()], "kv_events": self._index.states()})

    async def _drop_worker(self, request: Request) -> Response:
        name = request.path_params["worker_id"]
        if self._workers.pop(name, None) is None:
            raise NotFound(f"no worker is called {name!r}; GET {PREFIX}/workers lists them")
        self._index.forget(name)
        self._reservations.deal(self._router.leave(name))
        return Response(status_code=204)

    # -- prompts

    async def _select(self, request: Request) -> Response:
        ask = self._ask(await self._body(request, _SELECT), self._new_id())
        return _json(_choice(self._router.select(ask), ask))

    async def _reserve(self, request: Request) -> Response:
        body = await self._body(request, _SELECT)
        if body.reservation_id is not None and "/" in body.reservation_id:
            raise InvalidRequest("reservation_id: must be a name without a slash", param="reservation_id")
        ask = self._ask(body, body.reservation_id or self._new_id())
        if ask.key in self._reservations:
            raise InvalidRequest(f"reservation_id: {ask.key!r} is in use", param="reservation_id")
        answer = await self._reservations.make(ask, max_wait=body.max_wait_seconds)
        return _json({"reservation_id": ask.key, "waited_seconds": round(self._clock() - ask.arrival, 6), **_choice(answer, ask)})

    async def _prefilled(self, request: Request) -> Response:
        self._reservations.prefilled(self._known(request))
        return Response(status_code=204)

    async def _output(self, request: Request) -> Response:
        key = self._known(request)
        self._reservations.progressed(key, (await self._body(request, _OUTPUT)).tokens)
        return Response(status_code=204)

    async def _release(self, request: Request) -> Response:
        self._reservations.release(self._known(request))
        return Response(status_code=204)

    def _known(self, request: Request) -> str:
        key: str = request.path_params["reservation_id"]
        if key not in self._reservations:
            raise NotFound(f"there is no reservation {key!r}; it has ended, or was idle for too long")
        return key

    # -- what is known

    async def _loads(self, request: Request) -> Response:
        return _json({"loads": self._router.loads(), "queued": self._router.queued, "reservations": self._router.in_flight})

    async def _overlaps(self, request: Request) -> Response:
        ask = self._ask(await self._body(request, _SELECT), self._new_id())
        return _json({"prompt_tokens": ask.prompt_tokens, "cached_tokens": self._router.held_tokens(ask)})

    async def _dump(self, request: Request) -> Response:
        """The index of engine events, for a sibling."""
        try:
            return Response(await self._index.snapshot(), media_type="application/octet-stream")
        except TimeoutError:
            raise WorkerUnavailable("the index is busy; ask again") from None

    async def _body(self, request: Request, decoder: "msgspec.json.Decoder[T]") -> T:
        headers = headers_of(request.scope)
        return decode(decoder, await read_body(headers, request.receive, limit=self._body_limit), headers)[0]

    def _ask(self, body: SelectBody, key: str) -> Ask:
        if not body.token_ids or not 0 <= min(body.token_ids) <= max(body.token_ids) < 1 << 32:
            raise InvalidRequest("token_ids: must be token ids, at least one", param="token_ids")
        wish = RoutingWish(mode=body.mode, worker=None if body.worker_id is None else str(body.worker_id), rank=body.rank)
        return Ask(
            key=key,
            prompt_tokens=len(body.token_ids),
            arrival=self._clock(),
            ids=body.token_ids,
            salt=body.salt,
            placement=Placement(
                session=body.session,
                parent=body.parent,
                strict_priority=body.strict_priority,
                head_start=body.latency_sensitivity,
                osl=body.osl,
                wish=wish,
            ),
            priority=body.priority,
            exclude=frozenset(map(str, body.exclude)),
            needs_grammar=body.needs_grammar,
        )


def _guarded(work: Callable[[Request], Awaitable[Response]], refuse: Refuse) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await work(request)
        except AntiphonError as error:
            return refuse(request, error)

    return endpoint


def _choice(answer: Placed | Refused, ask: Ask) -> dict[str, Any]:
    if isinstance(answer, Refused):
        if answer.because == "full":
            raise Overloaded(answer.message, retry_after=answer.retry_after)
        raise InvalidRequest(answer.message) if answer.because == "unfit" else WorkerUnavailable(answer.message)
    return {
        "worker_id": answer.worker,
        "rank": answer.rank,
        "reason": answer.reason,
        "prompt_tokens": ask.prompt_tokens,
        "cached_tokens": answer.cached_tokens,
    }


def _shown(body: WorkerBody) -> dict[str, Any]:
    return {**msgspec.structs.asdict(body), "worker_id": str(body.worker_id)}


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
