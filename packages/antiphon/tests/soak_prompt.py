"""Memory of the prompt path over many sessions, in one process, without HTTP. `python -m packages.antiphon.tests.soak_prompt`

Plays sessions of short prompts through surfaces, recall, renderer, encoder, decoder and projector, and prints how much the process
grows per 10,000 requests once its caches are full. Exit status 1 if that is a megabyte or more.

Caches are bounded lower than a server's defaults, so that they are full when the measurement begins; what they hold is shown.
"""

import argparse
import gc
import random
import sys
from functools import partial
from itertools import cycle
from pathlib import Path

from packages.antiphon.tests.replay_clients import CLIENTS
from packages.antiphon.tests.replay_world import TOOLS, Frontend, family_model, sampled, some_turn

from antiphon import seals
from antiphon.pipeline import PipelineOptions
from antiphon.prompts import PromptOptions
from antiphon.stabilize import ANTHROPIC_PREAMBLE
from antiphon_tokenizers.runcache import RunCache

MEMO_IDS = 200_000
SAMPLES = 40
LIMIT = 1 << 20


def resident() -> int:
    """Bytes of this process in memory."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmRSS in /proc/self/status")


def slope(points: list[tuple[int, int]]) -> float:
    """Bytes a request, by least squares."""
    count = len(points)
    x, y = sum(p[0] for p in points) / count, sum(p[1] for p in points) / count
    return sum((p[0] - x) * (p[1] - y) for p in points) / sum((p[0] - x) ** 2 for p in points)


def play_session(frontend: Frontend, name: str, dice: random.Random, turns: int, *, tenant: str) -> None:
    """One session whose words no other one has."""
    client = CLIENTS[name](TOOLS)
    client.said[0]["content"] += f" {dice.random()}"
    for _ in range(turns):
        made = some_turn(dice, frontend.model.family.name, last=dice.random() < 0.3)
        asked = frontend.ask(client.surface, client.body(), partial(sampled, model=frontend.model, made=made, dice=dice), tenant=tenant)
        client.take(asked.answer)
        # Short prompts: an agent that forgets what is old.
        if len(client.said) > 6 and client.said[-1].get("role") == "user" and isinstance(client.said[-1].get("content"), str):
            client.said = client.said[-1:]


def main() -> None:
    """Plays, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--warm", type=int, default=20_000, help="requests before the measurement begins")
    parser.add_argument("--cache-bytes", type=int, default=4 << 20, help="the bound of each cache")
    parser.add_argument("--family", default="qwen3_coder")
    chosen = parser.parse_args()
    total = chosen.sessions * chosen.turns
    if total <= chosen.warm:
        parser.error(f"{total} requests are no more than the {chosen.warm} before the measurement; lower --warm")
    seals.MEMO_IDS = MEMO_IDS
    model = family_model(chosen.family)
    model.tokenizer.cache = RunCache(chosen.cache_bytes)
    prompts = PromptOptions(rules=(ANTHROPIC_PREAMBLE,))
    options = PipelineOptions(prompts=prompts, ledger_bytes=chosen.cache_bytes, compared_bytes=chosen.cache_bytes)
    points: list[tuple[int, int]] = []
    every = max((total - chosen.warm) // SAMPLES, chosen.turns)
    with Frontend(model, options=options) as frontend:
        watch, ledger = frontend.pipeline.watch, frontend.pipeline.ledger
        for number, name in zip(range(chosen.sessions), cycle(CLIENTS), strict=False):
            play_session(frontend, name, random.Random(number), chosen.turns, tenant=f"t{number % 7}")
            done = (number + 1) * chosen.turns
            if done >= chosen.warm and (not points or done - points[-1][0] >= every):
                gc.collect()
                points.append((done, resident()))
        held = f"ledger {ledger.bytes >> 10} KiB, compared {watch.sent.bytes >> 10} KiB, runs {model.tokenizer.cache.bytes >> 10} KiB"
    growth = slope(points) * 10_000
    first, last = points[0], points[-1]
    sys.stdout.write(
        f"{total} requests in {chosen.sessions} sessions; {held}\n"
        f"resident {first[1] / 1e6:.1f} MB after {first[0]} requests, {last[1] / 1e6:.1f} MB after {last[0]}\n"
        f"growth {growth / 1e6:+.3f} MB per 10,000 requests (by least squares over {len(points)} samples; below {LIMIT / 1e6:.2f} wanted)\n"
    )
    sys.exit(1 if growth >= LIMIT else 0)


if __name__ == "__main__":
    main()
