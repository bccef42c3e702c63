"""`antiphon keys`: makes API keys."""

import os
from typing import Annotated

import typer

from antiphon.access.key import new_key, table_of

keys = typer.Typer(no_args_is_help=True, help="API keys of a server.")


@keys.callback()
def root() -> None:
    """API keys of a server."""


@keys.command("new")
def new(*, name: Annotated[str, typer.Argument(help="What the key is called in the configuration file and in the log.")]) -> None:
    """Print a fresh key, and the table for antiphon.toml that lets it in.

    The key is shown once. The table has only its hash; models, requests_per_minute, prompt_tokens_per_minute, max_turns and
    operator may be added to it.
    """
    key = new_key(os.urandom)
    table = table_of(name, key)
    typer.echo(f"The key, for whoever shall use it (it is shown only now):\n\n{key}\n\nThe table, for antiphon.toml:\n\n{table}", nl=False)
