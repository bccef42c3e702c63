"""The worker's end of the token stream: a task a job pulls from the engine, and what one turn of the loop has brought leaves in one
frame."""

import asyncio
import hmac
import logging
import socket
from collections.abc import Callable
from contextlib import aclosing
from typing import cast

from antiphon.engines.base import Chunk, Engine, Job
from antiphon.engines.chunks import joined
from antiphon.workers.liveness import watch_peer
from antiphon.workers.stream_wire import (
    VERSION,
    Cancel,
    Failed,
    FrameReader,
    FromFrontend,
    Hello,
    Submit,
    failure,
    frame_of,
    read_frontend,
    sampled,
)
from antiphon_turns.errors import StreamInterrupted, WorkerError, WorkerProtocolError, WorkerRefusal

log = logging.getLogger("antiphon")

# A frontend that does not read holds its jobs' places in the engine: more than this is not written for it, and it is left alone after so
# many seconds without a byte taken.
UNREAD_BYTES = 256 << 10
STALL_SECONDS = 60.0
# Frames leave at most so often: a frontend pays more for waking up than for a token. The first one behind a pause leaves at once, so what
# comes alone never waits; engines that step all their jobs together lose nothing either.
FRAME_SECONDS = 0.002


class StreamServer:
    """Serves jobs over the token stream. `admit` raises WorkerError for a job that is not to be run; `stall_seconds`: how long a frontend
    may read nothing of what is waiting for it; `frame_seconds`: the least time between two frames."""

    def __init__(
        self,
        engine: Engine,
        *,
        admit: Callable[[Job], None],
        incarnation: str,
        key: str | None = None,
        stall_seconds: float = STALL_SECONDS,
        frame_seconds: float = FRAME_SECONDS,
    ) -> None:
        self.engine = engine
        self.admit = admit
        self.incarnation = incarnation
        self.key = key or ""
        self.stall_seconds = stall_seconds
        self.frame_seconds = frame_seconds
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def running(self) -> int:
        """Jobs that have not ended."""
        return sum(len(connection.jobs) for connection in self.connections)

    async def start(self, listener: socket.socket) -> None:
        """Listens."""
        self._server = await asyncio.get_running_loop().create_server(lambda: Connection(self), sock=listener)

    async def drain(self, seconds: float) -> None:
        """Waits for the running jobs, at most so long."""
        tasks = [task for connection in self.connections for task in connection.jobs.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def close(self) -> None:
        """Takes no more connections and ends those that are left, with their jobs; what has been sampled still leaves."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.close()


class Connection(asyncio.Protocol):
    """One frontend."""

    def __init__(self, server: StreamServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._reader: FrameReader[FromFrontend] = FrameReader(read_frontend)
        self._transport: asyncio.Transport | None = None
        self._known = False
        self.jobs: dict[int, asyncio.Task[None]] = {}
        self._pending: dict[int, Chunk] = {}
        self._failed: list[Failed] = []
        self._next_frame = 0.0
        self._writable = asyncio.Event()
        self._writable.set()
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The event loop's call."""
        transport = cast(asyncio.Transport, transport)  # uvloop's is one, but does not inherit it
        watch_peer(transport)
        transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._transport = transport
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The event loop's call: jobs that nobody reads end."""
        self._transport = None
        self._server.connections.discard(self)
        if self._stalled is not None:
            self._stalled.cancel()
        for task in tuple(self.jobs.values()):
            task.cancel()

    def pause_writing(self) -> None:
        """The event loop's call: the frontend reads more slowly than the engine samples."""
        self._writable.clear()
        self._stalled = self._loop.call_later(self._server.stall_seconds, self._give_up)

    def resume_writing(self) -> None:
        """The event loop's call."""
        self._writable.set()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def data_received(self, data: bytes) -> None:
        """The event loop's call."""
        try:
            for frame in self._reader.feed(data):
                self._take(frame)
        except WorkerProtocolError as error:
            log.warning("token stream: %s", error.message)
            self._refuse(error)

    def close(self) -> None:
        """Ends the connection once what waits has left."""
        if self._pending or self._failed:
            self._flush()
        if self._transport is not None:
            self._transport.close()

    def _give_up(self) -> None:
        log.warning("token stream: a frontend has read nothing for %.0f s; its jobs are ended", self._server.stall_seconds)
        if self._transport is not None:
            self._transport.abort()

    def _take(self, frame: FromFrontend) -> None:
        if isinstance(frame, Hello):
            self._greet(frame)
        elif not self._known:
            raise WorkerProtocolError("the first frame must say hello")
        elif isinstance(frame, Cancel):
            task = self.jobs.get(frame.number)
            if task is not None:
                task.cancel()
        else:
            self._submit(frame)

    def _greet(self, hello: Hello) -> None:
        if hello.version != VERSION:
            raise WorkerProtocolError(f"this worker speaks version {VERSION} of the token stream, the frontend {hello.version}")
        if not hmac.compare_digest(hello.key.encode(), self._server.key.encode()):
            raise WorkerProtocolError("the frontend's key is not this worker's; both need the same ANTIPHON_WORKER_KEY")
        self._known = True
        self._write(frame_of(Hello(incarnation=self._server.incarnation)))

    def _refuse(self, error: WorkerError) -> None:
        self._write(frame_of(failure(0, error)))
        if self._transport is not None:
            self._transport.close()

    def _submit(self, frame: Submit) -> None:
        if frame.number <= 0 or frame.number in self.jobs:
            raise WorkerProtocolError(f"job number {frame.number} cannot be used")
        try:
            self._server.admit(frame.job)
        except WorkerError as error:
            self._fail(frame.number, error)
            return
        self.jobs[frame.number] = self._loop.create_task(self._pump(frame.number, frame.job))

    async def _pump(self, number: int, job: Job) -> None:
        try:
            async with aclosing(self._server.engine.generate(job)) as chunks:
                async for chunk in chunks:
                    self._push(number, chunk)
                    if chunk.finish is not None:
                        return
                    if not self._writable.is_set():
                        await self._writable.wait()
            self._fail(number, StreamInterrupted("the engine ended its answer early"))
        except WorkerError as error:
            self._fail(number, error)
        except Exception:  # the worker seam: whatever an engine does, its job ends with an answer
            log.exception("job %s failed", job.request_id)
            self._fail(number, WorkerProtocolError("the worker failed; its log has the details"))
        finally:
            self.jobs.pop(number, None)

    def _push(self, number: int, chunk: Chunk) -> None:
        self._schedule()
        before = self._pending.get(number)
        self._pending[number] = chunk if before is None else joined(before, chunk)

    def _fail(self, number: int, error: WorkerError) -> None:
        self._schedule()
        self._failed.append(failure(number, error))

    def _schedule(self) -> None:
        if self._pending or self._failed:
            return
        wait = self._next_frame - self._loop.time()
        if wait > 0:
            self._loop.call_later(wait, self._flush)
        else:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if not self._pending and not self._failed:
            return
        self._next_frame = self._loop.time() + self._server.frame_seconds
        frames = [frame_of(sampled(self._pending))] if self._pending else []
        frames += map(frame_of, self._failed)
        self._pending, self._failed = {}, []
        self._write(b"".join(frames))

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def admit_within(*, context_length: int, vocab_size: int) -> Callable[[Job], None]:
    """Refuses jobs that would break the engine: WorkerRefusal says why."""

    def admit(job: Job) -> None:
        if not job.prompt_ids or job.max_tokens < 1:
            raise WorkerRefusal("a job needs a prompt and room for one token")
        if len(job.prompt_ids) + job.max_tokens > context_length:
            total = len(job.prompt_ids) + job.max_tokens
            raise WorkerRefusal(f"prompt and answer are {total} tokens, more than the worker's context of {context_length}")
        if not 0 <= min(job.prompt_ids) <= max(job.prompt_ids) < vocab_size:
            raise WorkerRefusal("the prompt holds token ids that the worker's model does not have")

    return admit
