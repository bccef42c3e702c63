"""`antiphon simulate`: the router before fleets of simulated workers."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def simulate_command(  # noqa: PLR0913 - one for each option
    *,
    workers: Annotated[list[int] | None, typer.Option(help="Size of the fleet. Repeatable. Default: 8, 64 and 512.", min=1)] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(help="kv, round-robin, random, least-loaded or power-of-two. Repeatable. Default: kv and round-robin."),
    ] = None,
    workload: Annotated[
        str, typer.Option(help="coding-agent, coding-tasks, chat, bursty-subagents, mixed-priority, or a .toml file.")
    ] = "coding-tasks",
    trace: Annotated[
        Path | None, typer.Option(help="Ask what this trace (JSONL), or this recording, says instead of a workload.", show_default=False)
    ] = None,
    sessions: Annotated[int | None, typer.Option(help="Sessions in all. Default: as many a worker as said next.", min=1)] = None,
    sessions_per_worker: Annotated[int, typer.Option(help="Sessions for each worker of the fleet.", min=1)] = 20,
    rate: Annotated[float, typer.Option(help="New sessions a second, for each worker.", min=1e-6)] = 0.3,
    speed: Annotated[str, typer.Option(help="How fast a worker is: b200, laptop.")] = "b200",
    cache_tokens: Annotated[int, typer.Option(help="Tokens that a worker's cache holds.", min=64)] = 400_000,
    block_size: Annotated[int, typer.Option(help="Tokens of a block.", min=1)] = 64,
    step_tokens: Annotated[int, typer.Option(help="Tokens that a worker computes in a step.", min=16)] = 8192,
    queue_threshold: Annotated[
        float, typer.Option(help="Requests wait while every worker has more than this many steps of prompts. 0: nothing waits.", min=0)
    ] = 1.0,
    affinity: Annotated[Literal["off", "soft", "strict"], typer.Option(help="What a session's own worker is worth.")] = "soft",
    exact: Annotated[bool, typer.Option("--exact", help="Real token ids and the mock engine's batch: slow, for a few workers.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write charts as an SVG file.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Try the router on a fleet without a single GPU.

    The router's own code places the requests of agents' sessions on simulated workers, in simulated time. Printed are how well it places
    (cached tokens against the attainable, time to the first token, balance) and what a decision costs on this machine.
    docs/router.md says how to read it; docs/bench.md describes workloads and traces.

    antiphon simulate --workers 1000 --sessions 100000 --mode kv
    """
    from antiphon.load.presets import workload_of  # `--help` must not load it all
    from antiphon.recording.replays import trees_at
    from antiphon.simulation.fleet_setup import FleetSetup
    from antiphon.simulation.simulate import Options, modes_of, router_options, simulate

    fleet = FleetSetup(
        workers=1,
        engine="batch" if exact else "count",
        block_tokens=block_size,
        cache_tokens=cache_tokens,
        speed=speed,
        step_tokens=step_tokens,
        router=router_options(queue_threshold=queue_threshold, affinity=affinity),
        seed=seed,
    )
    options = Options(
        fleets=workers or (8, 64, 512),
        modes=modes_of(mode or ("kv", "round-robin")),
        workload=workload_of(workload),
        trees=trees_at(trace) if trace is not None else None,
        sessions=sessions,
        sessions_per_worker=sessions_per_worker,
        rate=rate,
        fleet=fleet,
        plot=plot,
        as_json=as_json,
    )
    raise typer.Exit(simulate(options))
