"""The command line of `antiphon launch`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from antiphon.launch.clients import CLIENTS
from antiphon.launch.plan import Wire
from antiphon.launch.run import Request, launch, print_plan

DEFAULT_URL = "http://127.0.0.1:8000"
CLIENT_ARGUMENTS = "antiphon.client_arguments"


class LaunchCommand(TyperCommand):
    """Cuts the command line at the first `--`: what stands behind it is the client's, unread."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Options the command does not know are left in `ctx.args`: they are for `antiphon serve`."""
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta[CLIENT_ARGUMENTS] = tuple(args[cut + 1 :])
        return super().parse_args(ctx, args[:cut])


def default_folder(environment: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/antiphon`, or `~/.local/state/antiphon`; a relative XDG path counts as unset, as its specification says."""
    base = Path(environment.get("XDG_STATE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "antiphon"


def launch_command(  # noqa: PLR0913 - one for each option
    *,
    ctx: typer.Context,
    client: Annotated[Literal["claude", "codex", "opencode", "openclaw", "pi"], typer.Argument(help="Which client.", show_default=False)],
    url: Annotated[str, typer.Option("--url", help="A running server; if none answers there, one is started.")] = DEFAULT_URL,
    model: Annotated[str | None, typer.Option("--model", help="Name to ask for. Default: the first the server lists.")] = None,
    context_length: Annotated[
        int | None, typer.Option("--context", help="Tokens of context to tell the client. Default: what the server says.", min=1024)
    ] = None,
    wire: Annotated[Wire | None, typer.Option("--wire", help="API to speak, where the client has several. Default: messages.")] = None,
    api_key: Annotated[str, typer.Option("--api-key", help="Key to send.", envvar="ANTIPHON_API_KEY", show_envvar=False)] = "local",
    client_path: Annotated[Path | None, typer.Option("--client-path", help="The client's program. Default: found in PATH.")] = None,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", help="Folder for the client's configuration. Default: antiphon in $XDG_STATE_HOME.")
    ] = None,
    print_only: Annotated[bool, typer.Option("--print", help="Only print what would be set, as a shell script.")] = False,
) -> None:
    """Start an agent client against a server of yours.

    The client gets the right variables, the model's context length and a configuration in a folder of its own; nothing of yours is
    overwritten. What stands behind -- goes to the client as it is:

    antiphon launch claude -- -p "Say hello"

    If no server answers at --url, one is started and stopped at the end; options of `antiphon serve` may then stand before the --:

    antiphon launch pi --model-path model.gguf --context-length 65536
    """
    folder = (state_dir or default_folder(os.environ)).absolute() / "launch" / client
    request = Request(
        client=CLIENTS[client],
        url=url.rstrip("/").removesuffix("/v1"),
        arguments=ctx.meta[CLIENT_ARGUMENTS],
        serve_flags=tuple(ctx.args),
        model=model,
        window=context_length,
        wire=wire,
        key=api_key,
        program=client_path,
        folder=folder,
    )
    if print_only:
        raise typer.Exit(print_plan(request, typer.echo))
    raise typer.Exit(launch(request, note))


def note(line: str) -> None:
    """Notes go to standard error: standard output is the client's."""
    typer.echo(line, err=True)
