"""The machine's own price of streaming: a bare event loop that only waits and writes, as often and as much as the server.

What the frontend costs above this is ours. usage, for the measuring side: python -m bench.floor DELAY_SECONDS WRITES
"""

import asyncio
import selectors
import socket
import subprocess
import sys
from collections.abc import Sequence

import msgspec

from antiphon.serve import new_loop
from bench.measure import BenchError, cpu_seconds, middle, table

# About what one streamed token is on the wire.
_EVENT = b"x" * 140


class FloorFigure(msgspec.Struct, frozen=True, kw_only=True):
    """CPU microseconds of the bare process per write."""

    streams: int
    paced: bool
    us_per_write: float


async def serve(delay: float, writes: int) -> None:
    """Answers each connection with `writes` events, one every `delay` seconds. Prints its port first."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        for _ in range(writes):
            await asyncio.sleep(delay)
            writer.write(_EVENT)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def read_all(port: int, streams: int) -> None:
    """Asks over so many connections and reads them to their ends. Raises BenchError when nothing comes for 30 s."""
    with selectors.DefaultSelector() as selector:
        for _ in range(streams):
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            connection.sendall(b"\n")
            selector.register(connection, selectors.EVENT_READ, connection)
        while selector.get_map():
            ready = selector.select(30)
            if not ready:
                raise BenchError("the bare loop has stopped writing")
            for key, _ in ready:
                connection = key.data
                if not connection.recv(65_536):
                    selector.unregister(connection)
                    connection.close()


def floor_figure(*, streams: int, delay_ms: float, writes: int, repeats: int = 3) -> FloorFigure:
    """The median of the repeats."""
    command = [sys.executable, "-m", "bench.floor", str(delay_ms / 1000), str(writes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        try:
            port = int(process.stdout.readline()) if process.stdout else 0
            read_all(port, 1)
            spent = []
            for _ in range(repeats):
                before = cpu_seconds(process.pid)
                read_all(port, streams)
                spent.append((cpu_seconds(process.pid) - before) / (streams * writes) * 1e6)
        finally:
            process.terminate()
    return FloorFigure(streams=streams, paced=delay_ms > 0, us_per_write=middle(spent))


def floor_figures(*, streams: Sequence[int], pace_ms: float, full_writes: int = 4096, paced_writes: int = 150) -> list[FloorFigure]:
    """Flat out, then paced."""
    full = [floor_figure(streams=count, delay_ms=0, writes=full_writes // max(1, count // 4)) for count in streams]
    return full + [floor_figure(streams=count, delay_ms=pace_ms, writes=paced_writes, repeats=1) for count in streams]


def floor_table(figures: Sequence[FloorFigure]) -> str:
    """The figures as text."""
    return table(
        ("streams", "speed", "CPU us per write"), [(str(f.streams), "paced" if f.paced else "full", f.us_per_write) for f in figures]
    )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(float(sys.argv[1]), int(sys.argv[2])))
