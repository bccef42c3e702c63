"""All keys of a server. They may be exchanged while it runs."""

import hmac
import time
from collections.abc import Iterable, Mapping

from antiphon.access.account import Account, Clock
from antiphon.access.key import KeyEntry, digest_of, hash_of, read_keys
from antiphon.config import Settings
from antiphon_turns.errors import ConfigError

API_KEY = "--api-key"
"""The name of the key that is a setting of its own; no table can be called so."""


class Keyring:
    """Finds a key's account. `fixed` are keys that stay when the file's are exchanged."""

    def __init__(self, keys: Mapping[str, KeyEntry], *, fixed: Mapping[str, KeyEntry] | None = None, clock: Clock = time.monotonic) -> None:
        self._fixed = dict(fixed or {})
        self._clock = clock
        self._accounts: dict[str, Account] = {}
        self._digests: list[tuple[bytes, Account]] = []
        self.replace(keys)

    def find(self, sent: Iterable[bytes]) -> tuple[bytes, Account] | None:
        """The first of the sent keys that is known, and its account. How long this takes says nothing of the keys: hashes are
        compared, all of them, each in constant time."""
        for key in sent:
            digest = digest_of(key)
            matches = [account for known, account in self._digests if hmac.compare_digest(known, digest)]
            if matches:
                return key, matches[0]
        return None

    def check(self, keys: Mapping[str, KeyEntry]) -> None:
        """Raises ConfigError for keys that `replace` would not take."""
        if not self._fixed and not keys:
            raise ConfigError("there would be no API key left and everybody could ask; to open the server, start it without keys")

    def replace(self, keys: Mapping[str, KeyEntry]) -> None:
        """Exchanges the file's keys. A name with the same hash keeps its account. Raises ConfigError if none would be left, which
        would open the server to everybody, and then changes nothing."""
        self.check(keys)
        wanted = {**self._fixed, **keys}
        accounts = {}
        for name, entry in wanted.items():
            known = self._accounts.get(name)
            if known is not None and known.entry.hash == entry.hash:
                known.change(entry)
                accounts[name] = known
            else:
                accounts[name] = Account(name, entry, clock=self._clock)
        for name, account in self._accounts.items():
            account.revoked = accounts.get(name) is not account
        self._accounts = accounts
        self._digests = [(bytes.fromhex(account.entry.hash.partition(":")[2]), account) for account in accounts.values()]


def single(key: str | None) -> Keyring | None:
    """A keyring of one key that may do everything; None without one."""
    return Keyring({}, fixed={API_KEY: KeyEntry(hash=hash_of(key), operator=True)}) if key else None


def keyring_of(settings: Settings) -> Keyring | None:
    """The keys of the settings; None where everybody may ask. Raises ConfigError."""
    keys = read_keys(settings.keys)
    if not keys:
        return single(settings.api_key)
    fixed = {API_KEY: KeyEntry(hash=hash_of(settings.api_key), operator=True)} if settings.api_key else {}
    return Keyring(keys, fixed=fixed)
