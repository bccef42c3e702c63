"""The router before eight simulated workers: by cache against round robin, urgent against background; what a decision costs, and how that
grows with the fleet. usage: python -m bench.router_fleet [--only routing|priority|decision|scaling] [--quick] [--plot FILE]

The engines are those of the mock engine (`simulation/batch.py`) with real token ids, at the simulated speed of a B200; time is simulated,
the router's CPU is not. Exit status 1 when a must-hold is missed.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from antiphon.load.lengths import LogNormal
from antiphon.load.presets import PRESETS
from antiphon.load.svg import Axis, Chart, ecdf, page
from antiphon.load.trace import PlannedRequest, Tree
from antiphon.load.workload import Children, Closed, SessionClass, Workload
from antiphon.router.router import RouterOptions
from antiphon.simulation.fleet import FleetOutcome
from antiphon.simulation.fleet_figures import FleetFigures, fleet_figures
from antiphon.simulation.fleet_setup import FleetSetup, fleet_of, planned
from antiphon.simulation.simulate import growth, times
from antiphon_turns import RouterMode
from bench.measure import table, this_machine
from bench.router_cpu import Levelled, Listened, decisions, hashing

WORKERS = 8
LEAST_SPEEDUP = 3.0
LEAST_ATTAINED = 0.9
MOST_SLOWDOWN = 1.3
OVERLOAD = 2.0
MOST_DECISION_US = 300.0
SECONDS = 60.0

# Agents of a dozen kinds, each with a system prompt of its own; their sessions together fill the caches of eight workers once, and not
# eight times.
AGENTS = SessionClass(
    heads=12,
    head_tokens=12_000,
    turns=LogNormal(median=20, sigma=0.5, low=4, high=60),
    first_tokens=LogNormal(median=1200, sigma=0.8, low=50, high=8000),
    new_tokens=LogNormal(median=700, sigma=1.0, low=30, high=8000),
    output_tokens=LogNormal(median=100, sigma=0.7, low=8, high=800),
    pause_seconds=LogNormal(median=1.0, sigma=0.8, low=0.05, high=20),
    children=Children(probability=0.03, count=3, share="history", turns=3),
)
AGENT_CACHE = 240_000
# No more at once than the cache has room for, or engines put sequences back and compute them again.
AGENT_SEQUENCES = 5
AGENT_RATE = 1.3
AGENT_SESSIONS = 100
# A turn of an agent that somebody waits for, behind which it has read a file; and work that nobody waits for.
URGENT = SessionClass(
    priority=100,
    heads=4,
    head_tokens=8000,
    turns=4,
    first_tokens=LogNormal(median=4000, sigma=0.3, low=500, high=12_000),
    new_tokens=LogNormal(median=4000, sigma=0.3, low=500, high=12_000),
    output_tokens=100,
    pause_seconds=2.0,
)
BACKGROUND = SessionClass(
    heads=8,
    head_tokens=6000,
    turns=4,
    first_tokens=LogNormal(median=4000, sigma=0.6, low=500, high=16_000),
    new_tokens=LogNormal(median=4000, sigma=0.6, low=500, high=16_000),
    output_tokens=LogNormal(median=150, sigma=0.6, low=10, high=800),
    pause_seconds=0.2,
)
URGENT_RATE = 0.4
URGENT_STEP_TOKENS = 1024


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One must-hold."""

    what: str
    figure: float
    bound: str
    holds: bool


def workload(**classes: SessionClass) -> Workload:
    """Sessions of these classes; when they come is said where they are planned."""
    return Workload(arrivals=Closed(sessions=1), classes=classes)


def routing(sessions: int) -> tuple[list[FleetFigures], list[Verdict], list[FleetOutcome]]:
    """The same trace, by cache and in turn."""
    trees = planned(workload(agent=AGENTS), rate=AGENT_RATE, sessions=sessions, seed=0)
    modes: tuple[RouterMode, ...] = ("kv", "round-robin")
    outcomes = []
    for mode in modes:
        setup = FleetSetup(
            workers=WORKERS,
            engine="batch",
            block_tokens=16,
            cache_tokens=AGENT_CACHE,
            sequences=AGENT_SEQUENCES,
            router=RouterOptions(mode=mode, queue_limit=1 << 30),
        )
        outcomes.append(fleet_of(setup).run(trees))
    found = [fleet_figures(mode, outcome) for mode, outcome in zip(modes, outcomes, strict=True)]
    speedup = (found[1].all.ttft_ms.p50 or 0.0) / (found[0].all.ttft_ms.p50 or 1.0)
    attained = found[0].all.attained
    verdicts = [
        Verdict(what="median TTFT, round robin by kv", figure=speedup, bound=f">= {LEAST_SPEEDUP:g}", holds=speedup >= LEAST_SPEEDUP),
        Verdict(what="attainable cache hits, kv", figure=attained, bound=f">= {LEAST_ATTAINED:g}", holds=attained >= LEAST_ATTAINED),
    ]
    return found, verdicts, outcomes


def priority(seconds: float) -> tuple[list[FleetFigures], list[Verdict]]:
    """Urgent sessions alone, and beside twice the background work that the fleet can do."""
    setup = FleetSetup(
        workers=WORKERS,
        engine="batch",
        block_tokens=16,
        step_tokens=URGENT_STEP_TOKENS,
        router=RouterOptions(queue_limit=1 << 30),
    )
    # What the fleet can do: background sessions that are all there at once, by the time until they are done.
    crowd = max(int(2.5 * seconds), 16)
    counting = msgspec.structs.replace(setup, engine="count")
    full = fleet_of(counting).run(planned(workload(background=BACKGROUND), rate=1000.0, sessions=crowd, seed=1))
    offered = OVERLOAD * crowd / full.seconds
    urgent = planned(workload(urgent=URGENT), rate=URGENT_RATE, sessions=int(URGENT_RATE * seconds), seed=2)
    background = planned(workload(background=BACKGROUND), rate=offered, sessions=int(offered * seconds), seed=3)
    alone = fleet_figures("alone", fleet_of(setup).run(urgent))
    both = fleet_figures("overload", fleet_of(setup).run(merged(urgent, background)))
    by_name = {one.name: one for one in both.classes}
    ratio = (by_name["urgent"].ttft_ms.p50 or 0.0) / (alone.all.ttft_ms.p50 or 1.0)
    asked = sum(len(tree) for tree in background)
    done = by_name["background"].requests / asked
    verdicts = [
        Verdict(what="urgent median TTFT, overload by alone", figure=ratio, bound=f"<= {MOST_SLOWDOWN:g}", holds=ratio <= MOST_SLOWDOWN),
        Verdict(what="background requests served in the end", figure=done, bound="= 1", holds=done == 1.0),
    ]
    return [alone, both], verdicts


def merged(*plans: Sequence[Tree]) -> list[Tree]:
    """Several plans as one, in the order of arrival. Sessions are named after their class."""
    trees = [tuple(_apart(request) for request in tree) for trees in plans for tree in trees]
    return sorted(trees, key=lambda tree: tree[0].arrival or 0.0)


def _apart(request: PlannedRequest) -> PlannedRequest:
    kind, parent = request.kind, request.parent
    return msgspec.structs.replace(
        request,
        session=f"{kind}-{request.session}",
        parent=None if parent is None else f"{kind}-{parent}",
        waits_for=tuple(f"{kind}-{name}" for name in request.waits_for),
    )


def decision(sessions: int) -> tuple[str, list[Verdict]]:
    """What one decision costs for a prompt of 52,000 tokens."""
    listened = [sorted(times) for times in decisions(64, sessions, Listened())]
    levelled = [sorted(times) for times in decisions(64, sessions, Levelled())]
    known = median(listened[1])
    rows: list[tuple[object, ...]] = [
        (what, median(listened[turn]), listened[turn][int(0.99 * sessions)], median(levelled[turn]), levelled[turn][int(0.99 * sessions)])
        for turn, what in ((1, "known session, 2,048 tokens are new"), (0, "new session behind a known head"))
    ]
    rows.append(("of the latter, hashing the whole prompt cold", *hashing(sessions), "", ""))
    verdict = Verdict(
        what="decision, known session, 64 workers, us", figure=known, bound=f"<= {MOST_DECISION_US:g}", holds=known <= MOST_DECISION_US
    )
    head = ("52,000 tokens, block 16, 64 workers", "CPU us, median", "p99", "index in groups, median", "p99")
    return table(head, rows), [verdict]


def scaling(fleets: Sequence[int], sessions_per_worker: int) -> list[FleetFigures]:
    """The same load for each worker, at several sizes of the fleet."""
    found = []
    for workers in fleets:
        trees = planned(PRESETS["coding-tasks"], rate=0.3 * workers, sessions=sessions_per_worker * workers, seed=0)
        setup = FleetSetup(workers=workers, router=RouterOptions(queue_limit=1 << 30))
        found.append(fleet_figures("kv", fleet_of(setup).run(trees)))
    return found


def placement_table(found: Sequence[FleetFigures]) -> str:
    """How well prompts were placed."""
    rows = [
        (
            one.label,
            one.workers,
            kind.name,
            kind.requests,
            times(kind.ttft_ms),
            times(kind.waited_ms),
            f"{100 * kind.hit_rate:.1f} %",
            f"{100 * kind.attained:.1f} %",
            f"{100 * one.busy:.0f} %",
            one.busiest,
            kind.last_end_s,
        )
        for one in found
        for kind in one.classes[: max(len(one.classes) - 1, 1)]
    ]
    head = ("run", "workers", "class", "requests", "TTFT ms", "queue ms", "cached", "of attainable", "busy", "busiest", "last end s")
    return table(head, rows)


def _routing(*, quick: bool) -> tuple[list[Verdict], list[Chart]]:
    figures, held, outcomes = routing(16 if quick else AGENT_SESSIONS)
    _say(f"\nBy cache and in turn, {WORKERS} workers, times p50 / p90 / p99\n\n{placement_table(figures)}")
    pairs = zip(figures, outcomes, strict=True)
    lines = {one.label: ecdf([1000 * at for at in outcome.classes["agent"].ttft]) for one, outcome in pairs}
    return held, [Chart(title="Time to the first token", x=Axis(label="ms", log=True), y=Axis(label="share"), lines=lines)]


def _priority(*, quick: bool) -> tuple[list[Verdict], list[Chart]]:
    figures, held = priority(4.0 if quick else SECONDS)
    _say(f"\nUrgent and background, {OVERLOAD:g} times what the fleet can do\n\n{placement_table(figures)}")
    return held, []


def _decision(*, quick: bool) -> tuple[list[Verdict], list[Chart]]:
    text, held = decision(4 if quick else 100)
    _say(f"\nOne decision\n\n{text}")
    return held, []


def _scaling(*, quick: bool) -> tuple[list[Verdict], list[Chart]]:
    found = scaling((8, 16) if quick else (8, 64, 256, 1024), 2 if quick else 10)
    rows = [
        (one.workers, one.all.requests, one.ask_us_p50, one.ask_us_p99, one.router_us, f"{100 * one.all.attained:.1f} %") for one in found
    ]
    head = ("workers", "requests", "decision CPU us, p50", "p99", "all a request costs", "of attainable")
    _say("\nScaling\n\n" + table(head, rows) + "\n")
    _say("\n".join(growth(found)))
    points = [(one.workers, one.ask_us_p50) for one in found]
    return [], [Chart(title="CPU of a decision", x=Axis(label="workers", log=True), y=Axis(label="us"), lines={"kv": points})]


PARTS = {"routing": _routing, "priority": _priority, "decision": _decision, "scaling": _scaling}


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 1 when a must-hold is missed."""
    options = _options(arguments)
    _say(str(this_machine()))
    verdicts: list[Verdict] = []
    charts: list[Chart] = []
    for part in options.only or PARTS:
        held, drawn = PARTS[part](quick=options.quick)
        verdicts += held
        charts += drawn
    if options.plot is not None:
        options.plot.write_text(page(charts), "utf-8")
    rows = [(one.what, one.figure, one.bound, "yes" if one.holds else "NO") for one in verdicts]
    _say("\n" + table(("must hold", "figure", "bound", "holds"), rows))
    return 0 if all(one.holds for one in verdicts) else 1


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.router_fleet", description="The router before simulated workers.")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="small runs, to see that everything works; their figures mean nothing")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also write charts to FILE, as SVG")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
