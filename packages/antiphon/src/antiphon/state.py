"""What outlives a run: the state folder, the keys of the seals, the store of responses."""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from antiphon.config import Settings
from antiphon.responses import interrupted
from antiphon.seal_keys import own_keys, read_keys
from antiphon.seals import KEY_BYTES, SealKey, Seals
from antiphon.store import ResponseStore
from antiphon.store_sqlite import MEMORY, SqliteStore, StoreLimits
from antiphon_turns.errors import ConfigError

log = logging.getLogger("antiphon")

STORE_FILE = "responses.sqlite3"
DAY_SECONDS = 86_400.0


def default_state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_STATE_HOME/antiphon`, or `~/.local/state/antiphon`; a relative XDG path counts as unset, as its specification says."""
    base = Path(environment.get("XDG_STATE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "antiphon"


def state_dir_of(settings: Settings) -> Path:
    """The folder the operator chose, else the default one."""
    return settings.state_dir or default_state_dir()


def open_seals(settings: Settings, *, random_bytes: Callable[[int], bytes]) -> Seals:
    """The seals of the settings. A default folder that cannot be written is no reason not to serve: the key then lives as long
    as the process. Raises ConfigError."""
    if settings.seal_keys is not None:
        return Seals(read_keys(settings.seal_keys), random_bytes=random_bytes)
    try:
        keys, fresh = own_keys(state_dir_of(settings), random_bytes=random_bytes)
    except ConfigError as error:
        if settings.state_dir is not None:
            raise
        log.warning("%s; reasoning is sealed with a key that ends with this process", error.message)
        return Seals([SealKey(random_bytes(KEY_BYTES))], random_bytes=random_bytes)
    if fresh is not None:
        log.info("made a key that seals reasoning: %s; servers that share sessions need the same one (--seal-keys)", fresh)
    return Seals(keys, random_bytes=random_bytes)


def open_store(settings: Settings) -> ResponseStore | None:
    """The store of the settings; None where it is off. A default file that cannot be used is replaced by memory. Raises ConfigError."""
    if not settings.enable_store:
        return None
    limits = StoreLimits(ttl=settings.store_days * DAY_SECONDS, size=settings.store_max_bytes)
    try:
        return SqliteStore(settings.store or state_dir_of(settings) / STORE_FILE, limits=limits, interrupted=interrupted)
    except ConfigError as error:
        if settings.store is not None or settings.state_dir is not None:
            raise
        log.warning("%s; responses are kept in memory", error.message)
        return SqliteStore(MEMORY, limits=limits)
