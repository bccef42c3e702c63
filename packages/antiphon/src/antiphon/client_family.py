"""Which client sends a request, as one of a few names: what a metric may be split by."""

from collections.abc import Mapping
from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send

OTHER = "other"
# Beginnings of the user agent, in lower case; the first that fits names the client.
_BEGINNINGS = (
    ("claude-cli/", "claude-code"),
    ("codex", "codex"),
    ("opencode/", "opencode"),
    ("openclaw", "openclaw"),
    ("pi/", "pi"),
    ("anthropic/", "anthropic-sdk"),
    ("asyncanthropic/", "anthropic-sdk"),
    ("openai/", "openai-sdk"),
    ("asyncopenai/", "openai-sdk"),
    ("ai-sdk/", "ai-sdk"),
    ("curl/", "curl"),
)
FAMILIES = frozenset({name for _, name in _BEGINNINGS} | {OTHER})

current: ContextVar[str] = ContextVar("client_family", default=OTHER)
"""The family of the request that the running task serves."""


def family_of(headers: Mapping[str, str]) -> str:
    """One of FAMILIES. Header names are in lower case."""
    agent = headers.get("user-agent", "").lower()
    return next((name for beginning, name in _BEGINNINGS if agent.startswith(beginning)), OTHER)


def naming_clients(app: ASGIApp) -> ASGIApp:
    """The application with `current` set for every request."""

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            agent = next((value for name, value in scope["headers"] if name.lower() == b"user-agent"), b"")
            current.set(family_of({"user-agent": agent.decode("latin-1")}))
        await app(scope, receive, send)

    return named
