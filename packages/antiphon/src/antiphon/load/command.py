"""`antiphon bench`: options in, a run, its report out."""

import sys
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import msgspec
from rich.console import Console

from antiphon.load.answers import SurfaceName
from antiphon.load.dialogue import Lengths
from antiphon.load.figures import report_of
from antiphon.load.run import Bounds, Run, Target, first_model
from antiphon.load.show import charts_of, show_report
from antiphon.load.svg import page
from antiphon.load.trace import Tree, recorded, write_trace

PIPE_COLUMNS = 160


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said. `model` None: the first of the server's catalog."""

    url: str
    surface: SurfaceName
    model: str | None
    api_key: str
    lengths: Lengths
    bounds: Bounds
    record: Path | None = None
    plot: Path | None = None
    as_json: bool = False


async def run_load(trees: Sequence[Tree], options: Options) -> int:
    """The exit status: 1 when an answer was an error. Raises ConfigError when nobody answers, or a file cannot be written."""
    connector = aiohttp.TCPConnector(limit=options.bounds.at_once)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        model = options.model or await first_model(session, options.url, options.api_key)
        target = Target(url=options.url, surface=options.surface, model=model, api_key=options.api_key, lengths=options.lengths)
        outcomes = await Run(session, target, trees, options.bounds).go()
    if options.record is not None:
        asked = sorted(outcomes, key=lambda one: one.sent)
        write_trace(options.record, recorded((one.request, one.sent, one.request.text) for one in asked))
    if options.plot is not None:
        options.plot.write_text(page(charts_of(outcomes)), "utf-8")
    report = report_of(outcomes, url=options.url, surface=options.surface)
    if options.as_json:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    else:
        show_report(Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS), report)
    return 1 if report.errors else 0
