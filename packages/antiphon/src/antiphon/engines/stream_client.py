"""A worker of ours as an `Engine`: one connection of the token stream, many jobs, reconnected when it is lost."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from itertools import count
from typing import cast

from antiphon.engines.base import Chunk, Job
from antiphon.engines.chunks import joined
from antiphon.workers.liveness import watch_peer
from antiphon.workers.stream_wire import (
    VERSION,
    Cancel,
    Failed,
    FrameReader,
    FromWorker,
    Hello,
    Sampled,
    Submit,
    error_of,
    frame_of,
    read_worker,
)
from antiphon_turns.errors import ConfigError, StreamInterrupted, WorkerError, WorkerProtocolError, WorkerUnavailable

log = logging.getLogger("antiphon")

CONNECT_SECONDS = 5.0
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 5.0


class Inbox:
    """What has come of one job and was not yet taken: a chunk, or its end with an error. It holds at most the ids of one answer."""

    __slots__ = ("chunk", "error", "ids", "waiter")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.chunk: Chunk | None = None
        self.error: WorkerError | None = None
        self.waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Tells whoever waits."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def put(self, chunk: Chunk) -> None:
        """A chunk that says more than ids."""
        self.chunk = chunk if self.chunk is None and not self.ids else joined(self._taken(), chunk)
        self.wake()

    def end(self, error: WorkerError) -> None:
        """Nothing more will come."""
        self.error = error
        self.wake()

    def take(self) -> Chunk | None:
        """What there is, and removes it."""
        return self._taken() if self.ids or self.chunk is not None else None

    def _taken(self) -> Chunk:
        ids, chunk = self.ids, self.chunk
        self.ids, self.chunk = [], None
        if chunk is None:
            return Chunk(ids)
        return joined(chunk, Chunk(ids)) if ids else chunk


class _Wire(asyncio.Protocol):
    """One connection. `greeted` is done when the worker has said hello, or holds its refusal."""

    def __init__(self, key: str) -> None:
        loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[str] = loop.create_future()
        self.lost = asyncio.Event()
        self.inboxes: dict[int, Inbox] = {}
        self._numbers = count(1)
        self._key = key
        self._reader: FrameReader[FromWorker] = FrameReader(read_worker)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The event loop's call."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one, but does not inherit it
        watch_peer(transport)
        transport.write(frame_of(Hello(key=self._key)))

    def data_received(self, data: bytes) -> None:
        """The event loop's call."""
        try:
            for frame in self._reader.feed(data):
                if type(frame) is Sampled:
                    self._sampled(frame)
                else:
                    self._told(frame)
        except WorkerProtocolError as error:
            log.warning("token stream: %s", error.message)
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The event loop's call."""
        self._transport = None
        self._end(None)
        self.lost.set()

    def submit(self, job: Job) -> tuple[int, Inbox]:
        """Sends a job; its number, and where its tokens will be. Raises WorkerUnavailable."""
        if self._transport is None or self._transport.is_closing():
            raise WorkerUnavailable("the connection to the worker has just been lost; try again")
        number, inbox = next(self._numbers), Inbox()
        self._transport.write(frame_of(Submit(number, job)))
        self.inboxes[number] = inbox
        return number, inbox

    def cancel(self, number: int) -> None:
        """Ends a job that has not ended by itself."""
        if self.inboxes.pop(number, None) is not None and self._transport is not None:
            self._transport.write(frame_of(Cancel(number)))

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _sampled(self, frame: Sampled) -> None:
        inboxes = self.inboxes
        for number, token_id in zip(frame.numbers, frame.ids, strict=True):
            inbox = inboxes.get(number)
            if inbox is not None:
                inbox.ids.append(token_id)
                if inbox.waiter is not None:
                    inbox.wake()
        for told in frame.told:
            inbox = inboxes.get(told.number) if told.finish is None else inboxes.pop(told.number, None)
            if inbox is not None:
                inbox.put(Chunk(told.ids, told.finish, told.cached_tokens, told.logprobs, told.queue_seconds))

    def _told(self, frame: FromWorker) -> None:
        if isinstance(frame, Failed) and frame.number:
            inbox = self.inboxes.pop(frame.number, None)
            if inbox is not None:
                inbox.end(error_of(frame))
        elif isinstance(frame, Failed):
            self._end(error_of(frame))
        elif isinstance(frame, Hello):
            if frame.version != VERSION:
                raise WorkerProtocolError(f"the worker speaks version {frame.version} of the token stream, this frontend {VERSION}")
            if not self.greeted.done():
                self.greeted.set_result(frame.incarnation)

    def _end(self, error: WorkerError | None) -> None:
        """Fails whatever runs, and the greeting if it has not come."""
        inboxes, self.inboxes = self.inboxes, {}
        for inbox in inboxes.values():
            inbox.end(error or StreamInterrupted("the connection to the worker was lost"))
        if not self.greeted.done():
            self.greeted.set_exception(error or WorkerUnavailable("the worker closed the connection before it said hello"))
            self.greeted.exception()  # whoever waits for it may have gone
        self.close()


class StreamClient:
    """An `antiphon.engines.base.Engine` at `host`:`port`. `constrains`, `reports_logprobs` and `incarnation` are what the worker's card
    says. Between `start` and `close` a lost connection is made anew, later and later up to five seconds apart, but with no other
    incarnation: that one may have another model, and has another card."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        key: str | None = None,
        incarnation: str = "",
        constrains: bool = False,
        reports_logprobs: bool = False,
    ) -> None:
        self.constrains = constrains
        self.reports_logprobs = reports_logprobs
        self.where = f"{host}:{port}"
        self._host = host
        self._port = port
        self._key = key or ""
        self._wire: _Wire | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._incarnation = incarnation

    async def start(self) -> None:
        """Connects. Raises ConfigError when the worker refuses, WorkerUnavailable when it is not there."""
        try:
            await self._connect()
        except WorkerProtocolError as error:
            raise ConfigError(f"the worker at {self.where}: {error.message}") from error
        self._keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Ends running jobs (they raise WorkerUnavailable) and the connection. May be called twice."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()
            await wire.lost.wait()

    def ready(self) -> bool:
        """Whether there is a connection."""
        wire = self._wire
        return wire is not None and not wire.lost.is_set()

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Streams the job's chunks; see `antiphon.engines.base.Engine`. What comes between two looks comes as one chunk."""
        wire = self._wire
        if wire is None:
            raise WorkerUnavailable(f"there is no connection to the worker at {self.where}")
        loop = asyncio.get_running_loop()
        number, inbox = wire.submit(job)
        try:
            while True:
                if not inbox.ids and inbox.chunk is None:
                    if inbox.error is not None:
                        raise inbox.error
                    inbox.waiter = loop.create_future()
                    await inbox.waiter
                    continue
                chunk = inbox.take()
                if chunk is not None:
                    yield chunk
                    if chunk.finish is not None:
                        return
        finally:
            wire.cancel(number)

    async def _connect(self) -> None:
        wire = _Wire(self._key)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await loop.create_connection(lambda: wire, self._host, self._port)
                incarnation = await wire.greeted
                if incarnation != self._incarnation:
                    raise WorkerUnavailable(f"the worker at {self.where} has been started anew since it showed its card")
        except (TimeoutError, OSError) as error:
            wire.close()
            raise WorkerUnavailable(f"no worker answers at {self.where}: {error or 'time-out'}") from error
        except BaseException:
            wire.close()
            raise
        self._wire = wire

    async def _keep(self) -> None:
        """Connects again whenever the connection is lost."""
        while True:
            if self._wire is not None:
                await self._wire.lost.wait()
                self._wire = None
                log.warning("the connection to the worker at %s is lost", self.where)
            pause = FIRST_RETRY_SECONDS
            while self._wire is None:
                with contextlib.suppress(WorkerError):
                    await self._connect()
                    log.info("connected to the worker at %s again", self.where)
                if self._wire is None:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LAST_RETRY_SECONDS)
