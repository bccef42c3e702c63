"""Our own server with the mock engine and the kit's script, started for a run and ended behind it."""

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

from antiphon.conformance import sayings
from antiphon.conformance.chat_asks import CROWD
from antiphon.conformance.steering import script
from antiphon_turns.errors import ConfigError

START_SECONDS = 30.0
STOP_SECONDS = 5.0
ANSWER_SECONDS = 1.0
# Keep-alives leave this often, well within the silence that is allowed.
KEEPALIVES_IN_SILENCE = 3


@contextlib.asynccontextmanager
async def own_server(silence: float) -> AsyncGenerator[str, None]:
    """The address of a fresh server. Raises ConfigError, with what it said, when it does not start."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conformance.jsonl"
        path.write_bytes(script(sayings.table(silence)))
        # Neither the settings file of the working folder nor the caller's variables are for this server.
        (Path(folder) / "antiphon.toml").touch()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
        port = free_port()
        flags = {
            "config": str(Path(folder) / "antiphon.toml"),
            "engine": "mock",
            "http-port": str(port),
            "mock-script": str(path),
            "keepalive-seconds": str(silence / KEEPALIVES_IN_SILENCE),
            # Room for what the driver asks at a time, and not for a crowd.
            "max-turns": str(CROWD - 1),
            "log-level": "error",
        }
        command = [
            sys.executable,
            "-m",
            "antiphon",
            "serve",
            *(f"--{name}={value}" for name, value in flags.items()),
        ]
        with (Path(folder) / "output").open("w+b") as output:
            process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=output, stderr=output)
            try:
                await _started(process, port)
                yield f"http://127.0.0.1:{port}"
            except ConfigError as error:
                output.seek(0)
                raise ConfigError(f"{error.message}: {output.read().decode('utf-8', 'replace').strip()[-600:]}") from error
            finally:
                await _end(process)


async def _started(process: asyncio.subprocess.Process, port: int) -> None:
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        if process.returncode is not None:
            raise ConfigError(f"the server of the run ended with status {process.returncode}")
        with contextlib.suppress(OSError):  # a time-out is one
            async with asyncio.timeout(ANSWER_SECONDS):
                if await _healthy(port):
                    return
        await asyncio.sleep(0.1)
    raise ConfigError(f"the server of the run was not up within {START_SECONDS:.0f} s")


async def _healthy(port: int) -> bool:
    """The port is bound before the model is loaded, so an open connection alone says little."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        return b" 200 " in await reader.readline()
    finally:
        writer.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
