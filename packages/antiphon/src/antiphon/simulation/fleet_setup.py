"""Simulated fleets by their options."""

from typing import Literal

import msgspec

from antiphon.load.plan import plan
from antiphon.load.trace import Tree
from antiphon.load.workload import Poisson, Workload
from antiphon.router.ask import WorkerInfo
from antiphon.router.router import RouterOptions
from antiphon.simulation.batch import Batch, BatchLimits
from antiphon.simulation.batch_worker import BatchWorker, TokenPrompts
from antiphon.simulation.count_worker import CountWorker
from antiphon.simulation.fleet import EventView, Fleet
from antiphon.simulation.fleet_worker import FleetWorker
from antiphon.simulation.paged_cache import PagedCache
from antiphon.simulation.prompts import BlockPrompts
from antiphon.simulation.run_cache import RunCache
from antiphon.simulation.timing import PRESETS


class FleetSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet of equal workers. `engine`: "count" counts blocks, "batch" runs the mock engine's batch over real token ids. `speed` names a
    preset of `timing.py`; `cache_tokens` is what one worker's cache holds; `step_tokens` what it computes in a step."""

    workers: int
    engine: Literal["count", "batch"] = "count"
    block_tokens: int = 64
    cache_tokens: int = 400_000
    speed: str = "b200"
    step_tokens: int = 8192
    sequences: int = 256
    router: RouterOptions = RouterOptions()
    seed: int = 0


def fleet_of(setup: FleetSetup) -> Fleet:
    """A fresh fleet."""
    block = setup.block_tokens
    tokens = TokenPrompts(block)
    exact = setup.engine == "batch"
    view = EventView(tokens.stored if exact else None)
    blocks = setup.cache_tokens // block
    limits = BatchLimits(step_tokens=setup.step_tokens, sequences=setup.sequences)
    timing = PRESETS[setup.speed]
    members: dict[str, tuple[WorkerInfo, FleetWorker]] = {}
    for number in range(setup.workers):
        name = f"worker-{number}"
        ear = view.listener(name)
        worker: FleetWorker
        if exact:
            worker = BatchWorker(Batch(PagedCache(blocks, block, clock=lambda: 0.0), timing, limits), ear)
        else:
            worker = CountWorker(RunCache(blocks, ear), timing, limits, block)
        members[name] = (
            WorkerInfo(name=name, block_tokens=block, batch_tokens=setup.step_tokens, cache_blocks=blocks, prioritizes=True),
            worker,
        )
    prompts = tokens if exact else BlockPrompts(block)
    return Fleet(members, prompts=prompts, view=view, block_tokens=block, options=setup.router, seed=setup.seed)


def at_rate(workload: Workload, sessions_per_second: float) -> Workload:
    """The same sessions, arriving so often."""
    return msgspec.structs.replace(workload, arrivals=Poisson(sessions_per_second=sessions_per_second))


def planned(workload: Workload, *, rate: float, sessions: int, seed: int) -> list[Tree]:
    """So many sessions of a workload at so many a second, to be asked of several fleets."""
    return list(plan(at_rate(workload, rate), seed=seed, sessions=sessions))
