"""A server of its own for each benchmark: `antiphon serve --engine mock` as a child process on a free loopback port."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType

from bench.measure import BenchError, cpu_seconds

_URL = re.compile(r"URL\s+http://127\.0\.0\.1:(\d+)")
START_SECONDS = 60


class MockServer:
    """A context manager. `address` is where it listens. Every setting but the flags given is the default; `environment` is added to
    the process's own. `module` is run in place of the program itself."""

    def __init__(self, *flags: str, environment: Mapping[str, str] | None = None, module: str = "antiphon") -> None:
        self._flags = flags
        self._module = module
        self._added = environment or {}

    def __enter__(self) -> "MockServer":
        command = [sys.executable, "-m", self._module, "serve", "--engine", "mock", "--http-port", "0", *self._flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
        # An empty folder of its own, so that no antiphon.toml is found, and no state of the user's used.
        self._folder = tempfile.TemporaryDirectory(prefix="antiphon-bench-")
        environment["XDG_STATE_HOME"] = self._folder.name
        environment.update(self._added)
        self._log = open(os.path.join(self._folder.name, "log"), "w+b")
        self._process = subprocess.Popen(
            command, cwd=self._folder.name, env=environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        try:
            self.address = ("127.0.0.1", self._wait_for_port())
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
        """The server's process."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """CPU time of the server so far; waits until it is at rest."""
        return cpu_seconds(self._process.pid)

    def _wait_for_port(self) -> int:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self._log.seek(0)
            said = self._log.read().decode("utf-8", "replace")
            found = _URL.search(said)
            if found is not None and "Try next" in said:
                return int(found[1])
            if self._process.poll() is not None:
                raise BenchError(f"the server did not start: {said[-800:]}")
            time.sleep(0.05)
        raise BenchError(f"the server did not start within {START_SECONDS} s")
