"""The peer, started by the scripts of the shared folder: its frontend, and its own mock engine or the scripted worker behind it.

Only to be started in a network namespace of its own (scripts/bench_peer.sh): some of its ports bind every interface.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bench.measure import BenchError

NAME = "Dynamo 1.6.1"
_STARTED = re.compile(r"frontend (\d+) worker (\d+)")
START_SECONDS = 60
STOP_SECONDS = 10


class Peer:
    """A context manager. `scripts` is the folder with up.sh, `kind` what up.sh takes behind the port."""

    def __init__(self, scripts: Path, port: int, kind: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        self._command = ["bash", str(scripts / "up.sh"), str(port), *kind]
        self._environment = {**os.environ, **(environment or {})}
        self.address = ("127.0.0.1", port)

    def __enter__(self) -> "Peer":
        done = subprocess.run(
            self._command,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        found = _STARTED.search(done.stdout)
        if found is None:
            raise BenchError(f"the peer did not start: {(done.stdout + done.stderr)[-400:]}")
        self.pids = int(found[1]), int(found[2])
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = time.monotonic() + STOP_SECONDS
            while any(map(_runs, self.pids)) and time.monotonic() < deadline:
                time.sleep(0.05)


def stop_when_told() -> None:
    """Makes SIGTERM an ordinary end, so that no server outlives the benchmark."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def model_folder(name: str) -> Path:
    """A model folder that the peer's set-up made: `model`, or `model_q` with control tokens for reasoning and calls."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("PEER_DIR") or home / "antiphon-peer") / name


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
