"""uvicorn's HTTP and WebSocket connections with bounds it does not have: headers of limited size that arrive in time, and clients that
read what they asked for. Everything here works on the connection, so nothing of it costs anything per token."""

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

# A client that has its answer and still sends the body may find a closed connection instead of the answer, so it gets a moment.
LINGER_SECONDS = 5.0
PHRASES = {408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a WebSocket message; bytes of a request's line and headers; seconds for them to arrive, counted from the opening of the
    connection or from a later request's first byte; seconds that a client may leave a full buffer unread."""

    message_bytes: int = 32 * 1024 * 1024
    header_bytes: int = 64 * 1024
    header_seconds: float = 30.0
    reader_seconds: float = 120.0


DEFAULT_LIMITS = ConnectionLimits()


class ReaderWatch:
    """Ends a connection whose client has left a full buffer unread for too long. A connection's buffer holds 64 KiB, with
    TLS 512; when it is full the stream waits, and goes on when it is nearly empty."""

    def __init__(self, limits: ConnectionLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._seconds = limits.reader_seconds
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def full(self, transport: asyncio.Transport) -> None:
        """The buffer is full now."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, transport.abort)

    def free(self) -> None:
        """The client has read, or is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LimitedHttp(HttpToolsProtocol):
    """One connection."""

    limits = DEFAULT_LIMITS

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._reader = ReaderWatch(self.limits, self.loop)
        self._header_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._in_headers = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_headers()
        self._stop_lingering()
        self._reader.free()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # Counted before they are parsed: the parser keeps what it is given. What is behind the headers in the same piece counts
        # too, which is at most what one read of the socket brings.
        if self._in_headers:
            self._header_bytes += len(data)
            end = data.find(b"\r\n\r\n")
            counted = self._header_bytes - (len(data) - end if end >= 0 else 0)
            if counted > self.limits.header_bytes:
                text = f"the headers of the request are larger than {self.limits.header_bytes} bytes; raise --max-header-bytes to allow it"
                self._refuse(431, "headers_too_large", text)
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._header_timer is None:
            self._start_headers()

    def on_headers_complete(self) -> None:
        self._stop_headers()
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_headers, self._header_bytes = True, 0
        self._stop_lingering()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._in_headers and self._linger_timer is None:  # the answer is out, and its request's body is not in
            self._linger_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.full(self.transport)

    def resume_writing(self) -> None:
        self._reader.free()
        super().resume_writing()

    def _start_headers(self) -> None:
        self._stop_headers()
        self._in_headers = True
        self._header_timer = self.loop.call_later(self.limits.header_seconds, self._too_slow)

    def _stop_headers(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_lingering(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _too_slow(self) -> None:
        if not self._header_bytes:  # a connection that nobody uses; it is owed no answer
            self.transport.close()
            return
        self._refuse(408, "request_timeout", f"the headers of the request did not arrive within {self.limits.header_seconds:g} s")

    def _refuse(self, status: int, code: str, text: str) -> None:
        """Both vendors' envelope at once, because no path is known yet."""
        self._stop_headers()
        if not self.transport.is_closing():
            self.transport.write(refusal(status, code, text))
            self.transport.close()


class LimitedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket, whose headers have been read as HTTP."""

    limits = DEFAULT_LIMITS

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._reader = ReaderWatch(self.limits, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.free()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.full(self.transport)

    def resume_writing(self) -> None:
        self._reader.free()
        super().resume_writing()


def limited_http(limits: ConnectionLimits) -> type[LimitedHttp]:
    """The connection class for these limits."""
    bound = limits

    class Limited(LimitedHttp):
        limits = bound

    return Limited


def limited_websocket(limits: ConnectionLimits) -> type[LimitedWebSocket]:
    """The same for WebSockets."""
    bound = limits

    class Limited(LimitedWebSocket):
        limits = bound

    return Limited


def refusal(status: int, code: str, text: str) -> bytes:
    """A whole HTTP answer that ends its connection."""
    detail = {"message": text, "type": "invalid_request_error", "param": None, "code": code}
    body = msgspec.json.encode({"type": "error", "error": detail})
    head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return head % (status, PHRASES[status], len(body)) + body
