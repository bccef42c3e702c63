"""Keys, stabilizer rules and certificates, read again while the server runs: when one of their files changes, and on SIGHUP."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from ssl import SSLContext
from typing import Any

from antiphon.access.key import read_keys
from antiphon.access.keyring import Keyring
from antiphon.config import Settings, read_config_file
from antiphon.stabilize import StabilizerRule
from antiphon.stabilizer_rules import rules_of
from antiphon.tls import load_certificate
from antiphon_turns.errors import ConfigError

log = logging.getLogger("antiphon")

LOOK_SECONDS = 2.0


class Reloader:
    """Reads everything first and then exchanges it, so that a bad file changes nothing. `file` is the configuration file in use;
    `use_rules` takes new stabilizer rules."""

    def __init__(
        self,
        settings: Settings,
        file: Path | None,
        *,
        keyring: Keyring | None,
        tls: SSLContext | None,
        use_rules: Callable[[Sequence[StabilizerRule]], None],
    ) -> None:
        self._settings = settings
        self._file = file
        self._keyring = keyring
        self._tls = tls
        self._use_rules = use_rules
        self._values: dict[str, Any] = read_config_file(file) if file is not None else {}
        watched = (file, settings.stabilizer_rules, settings.tls_certificate, settings.tls_key)
        self._watched = [path for path in watched if path is not None]
        self._seen = self._marks()

    async def run(self) -> None:
        """Looks every two seconds, until it is cancelled."""
        while self._watched:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Reads everything again if one of the files is another one now. A file that stays wrong is told once."""
        if self._marks() != self._seen:
            self.reload()

    def reload(self) -> None:
        """Reads everything again. What is wrong is told in the log."""
        self._seen = self._marks()
        try:
            self._exchange()
        except ConfigError as error:
            log.warning("nothing was reloaded, and everything stays as it was: %s", error.message)

    def _exchange(self) -> None:
        settings = self._settings
        values = read_config_file(self._file) if self._file is not None else {}
        keys = read_keys(values.get("keys", {}))
        rules = rules_of(strip_anthropic_preamble=settings.strip_anthropic_preamble, file=settings.stabilizer_rules)
        if keys and (self._keyring is None or not settings.keys):
            raise ConfigError("a server that was started without [keys.NAME] tables takes them at its next start only")
        if self._keyring is not None and settings.keys:
            self._keyring.check(keys)
        if self._tls is not None and settings.tls_certificate is not None and settings.tls_key is not None:
            load_certificate(self._tls, settings.tls_certificate, settings.tls_key)
        if self._keyring is not None and settings.keys:
            self._keyring.replace(keys)
        self._use_rules(rules)
        later = sorted(
            name for name in values.keys() | self._values.keys() if name != "keys" and values.get(name) != self._values.get(name)
        )
        log.info("reloaded: %d keys of the file, %d stabilizer rules", len(keys), len(rules))
        if later:
            log.warning("%s of %s: takes effect at the next start", ", ".join(later), self._file)

    def _marks(self) -> list[tuple[int, int, int] | None]:
        return [_mark(path) for path in self._watched]


def _mark(path: Path) -> tuple[int, int, int] | None:
    """What differs when a file has been written or exchanged; None where it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
