"""The listener's process as its frontend has it: started, spoken to, started again when it dies."""

import asyncio
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import cast

from antiphon.router.kv_pipe import Command, Frames, Record, Report, message_frame

log = logging.getLogger("antiphon")

# What one turn of the event loop gives to the index; streams wait no longer.
SLICE_SECONDS = 0.001
# Beyond so much unread the listener waits, and events with it.
_BACKLOG_BYTES = 4 << 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0


class Inbox(asyncio.Protocol):
    """Reads reports in slices: at most `slice_seconds` (and one record) for each turn of the event loop. `lost` is called when the other
    side has gone."""

    def __init__(
        self,
        apply: Callable[[Record | Report], None],
        lost: Callable[[], None],
        *,
        after_slice: Callable[[], None],
        slice_seconds: float = SLICE_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._apply = apply
        self._lost = lost
        self._after_slice = after_slice
        self._slice_seconds = slice_seconds
        self._clock = clock
        self._frames = Frames()
        self._reports: Iterator[Record | Report] = iter(())
        self._is_waiting = False
        self._is_paused = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._frames.push(data)
        if self._frames.waiting_bytes > _BACKLOG_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        if not self._is_waiting:
            self._is_waiting = True
            self.turn()

    def connection_lost(self, error: Exception | None) -> None:
        """Called by asyncio."""
        self._transport = None
        self._lost()

    def send(self, command: Command) -> None:
        """Writes without waiting; nothing once the other side has gone."""
        if self._transport is not None:
            self._transport.write(message_frame(command))

    def close(self) -> None:
        """Closes the socket; `lost` follows."""
        if self._transport is not None:
            self._transport.close()

    def turn(self) -> None:
        """One slice; what is left has the next turn of the loop."""
        until = self._clock() + self._slice_seconds
        left = True
        while left and self._clock() < until:
            left = self._one()
        self._is_waiting = left
        if left:
            asyncio.get_running_loop().call_soon(self.turn)
        elif self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        self._after_slice()

    def _one(self) -> bool:
        report = next(self._reports, None)
        if report is None:
            self._reports = self._frames.reports()
            report = next(self._reports, None)
            if report is None:
                return False
        self._apply(report)
        return True


class ListenerProcess:
    """Keeps one listener running from `start` to `close`. `begun` is called with each new process, to tell it what to follow; before it,
    `lost` says that all the last one told is void."""

    def __init__(self, apply: Callable[[Record | Report], None], *, begun: Callable[[], None], lost: Callable[[], None]) -> None:
        self._apply = apply
        self._begun = begun
        self._lost = lost
        self.deaths = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._inbox: Inbox | None = None
        self._pause = _FIRST_PAUSE
        self._is_closed = False
        self._starting: asyncio.Task[None] | None = None
        self.after_slice: Callable[[], None] = lambda: None

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return self._process.pid if self._process is not None else None

    @property
    def is_running(self) -> bool:
        """Whether what is sent now is read."""
        return self._inbox is not None

    async def start(self) -> None:
        """Starts the process. Raises OSError where none can be had."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                # -P: no module of the folder that the server was started in goes before the real ones.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "antiphon.router.kv_listener", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
            except OSError:
                ours.close()
                raise
        loop = asyncio.get_running_loop()
        inbox = Inbox(self._apply, self._ended, after_slice=lambda: self.after_slice())
        await loop.create_unix_connection(lambda: inbox, sock=ours)
        self._inbox = inbox
        self._begun()

    def send(self, command: Command) -> None:
        """Nothing while no process runs: a new one is told everything by `begun`."""
        if self._inbox is not None:
            self._inbox.send(command)

    def proved_well(self) -> None:
        """The process works; the next death is answered at once again."""
        self._pause = _FIRST_PAUSE

    async def close(self) -> None:
        """Ends the process, which goes with its socket."""
        self._is_closed = True
        if self._starting is not None:
            self._starting.cancel()
        if self._inbox is not None:
            self._inbox.close()
        if self._process is not None:
            await asyncio.to_thread(_reap, self._process)

    def _ended(self) -> None:
        self._inbox = None
        if self._is_closed:
            return
        self.deaths += 1
        self._lost()
        process = self._process
        log.warning("the process that follows KV events has ended; it is started again in %.1f s and asks for replays", self._pause)
        self._starting = asyncio.get_running_loop().create_task(self._start_again(process, self._pause))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    async def _start_again(self, dead: "subprocess.Popen[bytes] | None", pause: float) -> None:
        if dead is not None:
            await asyncio.to_thread(_reap, dead)
        while not self._is_closed:
            await asyncio.sleep(pause)
            try:
                await self.start()
                return
            except OSError as error:
                log.warning("the process that follows KV events cannot be started (%s); routing goes by what was sent", error)
                pause = _LONGEST_PAUSE


def _reap(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
