"""Several processes that share a port. The parent serves nothing: it starts them, starts again what dies, and passes signals on."""

import contextlib
import ctypes
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

from antiphon_turns.errors import ConfigError

log = logging.getLogger("antiphon")

# A process that lives shorter than this is not started again: what killed it will kill the next one too.
SHORTEST_LIFE_SECONDS = 5.0
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Of linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def sharing(listener: socket.socket) -> socket.socket:
    """A socket of the same address that listens beside others. Connections are spread over all of them by the kernel."""
    host, port = listener.getsockname()[:2]
    own = socket.socket(listener.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    own.bind((host, port))
    return own


def reserve(host: str, port: int, flags: str) -> socket.socket:
    """The address, taken but not listened to, for processes that will share it. Raises ConfigError, naming the flags that choose
    another address, when somebody listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    probe = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    reserved = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # Without SO_REUSEPORT the probe fails on an address that others share already: nobody joins them unasked.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        port = probe.getsockname()[1]
        probe.close()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((host, port))
    except OSError as error:
        probe.close()
        reserved.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with {flags}") from error
    return reserved


class Processes:
    """`count` processes that run `work`, which gets the process's number and returns its exit status."""

    def __init__(self, count: int, work: Callable[[int], int]) -> None:
        self._count = count
        self._work = work
        self._numbers: dict[int, int] = {}
        self._began: dict[int, float] = {}
        self._stopping = False
        self._status = 0

    def run(self) -> int:
        """Until all have ended; the first exit status that is not 0, else 0."""
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._pass_on)
        try:
            for number in range(self._count):
                self._start(number)
            while self._numbers:
                pid, status = os.wait()
                if pid in self._numbers:
                    self._ended(pid, os.waitstatus_to_exitcode(status))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._status

    def _start(self, number: int) -> None:
        parent = os.getpid()
        # A signal waits until the new process is in the list of those it is passed on to, and until that process has its own handlers.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
        pid = os.fork()
        if pid:
            self._numbers[pid] = number
            self._began[pid] = time.monotonic()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            if self._stopping:
                os.kill(pid, signal.SIGTERM)
            return
        status = 1
        try:
            for signum in (signal.SIGINT, signal.SIGTERM):
                signal.signal(signum, signal.SIG_DFL)
            # Until the process listens to it: a wish to reload must not end what has not loaded yet.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            _end_with(parent)
            status = self._work(number)
        except ConfigError as error:
            log.error("%s", error.message)
            status = 2
        finally:
            # Nothing of the parent's own end may run in a child.
            logging.shutdown()
            os._exit(status)

    def _ended(self, pid: int, status: int) -> None:
        number, began = self._numbers.pop(pid), self._began.pop(pid)
        if self._stopping:
            # A process that had not loaded yet does not end by itself but by the signal.
            self._status = self._status or (0 if status in (-signal.SIGTERM, -signal.SIGINT) else status)
            return
        if status == 0 or time.monotonic() - began < SHORTEST_LIFE_SECONDS:
            log.error("process %d has ended with status %d; all are stopped", number, status)
            self._status = self._status or status
            self._stop(signal.SIGTERM)
            return
        log.error("process %d has died with status %d and is started again", number, status)
        self._start(number)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self._stop(signum)

    def _pass_on(self, signum: int, frame: FrameType | None) -> None:
        for pid in self._numbers:
            # One that has ended just now is still in the list.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def _stop(self, signum: int) -> None:
        self._stopping = True
        self._pass_on(signum, None)


def _end_with(parent: int) -> None:
    """A parent that is killed cannot pass anything on, and its children would keep the port: the kernel tells them."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)
