"""Several processes on one port: all serve, one that dies is started again, a stop ends them all."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from packages.antiphon.tests.test_fleet_over_http import BODIES, workers

from antiphon.processes import reserve, sharing
from antiphon_turns.errors import ConfigError

# Number 1 is killed once and comes back; the second time it asks for a stop. Each notes that it has begun.
SCRIPT = """
import os, signal, sys
import antiphon.processes as processes

processes.SHORTEST_LIFE_SECONDS = {shortest}

def work(number):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    with open({file!r}, "a") as file:
        file.write(str(number))
    began = open({file!r}).read()
    while number == 1 and "0" not in began:
        os.sched_yield()
        began = open({file!r}).read()
    if number == 1:
        os.kill(*((os.getpid(), 9) if began.count("1") == 1 else (os.getppid(), signal.SIGTERM)))
    signal.sigwait([signal.SIGTERM])
    return 0

sys.exit(processes.Processes(2, work).run() % 256)
"""


def ran(tmp_path: Path, shortest: float) -> tuple[int, str]:
    file = tmp_path / "began"
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(file=str(file), shortest=shortest)], timeout=60, check=False)
    return done.returncode, file.read_text()


def test_what_dies_is_started_again(tmp_path: Path) -> None:
    status, began = ran(tmp_path, 0.0)
    assert status == 0 and sorted(began) == ["0", "1", "1"]


def test_what_dies_at_once_ends_all(tmp_path: Path) -> None:
    status, began = ran(tmp_path, 100.0)
    assert status == -9 % 256 and began.count("1") == 1


def test_a_stop_while_a_process_is_being_started_reaches_it() -> None:
    script = """
import os, signal, sys
from antiphon.processes import Processes

forked = os.fork

def fork():
    pid = forked()
    if pid:
        os.kill(os.getpid(), signal.SIGTERM)
    return pid

os.fork = fork
sys.exit(Processes(2, lambda number: signal.pause() or 0).run())
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=30, check=False).returncode == 0


def test_a_parent_that_is_killed_leaves_nobody_behind() -> None:
    script = """
import os, signal
from antiphon.processes import Processes

def work(number):
    os.write(1, b"x")
    signal.pause()
    return 0

Processes(2, work).run()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, bufsize=0) as parent:
        assert parent.stdout is not None
        assert parent.stdout.read(1) + parent.stdout.read(1) == b"xx"
        parent.kill()
        # The pipe ends when the last of them has gone.
        assert select.select([parent.stdout], [], [], 30)[0] and parent.stdout.read() == b""


def test_an_address_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(ConfigError, match="choose another with --flags"):
        reserve("127.0.0.1", other.getsockname()[1], "--flags")


def test_sockets_share_an_address_with_each_other_and_with_nobody_else() -> None:
    with reserve("127.0.0.1", 0, "--flags") as reserved, sharing(reserved) as first, sharing(reserved) as second:
        for one in (first, second):
            one.listen(8)
        port = reserved.getsockname()[1]
        with pytest.raises(ConfigError):
            reserve("127.0.0.1", port, "--flags")
        with socket.create_connection(("127.0.0.1", port)):
            pass


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_frontend_of_two_processes(tmp_path: Path) -> None:
    with workers(1) as (worker,):
        command = [sys.executable, "-m", "antiphon", "frontend", "--engine", "mock", "--http-port", "0", "--processes", "2"]
        environment: dict[str, Any] = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
        with subprocess.Popen(
            [*command, "--worker", worker.url, "--state-dir", str(tmp_path)], stderr=subprocess.PIPE, text=True, env=environment
        ) as parent:
            assert parent.stderr is not None
            text = ""
            while not (found := re.search(r"URL +(http://\S+)", text)):
                line = parent.stderr.readline()
                assert line, text
                text += line
            both = children(parent.pid)
            assert len(both) == 2
            # Each comes by its own connection; where the other process is not there yet, this one serves them all.
            for _ in range(6):
                answer = httpx.post(f"{found[1]}/v1/messages", json={"model": "antiphon-mock", **BODIES["/v1/messages"]}, timeout=30)
                assert answer.status_code == 200, answer.text
            parent.send_signal(signal.SIGTERM)
            rest = parent.stderr.read()
            assert parent.wait(30) == 0, text + rest
            assert not any(Path(f"/proc/{pid}").exists() for pid in both)
            assert len(list(tmp_path.glob("seal-keys*"))) == 1
