"""CPU of one routing decision: a 52K-token prompt in blocks of 16, hashing, look-up, choice and bookkeeping included. usage: python -m
bench.router_cpu [--sessions N]"""

import argparse
import random
import statistics
import sys
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence

from antiphon.engines.base import Placement
from antiphon.router.ask import Ask, Placed, WorkerInfo
from antiphon.router.cost import Overlap
from antiphon.router.feed_blocks import DEVICE
from antiphon.router.hashing import extend, root_of
from antiphon.router.kv_blocks import TargetBlocks, levels
from antiphon.router.kv_pipe import Record
from antiphon.router.router import Router, RouterOptions
from antiphon.router.sight import Level
from antiphon.simulation.fleet import EventView
from bench.measure import this_machine

PROMPT_TOKENS = 52_000
GROWTH = 2_048
SHARED = 20_000
BLOCK = 16
FLEETS = (8, 64, 256, 1024)


class Listened:
    """What `KvIndex` does with the blocks that its listener has told of: a set for each worker, each asked for every prompt."""

    def __init__(self) -> None:
        self._targets: dict[str, TargetBlocks] = {}

    def store(self, worker: str, hashes: Sequence[int]) -> None:
        """The worker holds these blocks now."""
        blocks = self._targets.setdefault(worker, TargetBlocks())
        blocks.apply(Record(source=0, tier=DEVICE, operation="store", hashes=list(hashes)))

    def overlaps(self, hashes: Sequence[int]) -> Mapping[str, Overlap]:
        """As `KvView`."""
        return {name: overlap for overlap, names in self.levels(hashes) for name in names}

    def levels(self, hashes: Sequence[int]) -> Iterable[Level]:
        """As `KvIndex`."""
        return levels(self._targets.items(), hashes)

    def is_live(self, target: str) -> bool:
        """As `KvView`."""
        return True

    def routed(self, target: str, hashes: Sequence[int]) -> None:
        """As `KvView`."""
        self._targets[target].holds_all(hashes)


class Levelled(EventView):
    """One index of all workers, which tells of groups."""

    def store(self, worker: str, hashes: Sequence[int]) -> None:
        """The worker holds these blocks now."""
        self.index.store(worker, hashes)


def decisions(workers: int, sessions: int, view: Listened | Levelled) -> tuple[list[float], list[float]]:
    """Microseconds of each session's first turn, and of its second, which is `GROWTH` tokens longer. Each worker holds the shared
    beginning and the sessions it served."""
    router = Router(RouterOptions(), clock=time.monotonic, random=random.Random(1), view=view)
    for number in range(workers):
        router.join(WorkerInfo(name=f"worker-{number}"))
    dice = random.Random(2)
    shared = [dice.randrange(150_000) for _ in range(SHARED)]
    for number in range(workers):
        view.store(f"worker-{number}", extend(shared, root_of(""), BLOCK))
    firsts: list[float] = []
    seconds: list[float] = []
    for session in range(sessions):
        ids = array("I", shared + [dice.randrange(150_000) for _ in range(PROMPT_TOKENS - SHARED)])
        for turn, times in enumerate((firsts, seconds)):
            prompt = ids[: len(ids) - GROWTH] if turn == 0 else ids
            name = f"session-{session}"
            ask = Ask(key=f"{name}-{turn}", prompt_tokens=len(prompt), ids=prompt, arrival=0.0, placement=Placement(session=name))
            began = time.thread_time_ns()
            placed = router.ask(ask)
            times.append((time.thread_time_ns() - began) / 1000)
            assert isinstance(placed, Placed)
            view.store(placed.worker, extend(prompt, root_of(""), BLOCK))
            router.done(ask.key)
    return firsts, seconds


def hashing(prompts: int) -> tuple[float, float]:
    """Microseconds of hashing a whole prompt: the median, and the 99th percentile."""
    dice = random.Random(3)
    spent = []
    for _ in range(prompts):
        ids = array("I", dice.choices(range(150_000), k=PROMPT_TOKENS))
        began = time.thread_time_ns()
        extend(ids, root_of(""), BLOCK)
        spent.append((time.thread_time_ns() - began) / 1000)
    return statistics.median(spent), sorted(spent)[int(0.99 * len(spent))]


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100, help="sessions for each size of the fleet (default 100)")
    options = parser.parse_args()
    sys.stdout.write(f"{this_machine()}\n\nmicroseconds of CPU, one decision, {PROMPT_TOKENS:,} tokens, block {BLOCK}\n\n")
    sys.stdout.write("| workers | index | new session, median | known session, median | known session, p99 |\n|---:|---|---:|---:|---:|\n")
    for workers in FLEETS:
        for view in (Levelled(), Listened()):
            firsts, seconds = decisions(workers, options.sessions, view)
            p99 = statistics.quantiles(seconds, n=100)[98]
            cells = f"{statistics.median(firsts):.0f} | {statistics.median(seconds):.0f} | {p99:.0f}"
            sys.stdout.write(f"| {workers:,} | {type(view).__name__.lower()} | {cells} |\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
