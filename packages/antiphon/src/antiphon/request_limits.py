"""Limits of a request that the settings name: headers, the time a body takes, messages and tools."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.http import headers_of, send_response
from antiphon_protocols import ErrorResponse
from antiphon_turns import TurnRequest
from antiphon_turns.errors import AntiphonError, HeadersTooLarge, InvalidRequest, RequestTimeout

Refuse = Callable[[str, Mapping[str, str], AntiphonError], ErrorResponse]


class ContentLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Messages and tools of one request; 0: no limit."""

    messages: int = 0
    tools: int = 0

    def check(self, request: TurnRequest) -> None:
        """Raises InvalidRequest that names the setting."""
        for name, found, most in (("messages", len(request.messages), self.messages), ("tools", len(request.tools), self.tools)):
            if most and found > most:
                raise InvalidRequest(
                    f"{name}: {found} are more than the {most} this server takes; raise --max-{name} to allow it", param=name
                )


def limited(app: ASGIApp, *, header_bytes: int, body_seconds: float, refuse: Refuse) -> ASGIApp:
    """The application behind a limit of headers, with bodies that arrive in time. A late body is a RequestTimeout where the route
    reads it, which every route spells in its own form."""

    async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            size = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
            if size > header_bytes:
                text = f"the headers of the request are larger than {header_bytes} bytes; raise --max-header-bytes to allow it"
                status, headers, body = refuse(scope["path"], headers_of(scope), HeadersTooLarge(text))
                await send_response(send, status, headers.items(), body)
                return
            receive = in_time(receive, body_seconds)
        await app(scope, receive, send)

    return bounded


def in_time(receive: Receive, seconds: float) -> Receive:
    """`receive` that raises RequestTimeout when a body has not arrived whole within so many seconds of the first call. Behind the body
    it waits as long as it takes."""
    deadline: float | None = None
    whole = False

    async def timed() -> Message:
        nonlocal deadline, whole
        if whole:
            return await receive()
        now = asyncio.get_running_loop().time()
        deadline = now + seconds if deadline is None else deadline
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            whole = True  # told once
            raise RequestTimeout(f"the request body did not arrive within {seconds:g} s; --body-seconds allows more") from None
        whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    return timed
