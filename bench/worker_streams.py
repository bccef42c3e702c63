"""What a token costs a frontend between the worker and the engine seam: the token stream, next to server-sent events over HTTP.

A worker with the mock engine runs in a process of its own; a second process does nothing but read jobs, and its CPU is counted.
usage: python -m bench.worker_streams [--streams 1,16,64,256]
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.engines.base import Engine, Job
from antiphon.engines.http_stream import HttpEngine
from antiphon.engines.vllm import VllmEngine
from antiphon.serve import new_loop
from antiphon.workers.cards import connect
from antiphon.workers.directory import WorkerAddress
from antiphon_turns import Sampling
from bench.measure import BenchError, middle, table, this_machine

Transport = Literal["stream", "sse"]
Speed = Literal["full", "paced in step", "paced apart"]
TRANSPORTS: tuple[Transport, ...] = ("stream", "sse")
SPEEDS: tuple[Speed, ...] = ("full", "paced in step", "paced apart")
PACE_SECONDS = 0.02
TOKENS = {"full": 400, "paced in step": 100, "paced apart": 100}
STREAMS = (1, 16, 64, 256)
_READY = re.compile(r"Worker is ready: (\S+)")


class StreamFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Of the reading process. `tokens_a_chunk`: how many came together on the average."""

    transport: Transport
    speed: Speed
    streams: int
    us_per_token: float
    tokens_per_s: float
    tokens_a_chunk: float


class Reading(msgspec.Struct):
    """What the reading process says at its end."""

    cpu_seconds: float
    seconds: float
    tokens: int
    chunks: int


@contextmanager
def worker(*flags: str) -> Iterator[str]:
    """A worker process with the mock engine; gives its URL."""
    command = [sys.executable, "-m", "antiphon", "worker", "--engine", "mock", "--http-port", "0", *flags]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder, open(os.path.join(folder, "log"), "w+b") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield _wait_for_url(process, Path(folder, "log"))
        finally:
            process.terminate()
            process.wait(15)


def _wait_for_url(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        found = _READY.search(log.read_text("utf-8", "replace"))
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise BenchError(f"the worker did not start: {log.read_text('utf-8', 'replace')[-800:]}")


async def read_jobs(url: str, transport: Transport, streams: int, tokens: int, spread: float) -> Reading:
    """Reads `streams` jobs of so many tokens at once; each begins up to `spread` seconds after the first."""
    card, engine = await connect(WorkerAddress(name="w", url=url))
    client: Engine = engine if transport == "stream" else VllmEngine(HttpEngine("the worker", url), model=card.model)
    await client.start()
    counts = [0, 0]

    async def read(number: int, wanted: int) -> None:
        await asyncio.sleep(spread * number / streams)
        # The mock engine repeats a word for whoever asks; the ids are of no matter here, so the prompt is any.
        job = Job(
            request_id=f"r{number}",
            prompt_ids=[*prompt, number % 997 + 100],
            max_tokens=wanted,
            sampling=Sampling(),
            stop_ids=frozenset(),
        )
        async for chunk in client.generate(job):
            counts[0] += len(chunk.ids)
            counts[1] += 1

    prompt = _prompt()
    await asyncio.gather(*(read(number, 2) for number in range(streams)))
    counts[:] = [0, 0]
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(read(number, tokens) for number in range(streams)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    await client.close()
    return Reading(cpu, wall, counts[0], counts[1])


def _prompt() -> list[int]:
    """A prompt that the default mock model answers with many words."""
    from antiphon.config import WorkerSettings
    from antiphon.serve import build_engine, choice_of

    model, _ = build_engine(WorkerSettings(engine="mock"), choice_of(WorkerSettings(engine="mock")))
    frame = model.family.frame
    user = frame.assistant_header.replace("assistant", "user")
    return model.tokenizer.encode(f"{user}@@REPEAT:5000@@{frame.end_of_turn}\n{frame.assistant_header}", added=True)


def figure(url: str, transport: Transport, speed: Speed, streams: int, *, repeats: int = 3, tokens: int | None = None) -> StreamFigure:
    """The median of the repeats. Raises BenchError when a token is missing."""
    wanted = tokens or TOKENS[speed]
    spread = PACE_SECONDS if speed == "paced apart" else 0.0
    command = [sys.executable, "-m", "bench.worker_streams", "--read", url, transport, str(streams), str(wanted), str(spread)]
    found = []
    for _ in range(repeats):
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found.append(msgspec.json.decode(done.stdout, type=Reading))
    if any(reading.tokens != streams * wanted for reading in found):
        raise BenchError(f"{streams} jobs of {wanted} tokens gave {[reading.tokens for reading in found]}")
    return StreamFigure(
        transport=transport,
        speed=speed,
        streams=streams,
        us_per_token=middle(reading.cpu_seconds / reading.tokens * 1e6 for reading in found),
        tokens_per_s=middle(reading.tokens / reading.seconds for reading in found),
        tokens_a_chunk=middle(reading.tokens / reading.chunks for reading in found),
    )


def figures(streams: Sequence[int] = STREAMS, *, repeats: int = 3, tokens: int | None = None) -> list[StreamFigure]:
    """Both transports in turn, flat out and then paced."""
    found = []
    for speeds, flags in ((SPEEDS[:1], ()), (SPEEDS[1:], ("--mock-token-delay-ms", str(PACE_SECONDS * 1000)))):
        with worker(*flags) as url:
            found += [
                figure(url, transport, speed, count, repeats=repeats, tokens=tokens)
                for speed in speeds
                for count in streams
                for transport in TRANSPORTS
            ]
    return found


def figures_table(found: Sequence[StreamFigure]) -> str:
    """The figures as text."""
    head = ("transport", "speed", "streams", "CPU us per token", "tokens per s", "tokens a chunk")
    return table(head, [(f.transport, f.speed, f.streams, f.us_per_token, f.tokens_per_s, f.tokens_a_chunk) for f in found])


def main() -> None:
    """Prints the table, or reads jobs for the process that does."""
    parser = argparse.ArgumentParser(prog="python -m bench.worker_streams")
    parser.add_argument("--streams", default=",".join(map(str, STREAMS)))
    parser.add_argument("--read", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read is None:
        sys.stdout.write(f"{this_machine()}\n\n{figures_table(figures([int(one) for one in options.streams.split(',')]))}\n")
        return
    url, transport, streams, tokens, spread = options.read
    with asyncio.Runner(loop_factory=new_loop) as runner:
        reading = runner.run(read_jobs(url, transport, int(streams), int(tokens), float(spread)))
    sys.stdout.buffer.write(msgspec.json.encode(reading))


if __name__ == "__main__":
    main()
