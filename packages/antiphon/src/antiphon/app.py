"""The HTTP application: which path leads where. The turn routes are raw ASGI; Starlette routes the rest."""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.access.account import current
from antiphon.access.keyring import Keyring, keyring_of
from antiphon.auth import guarded
from antiphon.catalog import CatalogRoutes, build_catalog
from antiphon.client_family import naming_clients
from antiphon.config import Settings
from antiphon.explain_route import PATH as EXPLAIN
from antiphon.explain_route import ExplainRoute
from antiphon.fleet.fleet import Fleet
from antiphon.fleet.select_route import PREFIX, SelectRoutes
from antiphon.http import ClientGone, headers_of, read_body, send_response
from antiphon.kv_snapshot_route import PATH as KV_SNAPSHOT
from antiphon.kv_snapshot_route import KvSnapshotRoute
from antiphon.observe.observing import Observers, noting, observing
from antiphon.openapi import openapi_document
from antiphon.pipeline import Pipeline
from antiphon.request_limits import limited
from antiphon.responses import Responses
from antiphon.responses_route import PATH as RESPONSES
from antiphon.responses_route import ResponsesRoutes
from antiphon.responses_socket import ResponsesSocket
from antiphon.surfaces import Surface, chat_surface, completions_surface, messages_surface, responses_envelope
from antiphon.tenant import tenant_of
from antiphon.turn_route import FAULT, TurnRoute
from antiphon.usage_scale import UsageScale, scaled
from antiphon_protocols import ErrorResponse, messages
from antiphon_turns.errors import AntiphonError, InternalError, MethodNotAllowed, NotFound

log = logging.getLogger("antiphon")

JSON = {"content-type": "application/json"}


def build_app(
    pipeline: Pipeline,
    settings: Settings,
    *,
    created: int,
    responses: Responses | None = None,
    router_api: SelectRoutes | None = None,
    observers: Observers | None = None,
    keyring: Keyring | None = None,
) -> ASGIApp:
    """The ASGI application. `created` is the unix time the model was loaded at. Without `responses` nothing of that surface is kept;
    without `keyring` the keys are those of the settings."""
    keyring = keyring or keyring_of(settings)
    chat = chat_surface(
        tool_dispatch=settings.enable_streaming_tool_dispatch,
        reasoning_dispatch=settings.enable_streaming_reasoning_dispatch,
        reasoning_fields=settings.chat_reasoning,
        max_choices=settings.max_choices,
    )
    scale = UsageScale(settings.reported_context_length or pipeline.model.context_length, pipeline.model.context_length)
    anthropic = messages_surface(carriers=lambda: pipeline.seals is not None)
    if settings.reported_context_length is not None:
        anthropic = scaled(anthropic, scale)
    limits: dict[str, Any] = {"body_limit": settings.max_body_bytes, "keepalive_seconds": settings.keepalive_seconds}
    meta = MetaRoutes(pipeline, anthropic, chat, has_keys=keyring is not None)
    catalog = CatalogRoutes(build_catalog(pipeline.model, settings, created=created), meta.refuse)
    openai = ResponsesRoutes(responses or Responses(pipeline, store=None), responses_envelope(), **limits)
    socket = ResponsesSocket(openai.responses, enabled=settings.enable_websocket, **limits)
    explain = ExplainRoute(pipeline, meta.refuse, has_key=keyring is not None)
    turns: dict[str, ASGIApp] = {
        "/v1/chat/completions": TurnRoute(pipeline, chat, **limits),
        "/v1/completions": TurnRoute(pipeline, completions_surface(max_choices=settings.max_choices), **limits),
        RESPONSES: openai.create,
    }
    routes = [
        Route(RESPONSES, socket, methods=["GET"]),
        *openai.routes(),
        Route("/v1/models", catalog.list_models, methods=["GET"]),
        Route("/v1/models/{model_id:path}", catalog.one_model, methods=["GET"]),
        Route("/health", meta.health, methods=["GET"]),
        Route("/live", meta.live, methods=["GET"]),
        Route(EXPLAIN, explain.explain, methods=["GET"]),
        *([Route("/metrics", explain.metrics, methods=["GET"])] if settings.enable_metrics else []),
        Route("/openapi.json", meta.openapi, methods=["GET"]),
        Route("/", meta.root, methods=["GET", "HEAD"]),
    ]
    if settings.enable_anthropic_api:
        turns["/v1/messages"] = TurnRoute(pipeline, anthropic, **limits)
        routes += [
            Route(
                "/v1/messages/count_tokens", CountRoute(pipeline, anthropic, scale, body_limit=settings.max_body_bytes), methods=["POST"]
            ),
            # Claude Code asks these at start-up; a cheap answer keeps it from reporting a bad connection.
            Route("/api/hello", meta.nothing, methods=["GET", "HEAD"]),
            Route("/api/event_logging/batch", meta.nothing, methods=["POST"]),
        ]
    if isinstance(pipeline.engine, Fleet) and pipeline.engine.follower is not None:
        taking = KvSnapshotRoute(pipeline.engine.follower.snapshot, meta.refuse)
        routes.append(Route(KV_SNAPSHOT, taking.snapshot, methods=["GET"]))
    if router_api is not None:
        routes += router_api.routes(meta.refuse)
    routes = [*(Route(path, turn, methods=["POST"]) for path, turn in turns.items()), *routes]
    app = Starlette(routes=routes, exception_handlers={HTTPException: meta.http_error, Exception: meta.fault})
    # A redirect would answer an agent's POST with an empty body, and few clients send it a second time.
    app.router.redirect_slashes = False
    keyed = guarded(naming_clients(direct(turns, {RESPONSES: socket}, noting(app))), keyring, refuse=meta.spell)
    whole = limited(keyed, header_bytes=settings.max_header_bytes, body_seconds=settings.body_seconds, refuse=meta.spell)
    return observing(whole, observers or Observers())


def direct(turns: Mapping[str, ASGIApp], sockets: Mapping[str, ASGIApp], rest: ASGIApp) -> ASGIApp:
    """POSTs to `turns` and connections to `sockets` go straight there. Starlette, which has the rest, wraps `send` twice, and a
    stream sends per token."""

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        straight: ASGIApp | None = None
        if scope["type"] == "websocket":
            straight = sockets.get(scope["path"])
        elif scope["type"] == "http" and scope["method"] == "POST":
            straight = turns.get(scope["path"])
        await (straight or rest)(scope, receive, send)

    return dispatch


class CountRoute:
    """`count_tokens`: the same ingest, stabilizer, template and tokenizer as a turn, and then no turn."""

    def __init__(self, pipeline: Pipeline, surface: Surface, scale: UsageScale, *, body_limit: int) -> None:
        self._pipeline = pipeline
        self._surface = surface
        self._scale = scale
        self._body_limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers `{"input_tokens": N}`."""
        request_id = f"req_{self._pipeline.new_tag()}"
        headers = headers_of(scope)
        try:
            body = await read_body(headers, receive, limit=self._body_limit)
            count = self._scale.tokens(await self._pipeline.count(messages.ingest_count(body, headers), tenant=tenant_of(headers)))
        except ClientGone:
            return
        except AntiphonError as error:
            await self._refuse(send, error, request_id)
            return
        except Exception:  # the wire seam, as for turns
            log.exception("count_tokens %s failed", request_id)
            await self._refuse(send, InternalError(FAULT), request_id)
            return
        answer_headers = [(self._surface.request_id_header, request_id), *self._surface.notes, ("content-type", "application/json")]
        await send_response(send, 200, answer_headers, messages.count_body(count))

    async def _refuse(self, send: Send, error: AntiphonError, request_id: str) -> None:
        status, extra, payload = self._surface.error(error, request_id)
        await send_response(send, status, extra.items(), payload)


class MetaRoutes:
    """Everything that is not a turn."""

    def __init__(self, pipeline: Pipeline, anthropic: Surface, chat: Surface, *, has_keys: bool) -> None:
        self._pipeline = pipeline
        self._has_keys = has_keys
        self._surfaces = {"messages": anthropic, "chat": chat}

    async def health(self, request: Request) -> Response:
        """200 only when a turn could start now. On a server with keys only an operator reads where the workers are."""
        ready = self._pipeline.engine.ready()
        body: dict[str, Any] = {
            "status": "ready" if ready else "no worker",
            "model": self._pipeline.model.name,
            "running_turns": self._pipeline.running,
        }
        account = current.get()
        tells_all = not self._has_keys or (account is not None and account.entry.operator)
        if isinstance(self._pipeline.engine, Fleet) and tells_all:
            fleet = self._pipeline.engine
            events = {one.target: one.state for one in fleet.event_states()}
            body |= {"queued_turns": fleet.queued, "workers": fleet.reports(), "kv_events": events}
        return Response(msgspec.json.encode(body), status_code=200 if ready else 503, headers=JSON)

    async def live(self, request: Request) -> Response:
        """200 as long as the event loop runs, whatever the workers do: who does not get it should start the process again."""
        return Response(b'{"status":"alive"}', headers=JSON)

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI document."""
        # The router's own interface has a page of its own, docs/router-api.md.
        routes = [route for route in request.app.routes if not route.path.startswith(PREFIX)]
        return Response(openapi_document([(route.path, route.methods or set()) for route in routes]), headers=JSON)

    async def root(self, request: Request) -> Response:
        """Says who is here."""
        body = {"service": "antiphon", "model": self._pipeline.model.name, "openapi": "/openapi.json"}
        return Response(msgspec.json.encode(body), headers=JSON)

    async def nothing(self, request: Request) -> Response:
        """An empty yes; a body is read and dropped by the server."""
        return Response(b"{}", headers=JSON)

    async def http_error(self, request: Request, raised: Exception) -> Response:
        """404 and 405 in the envelope of the surface the path belongs to."""
        method, path = request.method, request.url.path
        if isinstance(raised, HTTPException) and raised.status_code == 405:
            response = self.refuse(request, MethodNotAllowed(f"{method} is not possible on {path}"))
            response.headers.update(raised.headers or {})
            return response
        return self.refuse(request, NotFound(f"there is nothing at {path}; /openapi.json lists what is here"))

    async def fault(self, request: Request, raised: Exception) -> Response:
        """A fault of ours in the same envelope; the log has the details."""
        return self.refuse(request, InternalError(FAULT))

    def spell(self, path: str, headers: Mapping[str, str], error: AntiphonError) -> ErrorResponse:
        """An error in the envelope of the surface the path belongs to."""
        return self._surfaces[envelope_of(path, headers)].error(error, f"req_{self._pipeline.new_tag()}")

    def refuse(self, request: Request, error: AntiphonError) -> Response:
        """The same as a response."""
        status, headers, body = self.spell(request.url.path, request.headers, error)
        return Response(body, status_code=status, headers=headers)


def envelope_of(path: str, headers: Mapping[str, str]) -> str:
    """Whose error shape a path without a surface of its own gets."""
    return "messages" if path.startswith("/v1/messages") or "anthropic-version" in headers else "chat"
