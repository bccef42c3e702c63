"""`antiphon simulate`: options in, simulated fleets, tables and charts out."""

import gc
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from antiphon.load.figures import Spread
from antiphon.load.plan import plan
from antiphon.load.svg import Axis, Chart, Points, ecdf, page
from antiphon.load.trace import Tree
from antiphon.load.workload import Workload
from antiphon.router.router import RouterOptions
from antiphon.simulation.fleet_figures import FleetFigures, fleet_figures
from antiphon.simulation.fleet_setup import FleetSetup, at_rate, fleet_of
from antiphon.simulation.timing import PRESETS
from antiphon_turns import RouterMode
from antiphon_turns.errors import ConfigError

PIPE_COLUMNS = 160


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said. `trees`: a trace; else sessions of `workload`, `sessions` in all or so many for each worker, at `rate` a
    second for each worker. `fleet` is the setup that all runs share."""

    fleets: Sequence[int]
    modes: Sequence[RouterMode]
    workload: Workload
    trees: Sequence[Tree] | None
    sessions: int | None
    sessions_per_worker: int
    rate: float
    fleet: FleetSetup
    plot: Path | None = None
    as_json: bool = False


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """One run with what a chart needs of it, and the seconds of real time it took."""

    figures: FleetFigures
    ttft_ms: Points
    wall_s: float


def simulate(options: Options) -> int:
    """Runs every mode on every fleet. Raises ConfigError for speeds that take no time."""
    if options.fleet.speed not in PRESETS or PRESETS[options.fleet.speed].is_instant:
        names = ", ".join(name for name, timing in PRESETS.items() if not timing.is_instant)
        raise ConfigError(f"a simulation needs a speed at which things take time: {names}")
    console = Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    found = []
    for one in _runs(options):
        found.append(one)
        if not options.as_json:
            figures = one.figures
            console.print(f"{figures.workers:,} workers, {figures.label}: {one.wall_s:.1f} s", style="dim", highlight=False)
    if options.plot is not None:
        options.plot.write_text(page(charts_of(found)), "utf-8")
    if options.as_json:
        sys.stdout.buffer.write(msgspec.json.encode([one.figures for one in found]) + b"\n")
    else:
        show(console, [one.figures for one in found])
    return 0


def _runs(options: Options) -> Iterator[Simulated]:
    for workers in options.fleets:
        for mode in options.modes:
            yield run_once(options, workers, mode)


def run_once(options: Options, workers: int, mode: RouterMode) -> Simulated:
    """One fleet in one mode."""
    router = msgspec.structs.replace(options.fleet.router, mode=mode)
    fleet = fleet_of(msgspec.structs.replace(options.fleet, workers=workers, router=router))
    sessions = options.sessions or options.sessions_per_worker * workers
    seed = options.fleet.seed
    trees = options.trees or plan(at_rate(options.workload, options.rate * workers), seed=seed, sessions=sessions)
    began = time.perf_counter()
    # Millions of long-lived objects without cycles: looking for these over and over would cost more than the simulation.
    gc.disable()
    try:
        outcome = fleet.run(trees, places=workers)
    finally:
        gc.enable()
    ttft = ecdf([1000 * value for one in outcome.classes.values() for value in one.ttft])
    return Simulated(figures=fleet_figures(mode, outcome), ttft_ms=ttft, wall_s=time.perf_counter() - began)


def show(console: Console, found: Sequence[FleetFigures]) -> None:
    """Placement, classes where there are several, and what the router cost."""
    table = _table(
        "workers", "mode", "requests", "refused", "TTFT ms", "cached", "of attainable", "busy", "busiest", "queued", "simulated s"
    )
    for one in found:
        all_ = one.all
        table.add_row(
            f"{one.workers:,}",
            one.label,
            f"{all_.requests:,}",
            f"{all_.refused:,}",
            times(all_.ttft_ms),
            f"{100 * all_.hit_rate:.1f} %",
            f"{100 * all_.attained:.1f} %",
            f"{100 * one.busy:.0f} %",
            f"{one.busiest:.2f}",
            f"{one.most_queued:,}",
            f"{one.seconds:,.0f}",
        )
    console.print(table)
    console.print(
        "Times are p50 / p90 / p99. cached: of the prompt tokens; of attainable: of those that one endless cache would have held.\n"
        "busiest: the most busy worker by the average. queued: the most at one time.",
        style="dim",
        highlight=False,
    )
    if any(len(one.classes) > 2 for one in found):
        console.print(_class_table(found))
    console.print(_cost_table(found))
    console.print("Microseconds of CPU on this machine, the look-up of what workers hold included.", style="dim", highlight=False)
    for line in growth(found):
        console.print(line, highlight=False)


def growth(found: Sequence[FleetFigures]) -> list[str]:
    """How the cost of a decision grows from the smallest fleet to the largest, beside the logarithm."""
    lines = []
    for label in dict.fromkeys(one.label for one in found):
        runs = sorted((one for one in found if one.label == label), key=lambda one: one.workers)
        if len(runs) > 1 and 1 < runs[0].workers < runs[-1].workers:
            grown = runs[-1].ask_us_p50 / runs[0].ask_us_p50
            logarithm = math.log(runs[-1].workers) / math.log(runs[0].workers)
            lines.append(
                f"{label}: from {runs[0].workers:,} to {runs[-1].workers:,} workers a decision costs {grown:.2f} times as much; "
                f"the logarithm grows {logarithm:.2f} times"
            )
    return lines


def charts_of(found: Sequence[Simulated]) -> list[Chart]:
    """Against the size of the fleet: what a decision costs, how much is found cached, how long the first token takes; and how the times
    of the largest fleet are distributed."""
    size = Axis(label="workers", log=True)
    labels = list(dict.fromkeys(one.figures.label for one in found))

    def by_size(value: "Sequence[float]") -> dict[str, Points]:
        pairs = list(zip(found, value, strict=True))
        return {label: [(one.figures.workers, each) for one, each in pairs if one.figures.label == label] for label in labels}

    largest = max((one.figures.workers for one in found), default=0)
    ends: dict[str, Points] = {one.figures.label: one.ttft_ms for one in found if one.figures.workers == largest}
    return [
        Chart(
            title="Router CPU of a decision, median",
            x=size,
            y=Axis(label="us"),
            lines=by_size([one.figures.ask_us_p50 for one in found]),
        ),
        Chart(
            title="Cached tokens of the attainable",
            x=size,
            y=Axis(label="share"),
            lines=by_size([one.figures.all.attained for one in found]),
        ),
        Chart(
            title="Time to the first token, median",
            x=size,
            y=Axis(label="ms", log=True),
            lines=by_size([one.figures.all.ttft_ms.p50 or 0 for one in found]),
        ),
        Chart(title=f"Time to the first token, {largest:,} workers", x=Axis(label="ms", log=True), y=Axis(label="share"), lines=ends),
    ]


def times(values: Spread) -> str:
    """Three percentiles."""
    cells = [values.p50, values.p90, values.p99]
    return " / ".join("-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in cells)


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for at, name in enumerate(names):
        table.add_column(name, justify="left" if at == 1 else "right")
    return table


def _class_table(found: Sequence[FleetFigures]) -> Table:
    table = _table("workers", "mode", "class", "requests", "TTFT ms", "in the queue ms", "end to end ms", "cached")
    for one in found:
        for kind in one.classes[:-1]:
            table.add_row(
                f"{one.workers:,}",
                one.label,
                kind.name,
                f"{kind.requests:,}",
                *(times(values) for values in (kind.ttft_ms, kind.waited_ms, kind.whole_ms)),
                f"{100 * kind.hit_rate:.1f} %",
            )
    return table


def _cost_table(found: Sequence[FleetFigures]) -> Table:
    table = _table("workers", "mode", "decision us, p50", "p99", "all a request costs, us")
    for one in found:
        table.add_row(f"{one.workers:,}", one.label, f"{one.ask_us_p50:.0f}", f"{one.ask_us_p99:.0f}", f"{one.router_us:.0f}")
    return table


def modes_of(names: Sequence[str]) -> list[RouterMode]:
    """Raises ConfigError for a name that is no mode."""
    known: tuple[RouterMode, ...] = get_args(RouterMode)
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no router mode {name!r}; take {', '.join(known)}")
    return [mode for name in names for mode in known if mode == name]


def router_options(*, queue_threshold: float, affinity: str) -> RouterOptions:
    """A threshold of 0: nothing waits."""
    threshold = queue_threshold or None
    return msgspec.convert({"queue_threshold": threshold, "affinity": affinity, "queue_limit": 1 << 30}, RouterOptions)
