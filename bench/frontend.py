"""Frontend CPU per streamed token: the whole server process with the mock engine, at one stream and at 64, paced and flat out."""

import time
from collections.abc import Sequence

import msgspec

from bench.client import ask_all
from bench.measure import BenchError, middle, table
from bench.prompts import SURFACES, SurfaceName, body, plain_turns
from bench.server import MockServer

STREAMS = (1, 64)
TARGET_US = 45.0
PROMPT_TOKENS = 100
PACE_MS = 20
# Long enough that the request itself, about a millisecond, is small beside the tokens.
PACED_TOKENS = 250
FULL_TOKENS = 256
FULL_REQUESTS = {1: 24, 64: 192}


class FrontendFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of the repeats. CPU is the server's whole process: requests, the mock engine and HTTP included."""

    surface: SurfaceName
    streams: int
    paced: bool
    us_per_token: float
    tokens_per_cpu_s: float
    tokens_per_s: float
    best: float
    worst: float


def run_once(server: MockServer, surface: SurfaceName, *, streams: int, requests: int, tokens: int) -> tuple[float, float, int]:
    """CPU seconds of the server, wall seconds, output tokens. Raises BenchError when a token is missing."""
    bodies = [body(surface, plain_turns(PROMPT_TOKENS, f"{surface}{number}"), output_tokens=tokens) for number in range(requests)]
    cpu, wall = server.cpu_seconds(), time.perf_counter()
    answers = ask_all(server.address, surface, bodies, streams=streams, seconds=90)
    wall = time.perf_counter() - wall
    cpu = server.cpu_seconds() - cpu
    sampled = sum(answer.output_tokens for answer in answers)
    if sampled != requests * (tokens + 1):
        raise BenchError(f"{requests} requests for {tokens} tokens and the end of turn gave {sampled} tokens")
    return cpu, wall, sampled


def figures_of(server: MockServer, *, streams: Sequence[int], paced: bool, repeats: int, tokens: int) -> list[FrontendFigure]:
    """Both surfaces, in turn within each repeat."""
    figures = []
    for count in streams:
        requests = count if paced else FULL_REQUESTS.get(count, count)
        runs: dict[SurfaceName, list[tuple[float, float, int]]] = {surface: [] for surface in SURFACES}
        for surface in SURFACES:
            run_once(server, surface, streams=count, requests=count, tokens=8)
        for _ in range(repeats):
            for surface in SURFACES:
                runs[surface].append(run_once(server, surface, streams=count, requests=requests, tokens=tokens))
        for surface, found in runs.items():
            each = [cpu / sampled * 1e6 for cpu, _, sampled in found]
            figures.append(
                FrontendFigure(
                    surface=surface,
                    streams=count,
                    paced=paced,
                    us_per_token=middle(each),
                    tokens_per_cpu_s=1e6 / middle(each),
                    tokens_per_s=middle(sampled / wall for _, wall, sampled in found),
                    best=min(each),
                    worst=max(each),
                )
            )
    return figures


def frontend_figures(
    *,
    streams: Sequence[int] = STREAMS,
    repeats: int = 5,
    paced_repeats: int = 3,
    full_tokens: int = FULL_TOKENS,
    paced_tokens: int = PACED_TOKENS,
    pace_ms: float = PACE_MS,
) -> list[FrontendFigure]:
    """Flat out, then paced."""
    with MockServer() as server:
        figures = figures_of(server, streams=streams, paced=False, repeats=repeats, tokens=full_tokens)
    with MockServer("--mock-token-delay-ms", str(pace_ms)) as server:
        figures += figures_of(server, streams=streams, paced=True, repeats=paced_repeats, tokens=paced_tokens)
    return figures


def frontend_table(figures: Sequence[FrontendFigure]) -> str:
    """The figures as text."""
    rows = [
        (f.surface, f.streams, "paced" if f.paced else "full", f.us_per_token, f.best, f.worst, f.tokens_per_cpu_s, f.tokens_per_s)
        for f in figures
    ]
    return table(("surface", "streams", "speed", "CPU us per token", "best", "worst", "tokens per CPU-s", "tokens per s"), rows)
