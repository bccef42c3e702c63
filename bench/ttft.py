"""What the frontend adds to the time to first token. The mock engine answers at once, so all of it is the frontend's."""

import time
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from antiphon.config import Settings
from antiphon.model import Model
from antiphon.serve import build
from antiphon_protocols import messages
from bench.client import Answer, ask_in_turn
from bench.measure import middle, table
from bench.prompts import SURFACES, SurfaceName, agent_body, body, plain_turns, words
from bench.server import MockServer

SIZES = (1_000, 8_000)
AGENT_SIZE = 52_000
OUTPUT_TOKENS = 8
Kind = Literal["cold", "same again", "grown"]


class TtftFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from the first byte sent to the first delta, medians over `requests`, and the server's CPU per request."""

    surface: SurfaceName
    shape: Literal["plain", "agent"]
    kind: Kind
    prompt_tokens: int
    requests: int
    p50_ms: float
    p90_ms: float
    cpu_ms: float


class EncodeFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds, and CPU milliseconds, to encode the same rendered prompt in one go with the plain tokenizer library."""

    prompt_tokens: int
    p50_ms: float
    cpu_ms: float


def take(server: MockServer, surface: SurfaceName, bodies: Iterable[bytes], *, kind: Kind, shape: Literal["plain", "agent"]) -> TtftFigure:
    """Asks the bodies one after the other."""
    ready = list(bodies)
    cpu = server.cpu_seconds()
    answers = ask_in_turn(server.address, surface, ready)
    cpu = server.cpu_seconds() - cpu
    times = sorted(answer.first_delta_s * 1e3 for answer in answers)
    return TtftFigure(
        surface=surface,
        shape=shape,
        kind=kind,
        prompt_tokens=round(middle(answer.prompt_tokens for answer in answers)),
        requests=len(answers),
        p50_ms=middle(times),
        p90_ms=times[int(0.9 * (len(times) - 1))],
        cpu_ms=cpu / len(answers) * 1e3,
    )


def warm_up(server: MockServer, surface: SurfaceName) -> list[Answer]:
    """The first requests of a process import and compile things."""
    return ask_in_turn(server.address, surface, [body(surface, plain_turns(64, f"warm{n}"), output_tokens=4) for n in range(3)])


def plain_figures(server: MockServer, *, sizes: Sequence[int], requests: int) -> list[TtftFigure]:
    """One user message of each size: never seen before, and the same again."""
    figures = []
    for surface in SURFACES:
        warm_up(server, surface)
        for size in sizes:
            unseen = [body(surface, plain_turns(size, f"{surface}/{size}/{n}"), output_tokens=OUTPUT_TOKENS) for n in range(requests)]
            figures.append(take(server, surface, unseen, kind="cold", shape="plain"))
            figures.append(take(server, surface, [unseen[-1]] * requests, kind="same again", shape="plain"))
    return figures


def agent_figures(server: MockServer, *, size: int, cold: int, warm: int) -> list[TtftFigure]:
    """An agent's long session: never seen before, the same again, and gone on by one exchange that differs each time."""
    figures = []
    for surface in SURFACES:
        warm_up(server, surface)
        unseen = [agent_body(surface, size, f"{surface}/{n}", output_tokens=OUTPUT_TOKENS) for n in range(cold)]
        figures.append(take(server, surface, unseen, kind="cold", shape="agent"))
        figures.append(take(server, surface, [unseen[-1]] * warm, kind="same again", shape="agent"))
        last = f"{surface}/{cold - 1}"
        grown = [agent_body(surface, size, last, output_tokens=OUTPUT_TOKENS, added=words(60, f"new{n}")) for n in range(warm)]
        figures.append(take(server, surface, grown, kind="grown", shape="agent"))
    return figures


def ttft_figures(
    *, sizes: Sequence[int] = SIZES, requests: int = 21, agent_size: int = AGENT_SIZE, agent_cold: int = 7, agent_warm: int = 15
) -> list[TtftFigure]:
    """Everything, on one server. Its engine has no prefix cache: what that costs is not the frontend's."""
    with MockServer("--mock-cache-blocks", "0") as server:
        return [
            *plain_figures(server, sizes=sizes, requests=requests),
            *agent_figures(server, size=agent_size, cold=agent_cold, warm=agent_warm),
        ]


def rendered_text(model: Model, request: bytes) -> str:
    """The prompt of a Messages request as text."""
    return model.renderer.render(messages.ingest(request, {}).turn).text


def encode_figure(*, size: int = AGENT_SIZE, repeats: int = 7) -> EncodeFigure:
    """The yardstick for a long cold prompt: the tokenizer library alone, on the same texts, in this process."""
    model, _ = build(Settings(engine="mock"))
    spent, cpu, tokens = [], [], 0
    for number in range(repeats):
        text = rendered_text(model, agent_body("messages", size, f"messages/{number}", output_tokens=OUTPUT_TOKENS))
        started, busy = time.perf_counter(), time.process_time()
        tokens = len(model.tokenizer.encode(text, added=True))
        cpu.append((time.process_time() - busy) * 1e3)
        spent.append((time.perf_counter() - started) * 1e3)
    return EncodeFigure(prompt_tokens=tokens, p50_ms=middle(spent), cpu_ms=middle(cpu))


def ttft_table(figures: Sequence[TtftFigure]) -> str:
    """The figures as text."""
    rows = [(f.surface, f.shape, f.prompt_tokens, f.kind, f.requests, f.p50_ms, f.p90_ms, f.cpu_ms) for f in figures]
    return table(("surface", "shape", "prompt tokens", "prompt", "requests", "p50 ms", "p90 ms", "CPU ms per request"), rows)
