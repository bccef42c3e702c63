"""`antiphon bench`: a load of agents' sessions against any server."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from antiphon_turns.errors import ConfigError


def bench_command(  # noqa: PLR0913 - one for each option
    *,
    url: Annotated[str, typer.Argument(help="Address of the server, without /v1.")],
    workload: Annotated[
        str, typer.Option(help="smoke, coding-agent, coding-tasks, chat, bursty-subagents, mixed-priority, or a .toml file.")
    ] = "smoke",
    trace: Annotated[
        Path | None, typer.Option(help="Ask what this trace (JSONL), or this recording, says instead of a workload.", show_default=False)
    ] = None,
    surface: Annotated[Literal["messages", "chat", "responses"], typer.Option(help="The API to ask over.")] = "messages",
    sessions: Annotated[int, typer.Option(help="Sessions of the workload; their sub-agents are not counted.", min=1)] = 20,
    requests: Annotated[int, typer.Option(help="No more requests than these, whatever the workload says.", min=1)] = 500,
    seconds: Annotated[float, typer.Option(help="No longer than this; what is under way then is broken off.", min=0.1)] = 120.0,
    at_once: Annotated[int, typer.Option(help="No more requests than these at the same time.", min=1)] = 64,
    seed: Annotated[int, typer.Option(help="The same seed gives the same requests.")] = 0,
    model: Annotated[str | None, typer.Option(help="Model to ask for. Default: the first of the catalog.", show_default=False)] = None,
    lengths: Annotated[
        Literal["limit", "ignore-eos", "mock"],
        typer.Option(
            help="How answers get their length: the token limit; that and ignore_eos (vLLM, SGLang); an order to our mock engine."
        ),
    ] = "limit",
    api_key: Annotated[
        str, typer.Option(envvar="ANTIPHON_API_KEY", show_envvar=False, help="Sent as bearer token and x-api-key.")
    ] = "local",
    record: Annotated[Path | None, typer.Option(help="Write what was asked, and when, as a trace.", show_default=False)] = None,
    plan_only: Annotated[bool, typer.Option("--plan", help="Print the planned requests as a trace and ask nobody.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write charts as an SVG file.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Load a server as agents do, and say how fast it answered.

    Sessions share system prompt and tools, grow by the server's real answers, pause for their tools and start sub-agents. Works with any
    server that speaks Messages, Chat Completions or Responses. docs/bench.md describes workloads and traces.

    Status 0: every answer was whole. 1: some were errors. 2: nobody answers, or the options fit nothing.
    """
    from antiphon.load.plan import plan  # `--help` must not load an HTTP client
    from antiphon.load.presets import workload_of
    from antiphon.load.workload import Closed
    from antiphon.recording.replays import trees_at

    places = at_once
    if trace is not None:
        trees = trees_at(trace)
    else:
        chosen = workload_of(workload)
        places = chosen.arrivals.sessions if isinstance(chosen.arrivals, Closed) else at_once
        trees = list(plan(chosen, seed=seed, sessions=sessions))
    if plan_only:
        for request in (request for tree in trees for request in tree):
            sys.stdout.buffer.write(msgspec.json.encode(request) + b"\n")
        return
    from antiphon.load.command import Options, run_load
    from antiphon.load.run import Bounds

    options = Options(
        url=url.rstrip("/").removesuffix("/v1"),
        surface=surface,
        model=model,
        api_key=api_key,
        lengths=lengths,
        bounds=Bounds(requests=requests, seconds=seconds, at_once=at_once, places=places),
        record=record,
        plot=plot,
        as_json=as_json,
    )
    if record is not None and record == trace:
        raise ConfigError("--record would overwrite the trace that is read; give it another name")
    raise typer.Exit(asyncio.run(run_load(trees, options)))
