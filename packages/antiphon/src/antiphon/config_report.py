"""What a server's settings are and where each of them comes from. Secrets are told as set or not set."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon.config import Settings, is_secret, place_of

Source = Literal["flag", "environment", "file", "default"]

MASK = "********"


class Shown(msgspec.Struct, frozen=True):
    """One setting. `value` is plain data."""

    name: str
    value: Any
    source: Source


def report(settings: Settings, sources: Mapping[str, Source]) -> list[Shown]:
    """Every setting, in the order of the help text."""
    names = sorted(Settings.__struct_fields__, key=lambda name: place_of(name, Settings))
    return [Shown(name, masked(name, getattr(settings, name)), sources.get(name, "default")) for name in names]


def masked(name: str, value: Any) -> Any:
    """A value as it may be shown: of a secret that it is there, of tables of secrets their names and all but the secret."""
    if isinstance(value, Path):
        return str(value)
    if not is_secret(name) or not value:
        return value
    if isinstance(value, dict):
        return {key: {**table, "hash": MASK} if isinstance(table, dict) else MASK for key, table in value.items()}
    return MASK


def lines(shown: Iterable[Shown], file: Path | None) -> list[str]:
    """One line a setting: name, value as TOML-like text, source."""
    rows = [(one.name, "" if one.value is None else msgspec.json.encode(one.value).decode(), one.source) for one in shown]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    widths[1] = min(widths[1], 60)
    told = {"file": f"file {file}"}
    return [f"{name:<{widths[0]}}  {value:<{widths[1]}}  {told.get(source, source)}" for name, value, source in rows]
