"""API keys of a server that has some: either header on every route, refused in the shape of the surface asked."""

from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.access.account import current
from antiphon.access.keyring import Keyring
from antiphon.http import headers_of, send_response
from antiphon_protocols import ErrorResponse
from antiphon_turns.errors import AntiphonError, AuthError, Forbidden

OPEN_PATHS = frozenset({"/", "/health", "/live", "/api/hello", "/api/event_logging/batch"})
"""Probes of load balancers and start-up checks of clients carry no key, and a client takes its refusal for a bad connection."""
OPERATOR_PATHS = ("/metrics", "/router/", "/antiphon/kv-snapshot")
"""Beginnings of paths that tell of all tenants, or act for them."""
KEY_HEADERS = (b"x-api-key", b"authorization")

Refuse = Callable[[str, Mapping[str, str], AntiphonError], ErrorResponse]


def guarded(app: ASGIApp, keyring: Keyring | None, *, refuse: Refuse) -> ASGIApp:
    """The application behind a check of `x-api-key` or `authorization: Bearer`; itself, where there is no key to check. What is
    behind it sees the one key that was right, so that a dummy beside it names no tenant, and `account.current`."""
    if keyring is None:
        return app

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await app(scope, receive, send)
            return
        headers = headers_of(scope)
        found = keyring.find(sent_keys(headers))
        if scope["path"] in OPEN_PATHS:
            current.set(found[1] if found is not None else None)
            await app(scope, receive, send)
            return
        error: AntiphonError = AuthError("the API key is missing or wrong; send it as x-api-key or as a Bearer token")
        if found is not None:
            key, account = found
            if account.entry.operator or not scope["path"].startswith(OPERATOR_PATHS):
                current.set(account)
                await app({**scope, "headers": with_one_key(scope["headers"], key)}, receive, send)
                return
            error = Forbidden(
                f"{scope['path']} tells of all keys; this one may not ask for it, since its table does not say operator = true"
            )
        status, answer_headers, body = refuse(scope["path"], headers, error)
        if scope["type"] == "websocket":
            await receive()  # the request to connect
        await send_response(send, status, answer_headers.items(), body, upgrade=scope["type"] == "websocket")

    return check


def sent_keys(headers: Mapping[str, str]) -> list[bytes]:
    """Keys that a request carries. Clients with a custom base URL often send one real and one dummy key."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    found = [headers.get("x-api-key", "").strip(), token.strip() if scheme.lower() == "bearer" else ""]
    return [key.encode("latin-1", "replace") for key in found if key]


def with_one_key(headers: list[tuple[bytes, bytes]], key: bytes) -> list[tuple[bytes, bytes]]:
    """Request headers with this key and no other."""
    return [*((name, value) for name, value in headers if name.lower() not in KEY_HEADERS), (b"x-api-key", key)]
