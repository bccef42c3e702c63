"""A socket that somebody else holds: a restart refuses nobody."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from antiphon.activation import FIRST, inherited_listener
from antiphon_turns.errors import ConfigError

# What a service manager does between fork and exec.
HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
SERVE = [sys.executable, "-m", "antiphon", "serve", "--engine", "mock"]
ASK = {"model": "antiphon-mock", "max_tokens": 9, "messages": [{"role": "user", "content": "@@REPEAT:3@@"}]}


@pytest.fixture
def held() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def start(held: socket.socket, tmp_path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HAND_OVER, str(held.fileno()), *SERVE, "--state-dir", str(tmp_path), "--http-port", "1"]
    return subprocess.Popen(command, pass_fds=[held.fileno()], stderr=subprocess.PIPE, text=True)


def test_a_restart_refuses_nobody(held: socket.socket, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{held.getsockname()[1]}/v1/messages"
    first = start(held, tmp_path)
    try:
        # No waiting for the start: the connection waits in the socket.
        assert httpx.post(url, json=ASK, timeout=60).status_code == 200
    finally:
        first.send_signal(signal.SIGTERM)
        told = first.communicate(timeout=30)[1]
    assert first.returncode == 0, told
    with socket.create_connection(held.getsockname()[:2], timeout=60) as early:
        second = start(held, tmp_path)
        try:
            early.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert early.recv(12) == b"HTTP/1.1 200"
        finally:
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=30)
    assert second.returncode == 0


def test_what_is_meant_for_others_is_left_alone() -> None:
    for environment in ({}, {"LISTEN_FDS": "1", "LISTEN_PID": "1"}, {"LISTEN_FDS": "0", "LISTEN_PID": str(os.getpid())}):
        before = dict(environment)
        assert inherited_listener(environment, os.getpid()) is None and environment == before


def test_several_sockets_are_too_many() -> None:
    environment = {"LISTEN_FDS": "2", "LISTEN_PID": "7", "LISTEN_FDNAMES": "a:b"}
    with pytest.raises(ConfigError, match="2 sockets"):
        inherited_listener(environment, 7)
    assert environment == {}


def test_a_socket_that_does_not_listen_is_refused() -> None:
    code = (
        "import os, socket, sys; from antiphon.activation import inherited_listener as f; from antiphon_turns.errors import ConfigError\n"
        "one = socket.socket(); os.dup2(one.fileno(), 3)\n"
        "try: f({'LISTEN_FDS': '1', 'LISTEN_PID': '7'}, 7)\n"
        "except ConfigError as error: print(error.message)\n"
        "os._exit(0) if sys.stdout.flush() is None else None"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("the service manager's socket must be a TCP socket that listens")
    assert FIRST == 3
