"""`antiphon check`: options in, report out, exit status."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from antiphon.conformance import sayings
from antiphon.conformance.own_server import own_server
from antiphon.conformance.registry import select
from antiphon.conformance.report import Run, as_json, as_junit, list_markdown, show
from antiphon.conformance.run import Target, Unreachable, check_server
from antiphon.conformance.steering import Mode, script
from antiphon.conformance.verdict import Check
from antiphon_turns.errors import ConfigError

GREEN, RED, OUT_OF_REACH = 0, 1, 2
# Our own server keeps its streams alive as often as it is told, so little silence is enough to see it.
OWN_SILENCE = 3.0
SILENCE = 20.0
PIPE_COLUMNS = 160


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said. `url` None with `own`: our own server is started for the run."""

    url: str | None = None
    own: bool = False
    model: str | None = None
    mode: Mode | None = None
    only: Sequence[str] = ()
    silence: float | None = None
    context: int | None = None
    api_key: str | None = None
    json: bool = False
    junit: Path | None = None
    strict: bool = False


def run(options: Options) -> int:
    """Runs the checks and reports. 0: none failed; 1: some did (or, strictly, were undecided); 2: the server is out of reach.
    Raises ConfigError for options that fit nothing."""
    checks = select(options.only)
    if options.own == (options.url is not None):
        raise ConfigError("say which server to check: `antiphon check http://127.0.0.1:8000`, or `antiphon check --self`")
    try:
        found = asyncio.run(_run(options, checks))
    except Unreachable as reason:
        sys.stderr.write(f"antiphon check: {reason}\n")
        return OUT_OF_REACH
    if options.junit:
        options.junit.write_bytes(as_junit(found))
    if options.json:
        sys.stdout.buffer.write(as_json(found))
    else:
        show(found, Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS, soft_wrap=False))
    counts = found.counts()
    return RED if counts["fail"] or (options.strict and counts["undecided"]) else GREEN


async def _run(options: Options, checks: Sequence[Check]) -> Run:
    silence = options.silence or (OWN_SILENCE if options.own else SILENCE)
    target = Target(
        url=options.url or "",
        model=options.model,
        mode=options.mode,
        silence=silence,
        context=options.context,
        api_key=options.api_key,
    )
    if not options.own:
        return (await check_server(target, checks))[0]
    async with own_server(silence) as url:
        return (await check_server(msgspec.structs.replace(target, url=url), checks))[0]


def listed(only: Sequence[str], *, markdown: bool) -> str:
    """The checks without running them."""
    checks = select(only)
    if markdown:
        return list_markdown(checks)
    return "".join(f"{check.id}  {check.title}  ({', '.join(check.breaks)})\n" for check in checks)


def kit_script(silence: float | None) -> bytes:
    """The script that makes our mock engine steerable by the kit."""
    return script(sayings.table(silence or SILENCE))
