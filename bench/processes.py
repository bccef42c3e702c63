"""Servers and workers as child processes on free loopback ports."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from bench.measure import BenchError

# Of a server the start-up text must be there to its end, of a worker its first line.
_READY = re.compile(r"URL\s+http://127\.0\.0\.1:(\d+)[\s\S]*Try next|Worker is ready: http://127\.0\.0\.1:(\d+)\s")
START_SECONDS = 60


class Process:
    """A context manager: `antiphon` with these arguments, until it says at which port it is ready; `address` is where. Every setting but
    the flags given is the default; `environment` is added to the process's own. `module` is run in place of the program itself."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None, module: str = "antiphon") -> None:
        self._arguments = arguments
        self._module = module
        self._added = environment or {}

    def __enter__(self) -> Self:
        # An empty folder of its own, so that no settings are found, and no state of the user's used.
        self._folder = tempfile.TemporaryDirectory(prefix="antiphon-bench-")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
        environment |= {"XDG_STATE_HOME": self._folder.name, **self._added}
        self._log = open(os.path.join(self._folder.name, "log"), "w+b")
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, *self._arguments],
            cwd=self._folder.name,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        try:
            self.address = "127.0.0.1", self._wait_for_port()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._folder.cleanup()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.address[1]}"

    def _wait_for_port(self) -> int:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self._log.seek(0)
            said = self._log.read().decode("utf-8", "replace")
            found = _READY.search(said)
            if found is not None:
                return int(found[1] or found[2])
            if self._process.poll() is not None:
                raise BenchError(f"antiphon {self._arguments[0]} did not start: {said[-800:]}")
            time.sleep(0.05)
        raise BenchError(f"antiphon {self._arguments[0]} did not start within {START_SECONDS} s")


class FrontAndWorker:
    """A context manager: a mock worker and a frontend before it. `worker` are further flags of the worker, `environment` is the
    frontend's."""

    def __init__(self, model: Sequence[str], *, worker: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> None:
        self._model = tuple(model)
        self._worker = Process("worker", "--engine", "mock", "--http-port", "0", *model, *worker)
        self._environment = environment

    def __enter__(self) -> "FrontAndWorker":
        self._worker.__enter__()
        self.front = Process("frontend", "--worker", self._worker.url, "--http-port", "0", *self._model, environment=self._environment)
        try:
            self.front.__enter__()
        except BaseException:
            self._worker.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.front.__exit__(kind, value, trace)
        self._worker.__exit__(kind, value, trace)

    @property
    def pids(self) -> tuple[int, int]:
        """Frontend and worker."""
        return self.front.pid, self._worker.pid
