"""What a long agent prompt costs before its first token, beside the peer and beside plain encoding of the same text.

usage: python -m bench.prompt_cost --peer FOLDER [--rounds N] [--size TOKENS]   (`make bench-prompt`; FOLDER has up.sh and load.py)

Both servers stand before engines that answer at once, with the same model folder. In every round one is asked after the other, by the
shared folder's load generator; what counts is the median of the rounds' ratios.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from tokenizers import Tokenizer as FastTokenizer

from antiphon.config import Settings
from antiphon.model import Model
from antiphon.serve import build
from bench.measure import BenchError, middle, table, this_machine
from bench.peer import NAME, Peer, model_folder, stop_when_told
from bench.server import MockServer
from bench.ttft import rendered_text

SIZE = 52_000
ROUNDS = 5
PEER_PORT = 9125
MODEL = "smol"
OUTPUT_TOKENS = 4
OURS = "Antiphon"
Case = Literal["cold", "repeat", "tail", "shared head"]
REQUESTS: dict[Case, int] = {"cold": 5, "repeat": 15, "tail": 15, "shared head": 5}
WORDS: dict[Case, str] = {
    "cold": "never seen before",
    "repeat": "the same again",
    "tail": "a new last message",
    "shared head": "first seen, system prompt and tools seen before",
}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of one run: milliseconds to the first delta, and the server's CPU milliseconds a request."""

    ttft_ms: float
    cpu_ms: float
    prompt_tokens: int = 0


class Plain(msgspec.Struct, frozen=True, kw_only=True):
    """The plain library on one text: milliseconds, and CPU milliseconds."""

    ms: float
    cpu_ms: float


Text = Literal["whole", "own"]


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one round. `plain` by text and whether character offsets are made: "whole" is a prompt as in the cold case, "own" what
    of it no earlier session has."""

    figures: dict[tuple[str, Case], Figure]
    plain: dict[tuple[Text, bool], Plain]

    def ratio(self, case: Case) -> float:
        """Our time by the peer's."""
        return self.figures[OURS, case].ttft_ms / self.figures[NAME, case].ttft_ms

    def by_plain(self, case: Case, text: Text, *, offsets: bool) -> float:
        """Our time by that of plain encoding."""
        return self.figures[OURS, case].ttft_ms / self.plain[text, offsets].ms


class Server(msgspec.Struct, frozen=True):
    """One server under test."""

    name: str
    address: tuple[str, int]
    pid: int


def load_generator(path: Path) -> dict[str, Any]:
    """The functions of the load generator. It runs when it is imported, by its last line, which is left out."""
    source = path.read_text("utf-8").rstrip()
    if not source.endswith("\nmain()"):
        raise BenchError(f"{path} does not end as expected")
    found: dict[str, Any] = {"__name__": "load"}
    exec(compile(source.removesuffix("main()"), path, "exec"), found)
    return found


def asked_for(size: int) -> argparse.Namespace:
    """The load generator's options, as far as one request needs them."""
    return argparse.Namespace(
        api="anthropic",
        model=MODEL,
        shape="agent",
        prompt_tokens=size,
        output_tokens=OUTPUT_TOKENS,
        suffix="",
        ignore_eos=False,
        newconn=False,
        quickack=True,
    )


def by_load_generator(path: Path, server: Server, case: Case, size: int) -> Figure:
    """One run of the load generator as a process of its own."""
    host, port = server.address
    options: dict[str, object] = {
        "--url": f"http://{host}:{port}",
        "--api": "anthropic",
        "--model": MODEL,
        "--shape": "agent",
        "--mode": case,
        "--prompt-tokens": size,
        "--output-tokens": OUTPUT_TOKENS,
        "--requests": REQUESTS[case],
        "--runs": 1,
        "--pid": server.pid,
    }
    command = [sys.executable, str(path), *(str(word) for pair in options.items() for word in pair), "--quickack", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = done.stdout.rpartition("median ")[2]
    if done.returncode or not told:
        raise BenchError(f"{server.name}, {case}: {done.stderr[-400:] or done.stdout[-400:]}")
    found = json.loads(told)
    if found["bad"]:
        raise BenchError(f"{server.name}, {case}: {found['err']}")
    return Figure(ttft_ms=found["ttft_ms_p50"], cpu_ms=found["cpu_ms_per_req0"], prompt_tokens=found["in"] or 0)


def session_body(load: dict[str, Any], size: int, seed: str, head: str) -> bytes:
    """A session's first request with a system prompt and tools that others have too."""
    options = asked_for(size)
    request = json.loads(load["body"](options, seed)[1])
    request["system"] = json.loads(load["body"](options, head)[1])["system"]
    return json.dumps(request, separators=(",", ":")).encode()


def with_shared_head(load: dict[str, Any], server: Server, size: int, seed: str) -> Figure:
    """Sessions never seen before, behind one that had their system prompt and tools."""
    bodies = [session_body(load, size, f"{seed}/{number}", seed) for number in range(REQUESTS["shared head"] + 1)]

    async def ask() -> tuple[list[float], float]:
        connections: list[Any] = []
        times, spent = [], 0.0
        for number, body in enumerate(bodies):
            before = load["cpu"](server.pid)
            answer = await load["one"](asked_for(size), *server.address, "/v1/messages", body, connections)
            if answer["status"] != 200:
                raise BenchError(f"{server.name}, shared head: {answer['err']}")
            if number:
                times.append(answer["ttft"] * 1e3)
                spent += (load["cpu"](server.pid) - before) * 1e3
        for _, writer in connections:
            writer.close()
        return times, spent / len(times)

    times, cpu = asyncio.run(ask())
    return Figure(ttft_ms=middle(times), cpu_ms=cpu)


def encode_plainly(fast: FastTokenizer, texts: Sequence[str], *, offsets: bool) -> Plain:
    """Medians over the texts. Only the library's batch call can leave the offsets out."""
    spent, cpu = [], []
    for text in texts:
        started, busy = time.perf_counter(), time.process_time()
        if offsets:
            fast.encode(text, add_special_tokens=False)
        else:
            fast.encode_batch_fast([text], add_special_tokens=False)
        cpu.append((time.process_time() - busy) * 1e3)
        spent.append((time.perf_counter() - started) * 1e3)
    return Plain(ms=middle(spent), cpu_ms=middle(cpu))


def take_round(load_path: Path, load: dict[str, Any], servers: Sequence[Server], model: Model, size: int) -> Round:
    """Each case on one server after the other."""
    figures: dict[tuple[str, Case], Figure] = {}
    for case in REQUESTS:
        for server in servers:
            seed = f"{server.name}/{time.time_ns()}"
            shared = case == "shared head"
            figures[server.name, case] = (
                with_shared_head(load, server, size, seed) if shared else by_load_generator(load_path, server, case, size)
            )
    bodies = [load["body"](asked_for(size), f"plain/{time.time_ns()}/{number}")[1] for number in range(REQUESTS["cold"])]
    texts = [rendered_text(model, body) for body in bodies]
    # The first control token behind the system message begins what a session has of its own.
    header = model.family.frame.assistant_header.replace("assistant", "user")
    kinds: dict[Text, list[str]] = {"whole": texts, "own": [text[text.index(header) :] for text in texts]}
    fast = FastTokenizer.from_file(str(model_folder("model") / "tokenizer.json"))
    encode_plainly(fast, texts[:1], offsets=True)
    plain = {(kind, offsets): encode_plainly(fast, found, offsets=offsets) for kind, found in kinds.items() for offsets in (True, False)}
    return Round(figures=figures, plain=plain)


class Target(msgspec.Struct, frozen=True):
    """A bound for the median of the rounds' ratios."""

    what: str
    ratio: Callable[[Round], float]
    bound: float


TARGETS = (
    Target(f"{WORDS['tail']}, by the peer", lambda one: one.ratio("tail"), 0.15),
    Target(f"{WORDS['repeat']}, by the peer", lambda one: one.ratio("repeat"), 2.0),
    Target(f"{WORDS['cold']}, by plain encoding", lambda one: one.by_plain("cold", "whole", offsets=True), 1.2),
    Target("the same, offsets left out", lambda one: one.by_plain("cold", "whole", offsets=False), 1.2),
    Target(f"{WORDS['shared head']}, by plain encoding of the rest", lambda one: one.by_plain("shared head", "own", offsets=True), 1.2),
    Target("the same, offsets left out", lambda one: one.by_plain("shared head", "own", offsets=False), 1.2),
)


def figure_table(rounds: Sequence[Round]) -> str:
    """Medians over the rounds."""
    rows: list[tuple[object, ...]] = []
    for case, words in WORDS.items():
        cells = [
            middle(getattr(one.figures[name, case], what) for one in rounds) for what in ("ttft_ms", "cpu_ms") for name in (OURS, NAME)
        ]
        rows.append((words, *cells, middle(one.ratio(case) for one in rounds)))
    return table(("prompt", f"{OURS} ms", f"{NAME} ms", f"{OURS} CPU ms", f"{NAME} CPU ms", "ratio of times"), rows)


def encode_table(rounds: Sequence[Round]) -> str:
    """Plain encoding in the same rounds."""
    words: dict[Text, str] = {"whole": "the whole prompt", "own": "without system prompt and tools"}
    rows = []
    for kind, word in words.items():
        for offsets in (True, False):
            cells = [middle(getattr(one.plain[kind, offsets], what) for one in rounds) for what in ("ms", "cpu_ms")]
            rows.append((word, "yes" if offsets else "no", *cells))
    return table(("plain encoding of", "offsets", "ms", "CPU ms"), rows)


def target_table(rounds: Sequence[Round]) -> str:
    """Every target with its ratio."""
    rows = []
    for target in TARGETS:
        found = middle(target.ratio(one) for one in rounds)
        rows.append((target.what, found, f"{target.bound:g}", "yes" if found <= target.bound else "NO"))
    return table(("target", "ratio", "at most", "met"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 1 when a figure could not be taken."""
    options = _options(arguments)
    stop_when_told()
    sys.stdout.write(f"{this_machine()}\n")
    folder, load_path = model_folder("model"), options.peer / "load.py"
    try:
        load = load_generator(load_path)
        model, _ = build(Settings(engine="mock", model_path=folder, model_name=MODEL))
        with MockServer("--model-path", str(folder), "--model-name", MODEL) as ours, Peer(options.peer, PEER_PORT, ["mock"]) as peer:
            servers = [Server(OURS, ours.address, ours.pid), Server(NAME, peer.address, peer.pids[0])]
            # The first round imports, compiles and fills the caches; it is not counted.
            rounds = [take_round(load_path, load, servers, model, options.size) for _ in range(options.rounds + 1)][1:]
    except BenchError as error:
        sys.stderr.write(f"bench-prompt: {error}\n")
        return 1
    tokens = rounds[-1].figures[OURS, "cold"].prompt_tokens
    sys.stdout.write(f"\nTime to the first token, agent-shaped prompts of {tokens:,} tokens, rounds: {len(rounds)}, medians\n\n")
    sys.stdout.write(f"{figure_table(rounds)}\n\n{encode_table(rounds)}\n\n{target_table(rounds)}\n")
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.prompt_cost", description="What a long prompt costs before its first token.")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", required=True, help="the folder with the peer's up.sh and load.py")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each server is asked in turn")
    parser.add_argument("--size", type=int, default=SIZE, help="tokens of a prompt, about")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
