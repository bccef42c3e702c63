"""The API key of a server that has one: either header on every route, refused in the shape of the surface asked."""

import hmac
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.http import headers_of, send_response
from antiphon_protocols import ErrorResponse
from antiphon_turns.errors import AntiphonError, AuthError

OPEN_PATHS = frozenset({"/", "/health", "/live", "/api/hello", "/api/event_logging/batch"})
"""Probes of load balancers and start-up checks of clients carry no key, and a client takes its refusal for a bad connection."""

Refuse = Callable[[str, Mapping[str, str], AntiphonError], ErrorResponse]


def guarded(app: ASGIApp, key: str | None, *, refuse: Refuse) -> ASGIApp:
    """The application behind a check of `x-api-key` or `authorization: Bearer`; itself, where there is no key to check."""
    if key is None:
        return app
    expected = key.encode()

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in OPEN_PATHS:
            await app(scope, receive, send)
            return
        headers = headers_of(scope)
        if any(hmac.compare_digest(sent, expected) for sent in sent_keys(headers)):
            await app(scope, receive, send)
            return
        error = AuthError("the API key is missing or wrong; send it as x-api-key or as a Bearer token")
        status, answer_headers, body = refuse(scope["path"], headers, error)
        if scope["type"] == "websocket":
            await receive()  # the request to connect
        await send_response(send, status, answer_headers.items(), body, upgrade=scope["type"] == "websocket")

    return check


def sent_keys(headers: Mapping[str, str]) -> list[bytes]:
    """Keys that a request carries. Clients with a custom base URL often send one real and one dummy key."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    found = [headers.get("x-api-key", ""), token.strip() if scheme.lower() == "bearer" else ""]
    return [key.encode("latin-1", "replace") for key in found if key]
