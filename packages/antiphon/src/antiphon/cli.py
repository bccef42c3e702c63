"""The `antiphon` command."""

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console

from antiphon import __version__
from antiphon.config import Settings, WorkerSettings
from antiphon.config_cli import config
from antiphon.doctor_cli import doctor_command
from antiphon.explain_cli import explain_command
from antiphon.keys_cli import keys
from antiphon.launch_cli import LaunchCommand, launch_command
from antiphon.load_cli import bench_command
from antiphon.settings_options import FILE, FILE_VALUES, with_settings
from antiphon.simulate_cli import simulate_command
from antiphon_turns.errors import ConfigError

# Tables cut the names of long switches short on narrower terminals; a name that cannot be read cannot be typed.
TABLE_COLUMNS = 160
app = typer.Typer(
    name="antiphon",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if shutil.get_terminal_size().columns >= TABLE_COLUMNS else None,
)


def main() -> None:
    """Entry point. Configuration errors end with one sentence and status 2."""
    try:
        app()
    except ConfigError as error:
        typer.secho(f"antiphon: {error.message}", err=True, fg="red")
        sys.exit(2)


def _version(value: bool | None) -> None:  # noqa: FBT001 - the option parser calls it so
    if value:
        typer.echo(f"antiphon {__version__}")
        raise typer.Exit


@app.callback()
def root(
    *, version: Annotated[bool | None, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)] = None
) -> None:
    """Serve open models to coding agents the way the agents' own vendors do."""


def serve(*, ctx: typer.Context, config: Path | None, **values: Any) -> None:
    """Serve one model to agents, SDKs and curl.

    Every flag has a variable, ANTIPHON_ + its name in capitals with underscores, and every switch a --no- form.
    Flag > environment > configuration file > default.
    """
    from antiphon.serve import run_server  # `parse` and `--help` must not load the engine

    raise typer.Exit(run_server(Settings(**values, **ctx.meta[FILE_VALUES]), file=ctx.meta[FILE]))


def frontend(*, ctx: typer.Context, config: Path | None, **values: Any) -> None:
    """Serve agents with workers elsewhere: `serve` without an engine of its own.

    Every flag has a variable, ANTIPHON_ + its name in capitals with underscores, and every switch a --no- form.
    Flag > environment > configuration file > default.
    """
    from antiphon.serve import run_frontend  # `--help` must not load tokenizers

    raise typer.Exit(run_frontend(Settings(**values, **ctx.meta[FILE_VALUES]), file=ctx.meta[FILE]))


def worker(*, ctx: typer.Context, config: Path | None, **values: Any) -> None:
    """Run one engine for frontends elsewhere: token ids in, token ids out.

    Every flag has a variable, ANTIPHON_ + its name in capitals with underscores, and every switch a --no- form.
    Flag > environment > configuration file > default.
    """
    from antiphon.workers.process import run_worker  # `--help` must not load the engine

    raise typer.Exit(run_worker(WorkerSettings(**values, **ctx.meta[FILE_VALUES])))


@app.command()
def parse(
    *,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Read cases from standard input, one JSON object a line.")] = False,
) -> None:
    """Run the model-output parsers on recorded text, without a server."""
    from antiphon.parse_cli import parse_lines  # `serve` does not need it

    if not jsonl:
        raise ConfigError("say what to parse: `antiphon parse --jsonl < cases.jsonl`")
    for line in parse_lines(sys.stdin.buffer):
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


models = typer.Typer(no_args_is_help=True, help="Which format a model speaks, and which formats there are.")
app.add_typer(models, name="models")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@models.command("detect")
def models_detect(
    *,
    path: Annotated[Path, typer.Argument(help="A model folder, a .gguf file, or a chat template (.jinja).")],
    as_json: AsJson = False,
) -> None:
    """Say which parsers read a model's output, and why.

    Exit status: 0 one format fits, 3 several do (all are listed), 4 none does, 2 the path cannot be read.
    """
    from antiphon import models_cli  # `--help` must not load tokenizers

    found = models_cli.look_at_path(path)
    if as_json:
        typer.echo(msgspec.json.encode(models_cli.detection_data(path, found)).decode())
    else:
        models_cli.show_detection(Console(), path, found)
    raise typer.Exit(models_cli.exit_status(found))


@models.command("list")
def models_list(*, as_json: AsJson = False) -> None:
    """List every parser with its other names and what it has."""
    from antiphon import models_cli  # `--help` must not load tokenizers

    if as_json:
        typer.echo(msgspec.json.encode(models_cli.list_data()).decode())
    else:
        models_cli.show_list(Console())


@app.command()
def check(  # noqa: PLR0913 - the option parser reads the signature
    *,
    url: Annotated[str | None, typer.Argument(help="Address of the server, without /v1.", show_default=False)] = None,
    own: Annotated[bool, typer.Option("--self", help="Start our own server with the mock engine and check that.")] = False,
    model: Annotated[str | None, typer.Option(help="Model to ask for. Default: the first of the catalog.", show_default=False)] = None,
    steer: Annotated[
        Literal["auto", "script", "b64", "none"],
        typer.Option(help="How the model is made to say things: our mock script, base64 in the prompt, or not at all."),
    ] = "auto",
    only: Annotated[list[str] | None, typer.Option(help="Checks by the start of their number: M, R0, C12. Repeatable.")] = None,
    silence: Annotated[float | None, typer.Option(help="Seconds a client may go without a byte. Default: 20.", min=0.5)] = None,
    context: Annotated[int | None, typer.Option(help="Context length in tokens, where the catalog does not say.", min=1)] = None,
    api_key: Annotated[str | None, typer.Option(envvar="ANTIPHON_CHECK_API_KEY", help="Sent as bearer token and x-api-key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Also write the results as JUnit XML.", show_default=False)] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Status 1 also for checks that stay undecided.")] = False,
    list_checks: Annotated[bool, typer.Option("--list", help="List the checks and stop.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="With --list: as Markdown tables.")] = False,
    print_script: Annotated[bool, typer.Option("--print-script", help="Print the kit's mock script and stop.")] = False,
) -> None:
    """Check any server for what agent clients need of it.

    Status 0: nothing failed. 1: something did. 2: the server cannot be reached.
    """
    from antiphon.conformance import command  # needs an HTTP client, which `serve` does without

    if print_script:
        sys.stdout.buffer.write(command.kit_script(silence))
    elif list_checks:
        sys.stdout.write(command.listed(only or [], markdown=markdown))
    else:
        options = command.Options(
            url=url,
            own=own,
            model=model,
            mode=None if steer == "auto" else steer,
            only=only or [],
            silence=silence,
            context=context,
            api_key=api_key,
            json=as_json,
            junit=junit,
            strict=strict,
        )
        raise typer.Exit(command.run(options))


app.command()(with_settings(serve, Settings))
app.command()(with_settings(frontend, Settings))
app.command()(with_settings(worker, WorkerSettings))
app.add_typer(keys, name="keys")
app.add_typer(config, name="config")
app.command("doctor")(with_settings(doctor_command, Settings, also={"as_json": AsJson}))
app.command("explain")(explain_command)
app.command("bench")(bench_command)
app.command("simulate")(simulate_command)
app.command(
    "launch",
    cls=LaunchCommand,
    options_metavar="[OPTIONS] [SERVE OPTIONS] [-- CLIENT ARGUMENTS]",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)(launch_command)
