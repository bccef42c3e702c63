"""Who wants which blocks kept, and how long: the blocks of a prompt are shared, so each pin has an owner."""

from collections.abc import Iterator


class Pins:
    """At most `room` blocks are pinned. Times are in seconds, on the cache's clock. Blocks are named by their hash."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._until: dict[int, dict[str, float]] = {}
        self._owned: dict[str, set[int]] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[int]:
        return iter(self._until)

    @property
    def full(self) -> bool:
        """Whether only blocks that are pinned already can be pinned."""
        return len(self._until) >= self._room

    def until(self, block_hash: int) -> float:
        """How long somebody wants a block; 0.0 if nobody does."""
        return max(self._until.get(block_hash, {}).values(), default=0.0)

    def hold(self, block_hash: int, until: float, owner: str) -> bool:
        """Pins a block, or lengthens its pin; False when there is no room."""
        if self.full and block_hash not in self._until:
            return False
        holders = self._until.setdefault(block_hash, {})
        holders[owner] = max(holders.get(owner, 0.0), until)
        self._owned.setdefault(owner, set()).add(block_hash)
        return True

    def release(self, owner: str) -> list[int]:
        """Forgets an owner; the blocks it held."""
        owned = self._owned.pop(owner, set())
        for block_hash in owned:
            self._drop(block_hash, owner)
        return list(owned)

    def expire(self, now: float) -> None:
        """Forgets pins whose time is over."""
        for owner, owned in list(self._owned.items()):
            for block_hash in [one for one in owned if self._until[one][owner] <= now]:
                owned.discard(block_hash)
                self._drop(block_hash, owner)
            if not owned:
                del self._owned[owner]

    def clear(self) -> None:
        """Forgets all."""
        self._until.clear()
        self._owned.clear()

    def _drop(self, block_hash: int, owner: str) -> None:
        holders = self._until[block_hash]
        del holders[owner]
        if not holders:
            del self._until[block_hash]
