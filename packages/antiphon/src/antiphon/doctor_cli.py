"""`antiphon doctor`."""

import asyncio
import time
from pathlib import Path
from typing import Any

import typer

from antiphon.config import Settings
from antiphon.settings_options import FILE_VALUES


def doctor_command(*, ctx: typer.Context, config: Path | None, as_json: bool, **values: Any) -> None:
    """Look at everything a server needs, one line each, and say what to do.

    Takes the flags of `serve`, and reads the same variables and the same file. Nothing is started and nothing changed.
    Exit status: 0 when all is well or only warnings were found, 1 when something must be mended.
    """
    from antiphon.doctor.examine import encoded, examine  # `--help` must not load tokenizers
    from antiphon.doctor.finding import Finding, line, status

    settings = Settings(**values, **ctx.meta[FILE_VALUES])

    async def look() -> list[Finding]:
        found = []
        async for finding in examine(settings, now=time.time()):
            found.append(finding)
            if not as_json:
                typer.secho(line(finding), fg={"ok": None, "warning": "yellow", "failed": "red"}[finding.verdict])
        return found

    findings = asyncio.run(look())
    if as_json:
        typer.echo(encoded(findings).decode())
    raise typer.Exit(status(findings))
