"""`antiphon config`: what the settings are, and whether a file of them is right."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from antiphon.config import FILES, Settings, WorkerSettings
from antiphon.config_report import Source, lines, report
from antiphon.settings_options import FILE, FILE_VALUES, with_settings

config = typer.Typer(no_args_is_help=True, help="Settings: what they are, where they come from, whether a file of them is right.")

_SOURCES: dict[str, Source] = {"COMMANDLINE": "flag", "ENVIRONMENT": "environment", "DEFAULT_MAP": "file"}
"""By the option parser's names."""


def show(*, ctx: typer.Context, config: Path | None, as_json: bool, **values: Any) -> None:
    """Print every setting of `antiphon serve` with its value and where that comes from.

    Takes the flags of `serve`, and reads the same variables and the same file. Secrets are masked.
    """
    sources: dict[str, Source] = {}
    for name in values:
        found = ctx.get_parameter_source(name)
        sources[name] = _SOURCES.get(found.name, "default") if found is not None else "default"
    sources |= dict.fromkeys(ctx.meta[FILE_VALUES], "file")
    shown = report(Settings(**values, **ctx.meta[FILE_VALUES]), sources)
    typer.echo(msgspec.json.encode(shown).decode() if as_json else "\n".join(lines(shown, ctx.meta[FILE])))


config.command("show")(
    with_settings(show, Settings, also={"as_json": Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")]})
)


@config.command("check")
def check(
    *,
    file: Annotated[Path | None, typer.Argument(help="The file. Default: the one the command would read.", show_default=False)] = None,
    command: Annotated[Literal["serve", "worker"], typer.Option("--for", help="Whose settings the file has.")] = "serve",
) -> None:
    """Say everything that is wrong with a configuration file: unknown keys, wrong types, conflicts, files that are not there.

    Exit status: 0 nothing is wrong (notes may be printed), 2 something is.
    """
    from antiphon.config_check import check_file  # `--help` must not load tokenizers

    record = Settings if command == "serve" else WorkerSettings
    path = file or FILES[record]
    found = check_file(path, record)
    for problem in found.problems:
        typer.secho(f"{path}: {problem}", err=True, fg="red")
    for note in found.notes:
        typer.echo(f"{path}: note: {note}")
    if found.problems:
        raise typer.Exit(2)
    typer.echo(f"{path} is right")
