"""Which blocks each target holds, as its engine told: sets, because whole messages enter them at once."""

from collections.abc import Iterable, Sequence

from antiphon.router.cost import Overlap
from antiphon.router.feed_blocks import DEVICE, DISK, HOST, TIERS
from antiphon.router.kv_pipe import Record

_CHECKS = 4
_GUESSES = 4


class TargetBlocks:
    """The blocks of one target by tier. `device` is to be read only; `is_plain`: no other tier has any."""

    def __init__(self) -> None:
        self._tiers: tuple[set[int], ...] = tuple(set() for _ in TIERS)
        self.device = self._tiers[DEVICE]
        self.is_plain = True

    def __len__(self) -> int:
        return sum(map(len, self._tiers))

    def on_device(self) -> frozenset[int]:
        """A copy of the device's hashes."""
        return frozenset(self._tiers[DEVICE])

    def apply(self, record: Record) -> None:
        """One operation. Stores and removals of the same blocks change nothing the second time."""
        tier = self._tiers[record.tier]
        if record.operation == "store":
            tier.update(record.hashes)
        elif record.operation == "remove":
            tier.difference_update(record.hashes)
        else:
            tier.clear()
        if record.tier != DEVICE:
            self.is_plain = not (self._tiers[HOST] or self._tiers[DISK])

    def holds_all(self, hashes: Sequence[int]) -> bool:
        """Whether every block is somewhere, as far as `overlap` looks."""
        found = self.overlap(hashes)
        return not hashes or (found is not None and found.blocks == len(hashes))

    def overlap(self, hashes: Sequence[int]) -> Overlap | None:
        """The cached beginning of a prompt: on the device, from there on in the host's memory, from there on on disk."""
        device = _reach(self._tiers[DEVICE], hashes, 0)
        host = _reach(self._tiers[HOST], hashes, device)
        disk = _reach(self._tiers[DISK], hashes, host)
        return Overlap(device=device, host=host - device, disk=disk - host) if disk else None


def levels(targets: Iterable[tuple[str, TargetBlocks]], hashes: Sequence[int]) -> list[tuple[Overlap, set[str]]]:
    """What targets hold of a prompt, each with the names of those that hold just so much. Targets that hold nothing are left out.

    Most targets hold as much as one that was looked at before (the head that all sessions share), so they are asked for just that first."""
    found: dict[tuple[int, int, int], tuple[Overlap, set[str]]] = {}
    guesses: list[_Guess] = []
    for name, blocks in targets:
        held = blocks.device
        if not blocks.is_plain:
            overlap = blocks.overlap(hashes)
            if overlap is not None:
                found.setdefault((overlap.device, overlap.host, overlap.disk), (overlap, set()))[1].add(name)
            continue
        for guess in guesses:
            if held.issuperset(guess.held) and guess.missing not in held:
                guess.names.add(name)
                break
        else:
            depth = _reach(held, hashes, 0)
            if depth:
                names = found.setdefault((depth, 0, 0), (Overlap(device=depth), set()))[1]
                names.add(name)
                if len(guesses) < _GUESSES:
                    guesses.append(_Guess(hashes, depth, names))
    return list(found.values())


class _Guess:
    """A depth that another target has: some of the blocks before it, and the first behind it."""

    __slots__ = ("held", "missing", "names")

    def __init__(self, hashes: Sequence[int], depth: int, names: set[str]) -> None:
        self.held = hashes[depth - 1], hashes[depth // 2], hashes[depth // 4]
        self.missing = hashes[depth] if depth < len(hashes) else None
        self.names = names


def _reach(held: set[int], hashes: Sequence[int], start: int) -> int:
    """How far `hashes` are held from `start` on.

    By halves, since a prefix is held without gaps but where an engine drops a block in the middle; a few places are checked for that, and
    where one is missing it is counted block by block."""
    if not held or start >= len(hashes) or hashes[start] not in held:
        return start
    low, high = start, len(hashes)
    while high - low > 1:
        middle = (low + high) // 2
        if hashes[middle] in held:
            low = middle
        else:
            high = middle
    step = max((high - start) // _CHECKS, 1)
    if all(hashes[place] in held for place in range(start, high, step)):
        return high
    return next(place for place in range(start, high) if hashes[place] not in held)
