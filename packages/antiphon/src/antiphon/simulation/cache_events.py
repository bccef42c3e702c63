"""What a cache tells of its blocks."""

from collections.abc import Sequence

import msgspec


class Stored(msgspec.Struct, frozen=True):
    """Blocks that can be found from now on, in order; `parent` is the hash before the first. `token_ids` are theirs, concatenated.
    `salt`: they serve only prompts of that salt."""

    hashes: tuple[int, ...]
    parent: int | None
    token_ids: tuple[int, ...]
    salt: str = ""


class Removed(msgspec.Struct, frozen=True):
    """Blocks that are gone."""

    hashes: tuple[int, ...]


class Cleared(msgspec.Struct, frozen=True):
    """All blocks are gone."""


CacheEvent = Stored | Removed | Cleared


class StoredRun:
    """Blocks that were stored one behind the other, on their way to one event."""

    def __init__(self) -> None:
        self._hashes: list[int] = []
        self._tokens: list[int] = []
        self._parent: int | None = None
        self._salt = ""

    def add(self, block_hash: int, parent: int | None, tokens: Sequence[int], *, salt: str, events: list[CacheEvent]) -> None:
        """One more block; an unfinished run that it does not continue becomes an event first."""
        if self._hashes and self._hashes[-1] != parent:
            self.end(events)
        if not self._hashes:
            self._parent, self._salt = parent, salt
        self._hashes.append(block_hash)
        self._tokens.extend(tokens)

    def end(self, events: list[CacheEvent]) -> None:
        """The run becomes an event."""
        if self._hashes:
            events.append(Stored(tuple(self._hashes), self._parent, tuple(self._tokens), self._salt))
            self._hashes, self._tokens = [], []
