"""The options of a command, made from a settings record, so that the two cannot differ."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
import typer

from antiphon.config import FILES, flag_of, is_file_only, place_of, read_config_file, variable_of
from antiphon.engine_settings import EngineSettings

FILE = "antiphon.file"
FILE_VALUES = "antiphon.file_values"
"""Where a context's `meta` has the configuration file that was read, None if none was, and what only a file can say."""


def with_settings(
    command: Callable[..., None], record: type[EngineSettings], *, also: Mapping[str, Any] | None = None
) -> Callable[..., None]:
    """The command with an option for every field of the record, `--config`, and keyword parameters of its own by name and annotation,
    which are False unless given."""
    parameters = [*_parameters_of(record), *(_parameter(name, kind, default=False) for name, kind in (also or {}).items())]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _file_loader(record: type[EngineSettings]) -> Callable[[typer.Context, Path | None], Path | None]:
    def load(ctx: typer.Context, value: Path | None) -> Path | None:
        values = read_config_file(value, record)
        ctx.meta[FILE] = value or (FILES[record] if FILES[record].is_file() else None)
        ctx.meta[FILE_VALUES] = {name: values.pop(name) for name in list(values) if is_file_only(name, record)}
        ctx.default_map = {**(ctx.default_map or {}), **values}
        return value

    return load


def _parameters_of(record: type[EngineSettings]) -> Iterator[inspect.Parameter]:
    yield _parameter("ctx", typer.Context, default=inspect.Parameter.empty)
    hints = get_type_hints(record, include_extras=True)
    for field in sorted(msgspec.structs.fields(record), key=lambda field: place_of(field.name, record)):
        kind, meta = get_args(hints[field.name])
        if is_file_only(field.name, record):
            continue
        flag = flag_of(field.name, record)
        names = [f"{flag}/--no-{flag.removeprefix('--')}" if kind is bool else flag]
        names += [meta.extra["alias"]] if "alias" in meta.extra else []
        option = typer.Option(
            *names,
            help=meta.description,
            envvar=variable_of(field.name),
            rich_help_panel=meta.extra["panel"],
            show_envvar=False,
            min=meta.ge,
            max=meta.le,
        )
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        yield _parameter(field.name, Annotated[kind, option], default=default)
    text = f"TOML file of settings; {FILES[record]} of the working folder if it is there."
    panel: dict[str, Any] = {"rich_help_panel": "Running", "show_envvar": False}
    option = typer.Option("--config", help=text, envvar="ANTIPHON_CONFIG", is_eager=True, callback=_file_loader(record), **panel)
    yield _parameter("config", Annotated[Path | None, option], default=None)


def _parameter(name: str, annotation: Any, *, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
