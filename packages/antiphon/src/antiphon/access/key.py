"""API keys as a configuration file has them: a table for each, with the hash of the key and what it may do.

::

    [keys.ci]
    hash = "sha256:9f86d0..."              # printed by `antiphon keys new ci`
    models = ["claude-*", "antiphon-mock"] # names it may ask for, with * and ?; without it, every name
    requests_per_minute = 60
    prompt_tokens_per_minute = 2_000_000
    max_turns = 4                          # at once
    operator = true                        # may see /metrics and what is not its own

A key is 256 random bits, which nobody finds by trying, so its hash needs no slow function, and checking one costs a microsecond.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from antiphon_turns.errors import ConfigError

KEY_BYTES = 32
PREFIX = "ak-"
SCHEME = "sha256:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table. None: no limit. No `models`: every name. An `operator` may also ask for what tells of all tenants."""

    hash: str
    models: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    prompt_tokens_per_minute: int | None = None
    max_turns: int | None = None
    operator: bool = False


def digest_of(key: bytes) -> bytes:
    """What is kept of a key."""
    return hashlib.sha256(key).digest()


def hash_of(key: str) -> str:
    """The same as a configuration file spells it."""
    return SCHEME + digest_of(key.encode()).hex()


def new_key(random_bytes: Callable[[int], bytes]) -> str:
    """A fresh key; it is shown once and kept nowhere."""
    return PREFIX + random_bytes(KEY_BYTES).hex()


def table_of(name: str, key: str) -> str:
    """The table to paste for a key. Raises ConfigError for a name that cannot stand in a file."""
    _check_name(name)
    quoted = f'"{name}"' if "." in name else name
    return f'[keys.{quoted}]\nhash = "{hash_of(key)}"\n'


def read_keys(tables: Mapping[str, Any]) -> dict[str, KeyEntry]:
    """The keys of `[keys.NAME]` tables by name. Raises ConfigError that names the table."""
    found: dict[str, KeyEntry] = {}
    for name, table in tables.items():
        _check_name(name)
        try:
            entry = msgspec.convert(table, KeyEntry)
        except msgspec.ValidationError as error:
            raise ConfigError(f"[keys.{name}]: {error}") from None
        _check_entry(name, entry)
        twin = next((other for other, known in found.items() if known.hash == entry.hash), None)
        if twin is not None:
            raise ConfigError(
                f"[keys.{name}] has the hash of [keys.{twin}]; every key needs one of its own, from `antiphon keys new {name}`"
            )
        found[name] = entry
    return found


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name[:80]!r} cannot be the name of a key: at most 64 letters, digits, '-', '_' and '.', a letter or digit first"
        )


def _check_entry(name: str, entry: KeyEntry) -> None:
    if not _HASH.fullmatch(entry.hash):
        raise ConfigError(f"[keys.{name}] hash: must be sha256: and 64 hex digits, as `antiphon keys new {name}` prints it; never the key")
    for field in ("requests_per_minute", "prompt_tokens_per_minute", "max_turns"):
        value = getattr(entry, field)
        if value is not None and value < 1:
            raise ConfigError(f"[keys.{name}] {field}: must be at least 1; leave it out for no limit, and the table out for no access")
