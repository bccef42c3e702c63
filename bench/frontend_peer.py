"""CPU of the frontend for each streamed token, before one mock worker process, beside the peer before its own.

usage: python -m bench.frontend_peer [--peer FOLDER] [--rounds N] [--profile]   (`make bench-frontend-peer`; FOLDER has up.sh and load.py)

Both are asked by the shared folder's load generator, one after the other in every round (A B A B), with as many streams at a time as said
and engines that answer at once; what counts is the median of the rounds' ratios. Ours is also asked for 64 streams of 50 tokens a second.
`--profile` samples our frontend instead, alone.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.measure import BenchError, middle, table, this_machine
from bench.peer import NAME, Peer, model_folder, stop_when_told
from bench.processes import FrontAndWorker

STREAMS = (1, 16, 64, 256)
REQUESTS = {1: 24, 16: 96, 64: 256, 256: 512}
APIS = ("anthropic", "chat")
OURS = "Antiphon"
MODEL = "smol"
PEER_PORT = 9127
PROMPT_TOKENS = 100
OUTPUT_TOKENS = 256
PACED_STREAMS = 64
PACED_TOKENS = 250
PACE_MS = 20
LEAST_RATIO = 0.6
MOST_US = 45.0
ROUNDS = 3
HERE = Path(__file__).resolve().parent


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One run: tokens per CPU-second of the frontend, tokens a second, CPU microseconds a token of frontend and worker."""

    per_cpu_s: float
    per_s: float
    front_us: float
    worker_us: float


class Server(msgspec.Struct, frozen=True):
    """One server under test: frontend and worker."""

    name: str
    url: str
    pids: tuple[int, int]


def run_once(load: Path, server: Server, api: str, *, streams: int, requests: int, tokens: int = OUTPUT_TOKENS) -> Figure:
    """One run of the load generator. Raises BenchError when a token is missing."""
    ours = server.name == OURS
    options: dict[str, object] = {
        "--url": server.url,
        "--api": api,
        "--model": MODEL,
        "--prompt-tokens": PROMPT_TOKENS,
        # Our mock engine stops by itself behind the words it is asked for; the peer's goes on to the limit.
        "--output-tokens": tokens + 8 if ours else tokens,
        "--suffix": f" @@REPEAT:{tokens - 1}@@" if ours else "",
        "--concurrency": streams,
        "--requests": requests,
        "--runs": 1,
    }
    command = [sys.executable, str(load), *(f"{name}={value}" for name, value in options.items()), "--quickack", "--ignore-eos", "-q"]
    command += [f"--pid={pid}" for pid in server.pids]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = done.stdout.rpartition("median ")[2]
    if done.returncode or not told:
        raise BenchError(f"{server.name}, {api}: {done.stderr[-400:] or done.stdout[-400:]}")
    found = json.loads(told)
    if found["bad"] or found["out_per_req"] != tokens:
        raise BenchError(f"{server.name}, {api}: {found['out_per_req']} tokens instead of {tokens}; {found.get('err', '')}")
    out = found["n"] * found["out_per_req"]
    return Figure(
        per_cpu_s=found["tok_per_cpu_s0"],
        per_s=found["out_tok_s"],
        front_us=1e6 * found["cpu_s0"] / out,
        worker_us=1e6 * found["cpu_s1"] / out,
    )


def figures(load: Path, servers: Sequence[Server], rounds: int) -> dict[tuple[str, int, str], list[Figure]]:
    """Every surface, at every number of streams, on one server after the other, in every round; by (surface, streams, server)."""
    found: dict[tuple[str, int, str], list[Figure]] = {}
    for number in range(rounds + 1):
        for api in APIS:
            for streams in STREAMS:
                for server in servers:
                    # The first round imports and fills the caches; it is short and not counted.
                    requests = REQUESTS[streams] if number else streams
                    figure = run_once(load, server, api, streams=streams, requests=requests)
                    if number:
                        found.setdefault((api, streams, server.name), []).append(figure)
    return found


def figure_table(found: dict[tuple[str, int, str], list[Figure]], servers: Sequence[str]) -> str:
    """Medians over the rounds, and the median of the ratios."""
    rows: list[tuple[object, ...]] = []
    for api, streams in dict.fromkeys((api, streams) for api, streams, _ in found):
        runs = [found[api, streams, name] for name in servers]
        cells = [middle(getattr(one, what) for one in each) for what in ("per_cpu_s", "front_us", "per_s") for each in runs]
        rows.append((api, streams, *cells, *([_ratio(found, api, streams)] if len(servers) > 1 else [])))
    head = [f"{name} {what}" for what in ("tokens per CPU-s", "us a token", "tokens/s") for name in servers]
    return table(("surface", "streams", *head, *(["ratio"] if len(servers) > 1 else [])), rows)


def _ratio(found: dict[tuple[str, int, str], list[Figure]], api: str, streams: int) -> float:
    pairs = zip(found[api, streams, OURS], found[api, streams, NAME], strict=True)
    return middle(ours.per_cpu_s / peer.per_cpu_s for ours, peer in pairs)


def model_flags() -> list[str]:
    """The model that both servers are started with."""
    return ["--model-path", str(model_folder("model")), "--model-name", MODEL]


def our_server(running: FrontAndWorker) -> Server:
    """Ours, as the load generator sees it."""
    return Server(OURS, running.front.url, running.pids)


def paced(load: Path, rounds: int) -> list[tuple[object, ...]]:
    """Our frontend at 64 streams of 50 tokens a second: a row a surface."""
    rows: list[tuple[object, ...]] = []
    with FrontAndWorker(model_flags(), worker=("--mock-token-delay-ms", str(PACE_MS))) as running:
        server = our_server(running)
        for api in APIS:
            run_once(load, server, api, streams=8, requests=8, tokens=16)
            runs = [run_once(load, server, api, streams=PACED_STREAMS, requests=PACED_STREAMS, tokens=PACED_TOKENS) for _ in range(rounds)]
            us = middle(one.front_us for one in runs)
            rows.append(
                (api, us, min(one.front_us for one in runs), middle(one.worker_us for one in runs), "yes" if us <= MOST_US else "NO")
            )
    return rows


def profile(load: Path) -> str:
    """Which files the frontend's CPU goes to, full and paced, in per cent of the samples."""
    columns: list[Counter[str]] = []
    for flags, streams, requests, tokens in (
        ((), 64, 1024, OUTPUT_TOKENS),
        (("--mock-token-delay-ms", str(PACE_MS)), 64, 128, PACED_TOKENS),
    ):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "samples"
            environment = {"PYTHONPATH": str(HERE / "sampler"), "BENCH_SAMPLES": str(path)}
            with FrontAndWorker(model_flags(), worker=flags, environment=environment) as running:
                run_once(load, our_server(running), "anthropic", streams=streams, requests=streams, tokens=16)
                os.kill(running.front.pid, signal.SIGUSR2)
                run_once(load, our_server(running), "anthropic", streams=streams, requests=requests, tokens=tokens)
            columns.append(_by_file(path.read_text("utf-8")))
    sums = [sum(column.values()) or 1 for column in columns]
    names = sorted(set().union(*columns), key=lambda name: -columns[0][name])
    shares = {name: [100 * column[name] / all_ for column, all_ in zip(columns, sums, strict=True)] for name in names}
    return table(("file", "full, %", "paced, %"), [(name, *found) for name, found in shares.items() if max(found) >= 1.0])


def _by_file(samples: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in samples.splitlines():
        count, file, _ = line.split("\t")
        path = Path(file)
        found["/".join(path.parts[-2:])] += int(count)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 when a figure could not be taken or the ratio at saturation is missed."""
    options = _options(arguments)
    stop_when_told()
    load = options.load
    sys.stdout.write(f"{this_machine()}\n")
    try:
        if options.profile:
            sys.stdout.write(f"\nOur frontend, by file\n\n{profile(load)}\n")
            return 0
        with ExitStack() as stack:
            servers = [our_server(stack.enter_context(FrontAndWorker(model_flags())))]
            if options.peer is not None:
                peer = stack.enter_context(Peer(options.peer, PEER_PORT, ["mock"]))
                servers.append(Server(NAME, f"http://127.0.0.1:{PEER_PORT}", peer.pids))
            found = figures(load, servers, options.rounds)
        names = [server.name for server in servers]
        sys.stdout.write(f"\nFrontend before one worker, {OUTPUT_TOKENS} tokens an answer, rounds: {options.rounds}\n\n")
        sys.stdout.write(f"{figure_table(found, names)}\n")
        sys.stdout.flush()
        rows = paced(load, options.rounds)
    except BenchError as error:
        sys.stderr.write(f"bench-frontend: {error}\n")
        return 1
    head = ("surface", "us a token", "best", "worker us a token", f"<= {MOST_US:g} us")
    sys.stdout.write(f"\n{PACED_STREAMS} streams, a token every {PACE_MS} ms\n\n{table(head, rows)}\n")
    missed = [
        (api, streams) for api, streams, name in found if name == NAME and streams >= 64 and _ratio(found, api, streams) < LEAST_RATIO
    ]
    for api, streams in missed:
        sys.stdout.write(f"{api}, {streams} streams: less than {LEAST_RATIO:g} of the peer\n")
    return 1 if missed else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.frontend_peer", description="CPU of the frontend for each streamed token.")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="the folder with the peer's up.sh and load.py")
    parser.add_argument("--load", type=Path, metavar="FILE", help="the load generator (default: that of the peer's folder)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each server is asked in turn")
    parser.add_argument("--profile", action="store_true", help="sample our frontend instead")
    options = parser.parse_args(arguments)
    if options.load is None:
        if options.peer is None:
            parser.error("say where the load generator is: --peer FOLDER or --load FILE")
        options.load = options.peer / "load.py"
    return options


if __name__ == "__main__":
    sys.exit(main())
