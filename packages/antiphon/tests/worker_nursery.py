"""Real worker processes that start in no time, to be killed: a process that has loaded everything forks each of them.

Commands come by standard input, one a line, answers by standard output: `PORT` forks a worker there and answers its process id."""

import asyncio
import functools
import os
import subprocess
import sys
from typing import Any

from packages.antiphon.tests.worker_stage import worker

import antiphon.serve
from antiphon.config import WorkerSettings
from antiphon.model import load_mock_model
from antiphon.serve import build_engine, choice_of


class Nursery:
    """The other end. A context manager; the workers that are left end with it."""

    def __enter__(self) -> "Nursery":
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "packages.antiphon.tests.worker_nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert self._line() == "ready"
        self.pids: dict[int, int] = {}
        return self

    def __exit__(self, *exc: object) -> None:
        for pid in self.pids.values():
            os.kill(pid, 9)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def start(self, port: int) -> None:
        """A worker on a port, in a process of its own."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{port}\n")
        self._process.stdin.flush()
        self.pids[port] = int(self._line())

    def kill(self, port: int) -> None:
        """As if the machine had gone."""
        os.kill(self.pids.pop(port), 9)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


SETTINGS: dict[str, Any] = {"mock_seed": 7, "mock_token_delay_ms": 4.0}


async def _serve(port: int) -> None:
    async with worker(http_port=port, **SETTINGS):
        await asyncio.Event().wait()


def main() -> None:
    """The nursery itself."""
    vars(antiphon.serve)["load_mock_model"] = functools.cache(load_mock_model)
    settings = WorkerSettings(engine="mock")
    build_engine(settings, choice_of(settings))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                asyncio.run(_serve(int(line)))
            finally:
                os._exit(1)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        # Those that were killed have no other parent.
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
