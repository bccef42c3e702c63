"""Requests over HTTP with aiohttp; every piece of an answer is recorded with the time it came."""

import time
from collections.abc import Mapping

import aiohttp
import msgspec

from antiphon.conformance.asks import Request
from antiphon.conformance.exchange import Chunk, Exchange


class HttpTransport:
    """Sends requests to one server. `timeout` in seconds bounds one whole exchange."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, timeout: float, headers: Mapping[str, str] | None = None) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._headers = dict(headers or {})

    async def __call__(self, request: Request) -> Exchange:
        """Records one exchange; a connection that fails or takes too long is recorded as a failure."""
        body = request.body if isinstance(request.body, bytes) or request.body is None else msgspec.json.encode(request.body)
        headers = {**request.headers, **self._headers}
        if body is not None:
            headers.setdefault("content-type", "application/json")
        started = time.perf_counter()
        chunks: list[Chunk] = []
        status, found, failure = 0, {}, ""
        try:
            async with self._session.request(
                request.method, self._url + request.path, data=body, headers=headers, timeout=self._timeout
            ) as answer:
                status = answer.status
                found = {name.lower(): value for name, value in answer.headers.items()}
                if status != 101:  # behind the switch of protocols nothing ends by itself
                    async for data in answer.content.iter_any():
                        chunks.append(Chunk(time.perf_counter() - started, data))
        except TimeoutError:
            failure = f"no whole answer within {self._timeout.total:.0f} s"
        except (aiohttp.ClientError, OSError) as error:
            failure = f"the connection broke: {type(error).__name__}: {error}"
        return Exchange(ask="", status=status, headers=found, chunks=tuple(chunks), ended_at=time.perf_counter() - started, failure=failure)
