"""The one way to an engine's HTTP interface: a request a job, read as it comes, every failure one of the WorkerErrors.

What an engine's events mean is the reader's business; what has arrived together leaves as one chunk.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Protocol

import aiohttp
import msgspec

from antiphon.engines.base import Chunk
from antiphon_turns.errors import (
    StreamInterrupted,
    WorkerError,
    WorkerProtocolError,
    WorkerRefusal,
    WorkerTimeout,
    WorkerUnavailable,
)

log = logging.getLogger("antiphon")

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 600.0
MESSAGE_BYTES = 2000


class ChunkReader(Protocol):
    """Reads one engine's answer to one job, without I/O."""

    def feed(self, data: bytes) -> Chunk | None:
        """What the bytes bring. After a chunk with a finish nothing more is fed. Raises WorkerError."""
        ...

    def end(self) -> Chunk | None:
        """The answer has ended without a finish being told; what was held back."""
        ...


class ErrorObject(msgspec.Struct):
    """What is wrong, as vLLM, SGLang and llama.cpp write it."""

    message: str = "no reason given"


class _ErrorBody(msgspec.Struct):
    error: ErrorObject | str | None = None
    message: str | None = None
    detail: str | None = None


class EngineRefusal(WorkerRefusal):
    """With the HTTP status, for clients that can ask in another way."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class HttpEngine:
    """An engine at `url`. Between `start` and `close` every call raises only WorkerErrors. An engine that says nothing for
    `silence_seconds` is given up; prompts take long, so that is long."""

    def __init__(self, name: str, url: str, *, key: str | None = None, silence_seconds: float = SILENCE_SECONDS) -> None:
        self.name = name
        self.url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._silence = silence_seconds
        self._session: aiohttp.ClientSession | None = None
        self._open: set[aiohttp.ClientResponse] = set()
        self._errands: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Gets ready; the engine is not asked anything."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=self._silence)
        # A connection a job: some servers close theirs after a stream although they announce that it stays, and a job is long.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=timeout, read_bufsize=1 << 18)

    async def close(self) -> None:
        """Ends running jobs (they raise WorkerUnavailable). May be called twice."""
        session, self._session = self._session, None
        for response in tuple(self._open):
            response.close()
        for errand in tuple(self._errands):
            errand.cancel()
        if self._errands:
            await asyncio.wait(self._errands)
        if session is not None:
            await session.close()

    def ready(self) -> bool:
        """Whether the client was started; HTTP has no connection to lose."""
        return self._session is not None

    async def chunks(
        self, path: str, body: bytes, reader: ChunkReader, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """One job's chunks. Closing it closes the connection. Raises WorkerError; EngineRefusal where the engine does not take the
        request."""
        async with self._answer(path, body, headers or {}) as response:
            async for data in response.content.iter_any():
                chunk = reader.feed(data)
                if chunk is not None:
                    yield chunk
                    if chunk.finish is not None:
                        return
            chunk = reader.end()
            if chunk is None or chunk.finish is None:
                raise StreamInterrupted(f"{self.name} ended its answer early")
            yield chunk

    def send(self, path: str, body: bytes) -> None:
        """A request that nobody waits for; a failure is logged."""
        if self._session is None:
            return
        errand = asyncio.get_running_loop().create_task(self._errand(path, body))
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    async def _errand(self, path: str, body: bytes) -> None:
        try:
            async with self._answer(path, body, {}):
                pass
        except WorkerError as error:
            log.debug("%s: %s", self.url + path, error.message)

    @contextlib.asynccontextmanager
    async def _answer(self, path: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """A good response, closed (not drained) on the way out."""
        session = self._session
        if session is None:
            raise WorkerUnavailable(f"the client of {self.name} is not started")
        response: aiohttp.ClientResponse | None = None
        try:
            response = await session.post(self.url + path, data=body, headers=headers)
            self._open.add(response)
            if response.status >= 300:
                raise self._refusal(response.status, await response.read())
            yield response
        except TimeoutError as error:
            raise WorkerTimeout(f"{self.name} has said nothing for too long") from error
        except (aiohttp.ClientError, OSError) as error:
            if self._session is None:
                raise WorkerUnavailable(f"the client of {self.name} was closed") from error
            if response is None:
                raise WorkerUnavailable(f"{self.name} does not answer: {error or type(error).__name__}") from error
            raise StreamInterrupted(f"the connection to {self.name} broke off") from error
        finally:
            if response is not None:
                self._open.discard(response)
                response.close()

    def _refusal(self, status: int, body: bytes) -> WorkerError:
        message = f"{self.name} ({status}): {error_message(body)}"
        if status in (429, 503):
            return WorkerUnavailable(message)
        return EngineRefusal(message, status) if status < 500 else WorkerProtocolError(message)


def error_message(body: bytes) -> str:
    """The reason in an engine's error body; the start of the body when it is of no known form."""
    try:
        found = msgspec.json.decode(body, type=_ErrorBody)
    except msgspec.MsgspecError:
        return body[:MESSAGE_BYTES].decode("utf-8", "replace")
    reason = found.error.message if isinstance(found.error, ErrorObject) else found.error
    return reason or found.message or found.detail or body[:MESSAGE_BYTES].decode("utf-8", "replace")


class ServerSentEvents:
    """Cuts a response body, as it arrives, into the data of its events; lines that are something else are left out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The data of the events completed by these bytes, one line each."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]
