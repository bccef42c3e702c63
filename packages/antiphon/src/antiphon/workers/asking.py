"""Asking a worker over HTTP what it is: small requests with small answers, before any job."""

import os
from typing import Any

import aiohttp
import msgspec

from antiphon_turns.errors import ConfigError, WorkerProtocolError, WorkerUnavailable

ASK_SECONDS = 10.0


class Asking:
    """One worker's HTTP interface at `url`. A context manager."""

    def __init__(self, url: str, *, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Asking":
        timeout = aiohttp.ClientTimeout(total=ASK_SECONDS)
        self._session = aiohttp.ClientSession(headers=self._headers, timeout=timeout)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str) -> Any:
        """The decoded answer, None where there is nothing. Raises WorkerUnavailable when nobody answers, or not yet, ConfigError for a
        wrong key, WorkerProtocolError for what is no JSON."""
        body = await self._good("GET", path)
        return _decoded(body, self.url + path) if body is not None else None

    async def text(self, path: str) -> str:
        """The answer as text, empty where there is none. Raises as `get`."""
        return (await self._good("GET", path) or b"").decode("utf-8", "replace")

    async def post(self, path: str, value: Any) -> Any:
        """As `get`, for a POST of JSON."""
        body = await self._good("POST", path, msgspec.json.encode(value))
        return _decoded(body, self.url + path) if body is not None else None

    async def _good(self, method: str, path: str, body: bytes | None = None) -> bytes | None:
        status, answer = await self.send(method, path, body)
        if status >= 500:
            raise WorkerUnavailable(f"the worker at {self.url} is not well, or not ready: it answers {path} with {status}")
        return answer if status == 200 else None

    async def send(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body. Raises WorkerUnavailable, and ConfigError for a wrong key."""
        session = self._session
        assert session is not None, "used outside its context"
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with session.request(method, self.url + path, data=body, headers=headers) as response:
                status, answer = response.status, await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise WorkerUnavailable(f"no worker answers at {self.url}: {_reason(error)}") from error
        if status == 401:
            raise ConfigError(f"the worker at {self.url} does not take our key; set ANTIPHON_WORKER_KEY to the one it has")
        return status, answer


def _reason(error: Exception) -> str:
    """What was wrong, in the system's words where it was the system that said no."""
    if isinstance(error, aiohttp.ClientConnectorError) and (error.os_error.errno or 0) > 0:
        return os.strerror(error.os_error.errno or 0)
    return str(error) or "time-out"


def _decoded(body: bytes, where: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.MsgspecError as error:
        raise WorkerProtocolError(f"{where} answers no JSON: {error}") from error
