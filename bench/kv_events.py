"""What KV events cost the streams of a frontend: 64 streams at 50 tokens/s while 300,000 blocks/s are published, with and without an index
that follows; and how long an index takes to come back. usage: python -m bench.kv_events [--seconds S] [--rounds N] [--json FILE]"""

import argparse
import http.client
import json
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import msgspec

from antiphon.router.kv_source import TargetState
from antiphon.workers.card import KvFeed, WorkerCard
from bench.kv_publishers import BLOCK
from bench.kv_server import States
from bench.measure import BenchError, middle, table, this_machine
from bench.prompts import PATHS, body, plain_turns
from bench.server import MockServer

STREAMS = 64
PACE_MS = 20
BLOCKS_PER_SECOND = 300_000
# How much of the wanted rate must really be published for a figure to count.
LEAST_RATE = 0.95
HIGHEST_RISE = 1.2
_DELTA = b'"type":"content_block_delta"'
_PATIENCE = 60.0
_PULSES_SECONDS = 1.5


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of all streams. Milliseconds between tokens of a stream; shares of one core."""

    followed: bool
    p50_ms: float
    p99_ms: float
    p999_ms: float
    published: float
    ingested: float
    server_core: float
    listener_core: float
    gaps: int


class Publishers:
    """The publishing process. A context manager."""

    def __enter__(self) -> "Publishers":
        command = [sys.executable, "-m", "bench.kv_publishers", "--blocks-per-second", str(BLOCKS_PER_SECOND)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.cards = {
            f"engine-{number}": WorkerCard(kind="mock", model="m", context_length=100_000, block_tokens=BLOCK, feeds=(feed,))
            for number, feed in enumerate(msgspec.convert(self._read(), list[KvFeed]))
        }
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate(timeout=_PATIENCE)

    def tell(self, what: str) -> list[int]:
        """`go`, `stop`, or anything else to `stop` as well; how many messages each engine has published."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return list(self._read()["sent"])

    def _read(self) -> "dict[str, list[int]]":
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError("the publishers have ended")
        found: dict[str, list[int]] = json.loads(line)
        return found


class Frontend:
    """The server's side routes."""

    def __init__(self, server: MockServer) -> None:
        self.server = server

    def post(self, path: str, content: bytes = b"") -> bytes:
        """The answer's body."""
        connection = http.client.HTTPConnection(*self.server.address, timeout=_PATIENCE)
        try:
            connection.request("POST", path, content)
            return connection.getresponse().read()
        finally:
            connection.close()

    def states(self) -> States:
        """What its index knows."""
        return msgspec.json.decode(self.post("/bench/states"), type=States)

    def follow(self, publishers: Publishers) -> None:
        """Its index follows all publishers."""
        self.post("/bench/follow", msgspec.json.encode(publishers.cards))

    def wait_for(self, numbers: list[int]) -> tuple[float, list[TargetState]]:
        """Seconds until the index has all these messages. Raises BenchError when that takes too long."""
        since = time.perf_counter()
        while time.perf_counter() - since < _PATIENCE:
            states = self.states().targets
            if [one.next_seq for one in states] == numbers and all(one.state in ("fresh", "stale") for one in states):
                return time.perf_counter() - since, states
            time.sleep(0.005)
        raise BenchError(f"the index is behind: {states}, and {numbers} messages were published")


def stream(address: tuple[str, int], tokens: int) -> list[float]:
    """Seconds between tokens over all streams, the first token of each aside. Tokens that came together have none between them."""
    gaps: list[float] = []
    with selectors.DefaultSelector() as selector:
        for number in range(STREAMS):
            content = body("messages", plain_turns(100, f"kv{number}"), output_tokens=tokens)
            connection = socket.create_connection(address, timeout=_PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            head = f"POST {PATHS['messages']} HTTP/1.1\r\nhost: bench\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\n"
            connection.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
            selector.register(connection, selectors.EVENT_READ, [None])
        open_streams = STREAMS
        while open_streams:
            ready = selector.select(_PATIENCE)
            now = time.perf_counter()
            if not ready:
                raise BenchError("a stream hangs")
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(262_144)
                count = data.count(_DELTA)
                if count:
                    if key.data[0] is not None:
                        gaps += [now - key.data[0], *[0.0] * (count - 1)]
                    key.data[0] = now
                if not data:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    open_streams -= 1
    if len(gaps) < 0.9 * STREAMS * tokens:
        raise BenchError(f"{STREAMS} streams of {tokens} tokens gave only {len(gaps)}")
    return gaps


def run_once(frontend: Frontend, publishers: Publishers, *, seconds: float, followed: bool) -> Run:
    """One run. Raises BenchError when the publishers were too slow for it to say anything."""
    publishers.tell("stop")
    if followed:
        frontend.follow(publishers)
        frontend.wait_for(publishers.tell("stop"))
    # The listener tells its CPU time once a second; what it took to get in step is not to be counted.
    time.sleep(_PULSES_SECONDS)
    before = frontend.states()
    sent, cpu, wall = sum(publishers.tell("go")), frontend.server.cpu_seconds(), time.perf_counter()
    gaps = sorted(stream(frontend.server.address, round(seconds * 1000 / PACE_MS)))
    numbers = publishers.tell("stop")
    wall = time.perf_counter() - wall
    if followed:
        frontend.wait_for(numbers)
    time.sleep(_PULSES_SECONDS)
    after = frontend.states()
    ingested = sum(one.messages for one in after.targets) - sum(one.messages for one in before.targets)
    found = Run(
        followed=followed,
        p50_ms=1000 * gaps[len(gaps) // 2],
        p99_ms=1000 * gaps[len(gaps) * 99 // 100],
        p999_ms=1000 * gaps[len(gaps) * 999 // 1000],
        published=32 * (sum(numbers) - sent) / wall,
        ingested=32 * ingested / wall,
        server_core=(frontend.server.cpu_seconds() - cpu) / wall,
        listener_core=(after.ingest_cpu_seconds - before.ingest_cpu_seconds) / wall,
        gaps=sum(one.gaps for one in after.targets) - sum(one.gaps for one in before.targets),
    )
    frontend.post("/bench/forget")
    if found.published < LEAST_RATE * BLOCKS_PER_SECOND:
        raise BenchError(f"only {found.published:,.0f} blocks/s could be published; the machine is too busy")
    return found


@contextmanager
def frontend() -> Iterator[Frontend]:
    """A frontend of its own."""
    environment = {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    with MockServer("--mock-token-delay-ms", str(PACE_MS), environment=environment, module="bench.kv_server") as server:
        yield Frontend(server)


def rebuild(first: Frontend, publishers: Publishers) -> list[tuple[str, float, int, int]]:
    """How long a frontend that starts takes to know what the engines hold: way, seconds, blocks then known, bytes of the snapshot."""
    numbers = publishers.tell("stop")
    first.follow(publishers)
    first.wait_for(numbers)
    rows = []
    for way in ("replay", "snapshot"):
        with frontend() as second:
            since, size = time.perf_counter(), 0
            if way == "snapshot":
                snapshot = first.post("/antiphon/kv-snapshot")
                size = len(snapshot)
                second.post("/bench/resume", snapshot)
            second.follow(publishers)
            _, states = second.wait_for(numbers)
            rows.append((way, time.perf_counter() - since, sum(one.blocks for one in states), size))
    first.post("/bench/forget")
    return rows


def main() -> int:
    """Prints the tables; 1 when the streams suffer more than they may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each run streams")
    parser.add_argument("--rounds", type=int, default=4, help="pairs of runs")
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    machine, runs = this_machine(), list[Run]()
    with Publishers() as publishers, frontend() as served:
        # A first pair fills the rings, so that every counted message stores and removes.
        for number in range(2 * wanted.rounds + 2):
            found = run_once(served, publishers, seconds=wanted.seconds, followed=bool(number % 2))
            runs += [found] if number >= 2 else []
            sys.stderr.write(f"{found}\n")
        rows = rebuild(served, publishers)
    arms = {followed: [one for one in runs if one.followed is followed] for followed in (False, True)}
    rise = middle(one.p99_ms for one in arms[True]) / middle(one.p99_ms for one in arms[False])
    names = [name for name in Run.__struct_fields__ if name != "followed"]
    figures = [
        ["followed" if arm else "nobody subscribes", *(middle(getattr(one, name) for one in arms[arm]) for name in names)] for arm in arms
    ]
    sys.stdout.write(f"{machine}\n\n{table(['', *names], figures)}\n\nrise of p99: {rise:.3f} (at most {HIGHEST_RISE})\n\n")
    sys.stdout.write(table(["index rebuilt by", "seconds", "blocks", "bytes"], rows) + "\n")
    if wanted.json is not None:
        wanted.json.write_bytes(msgspec.json.encode({"machine": machine, "runs": runs, "rise": rise, "rebuilt": rows}))
    return int(rise > HIGHEST_RISE)


if __name__ == "__main__":
    sys.exit(main())
