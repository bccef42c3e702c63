"""What is known of a prompt's cached beginnings: from the engines' events, and from what was sent lately."""

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec
from xxhash import xxh3_64_hexdigest

from antiphon.router.ask import Ask
from antiphon.router.bits import TargetBits
from antiphon.router.cost import CostWeights, Overlap, credit
from antiphon.router.hashing import HashChains
from antiphon.router.predicted import PredictedIndex

# A prompt without a session most likely goes on from one that begins like it.
_LIKELY_BEGINNING = 1024


Level = tuple[Overlap, Collection[str]]
"""What some targets hold of a prompt."""


class KvView(Protocol):
    """What engines have said of their caches, for prompts in blocks of any size. Targets are called as `targets.target_name` does."""

    def overlaps(self, hashes: Sequence[int]) -> Mapping[str, Overlap]:
        """Each target's cached blocks of the prompt with these hashes."""
        ...

    def is_live(self, target: str) -> bool:
        """Whether its events come, so that what was only predicted need not be believed for long."""
        ...

    def routed(self, target: str, hashes: Sequence[int]) -> None:
        """A prompt with these blocks was sent there."""
        ...


@runtime_checkable
class LevelledView(KvView, Protocol):
    """A view that need not look at every target."""

    def levels(self, hashes: Sequence[int]) -> Iterable[Level]:
        """As `overlaps`, by what is held; a target counts by the best of the levels it stands in."""
        ...


@runtime_checkable
class BitsView(KvView, Protocol):
    """A view whose groups are `Holders` of these bits, which everybody else who has groups of the same targets then uses too."""

    @property
    def bits(self) -> TargetBits:
        """Always the same."""
        ...


class Sight(msgspec.Struct, kw_only=True):
    """What is known of one prompt in blocks of one size: what engines told, and how many blocks are predicted."""

    block_tokens: int
    hashes: Sequence[int]
    told: Sequence[Level]
    predicted: Sequence[tuple[int, Collection[str]]]

    def held_tokens(self, target: str) -> int:
        """What the target holds of it, wherever that lies."""
        told = max((overlap.blocks for overlap, holders in self.told if target in holders), default=0)
        return self.block_tokens * max(told, max((depth for depth, holders in self.predicted if target in holders), default=0))


class Sights:
    """Looks prompts up, in blocks of every size that workers have. Predictions live `live_seconds` where events come, else
    `predicted_seconds`. `bits` are those of the groups."""

    def __init__(self, view: KvView | None, *, clock: Callable[[], float], live_seconds: float, predicted_seconds: float) -> None:
        self.bits = view.bits if isinstance(view, BitsView) else TargetBits()
        self._view = view
        self._levels = _levels_of(view)
        self._clock = clock
        self._live_seconds = live_seconds
        self._predicted_seconds = predicted_seconds
        self._by_size: dict[int, tuple[HashChains, PredictedIndex]] = {}

    def keep_sizes(self, sizes: Iterable[int]) -> None:
        """Which sizes workers have now."""
        before = self._by_size
        self._by_size = {size: before.get(size) or (HashChains(size), self._prediction()) for size in sizes}
        for size in before.keys() - self._by_size.keys():
            before[size][1].close()

    def of(self, ask: Ask) -> list[Sight]:
        """One for each size."""
        found = []
        for size, (chains, predicted) in self._by_size.items():
            hashes = ask.hashes.get(size)
            if hashes is None:
                hashes = chains.of(ask.placement.session or _beginning(ask.ids), ask.ids, ask.salt)
            told = list(self._levels(hashes))
            found.append(Sight(block_tokens=size, hashes=hashes, told=told, predicted=predicted.levels(hashes)))
        return found

    def predict(self, target: str, sight: Sight) -> None:
        """The target will hold this prompt."""
        seconds = self._predicted_seconds
        if self._view is not None:
            self._view.routed(target, sight.hashes)
            seconds = self._live_seconds if self._view.is_live(target) else seconds
        self._by_size[sight.block_tokens][1].store(target, sight.hashes, seconds=seconds)

    def forget(self, target: str) -> None:
        """The target's cache is lost."""
        for _, predicted in self._by_size.values():
            predicted.clear(target)

    def _prediction(self) -> PredictedIndex:
        return PredictedIndex(self._predicted_seconds, clock=self._clock, bits=self.bits)


def worths(sights: Iterable[Sight], weights: CostWeights) -> list[tuple[float, Collection[str]]]:
    """What cached blocks are worth, in tokens, each with the targets that hold them; a target counts by the best."""
    found: list[tuple[float, Collection[str]]] = []
    for sight in sights:
        size = sight.block_tokens
        found += [(credit(overlap, weights) * size, holders) for overlap, holders in sight.told]
        found += [(depth * size * weights.device_credit, holders) for depth, holders in sight.predicted]
    return found


def credits_of(worths: Iterable[tuple[float, Collection[str]]]) -> dict[str, float]:
    """What each target's cached blocks are worth."""
    credits: dict[str, float] = {}
    for worth, holders in worths:
        for name in holders:
            if worth > credits.get(name, 0.0):
                credits[name] = worth
    return credits


def _levels_of(view: KvView | None) -> Callable[[Sequence[int]], Iterable[Level]]:
    """How the view tells its levels; of one that does not, they are put together."""
    if isinstance(view, LevelledView):
        return view.levels

    def gathered(hashes: Sequence[int]) -> Iterable[Level]:
        levels: dict[tuple[int, int, int], tuple[Overlap, list[str]]] = {}
        for name, overlap in view.overlaps(hashes).items() if view is not None else ():
            levels.setdefault((overlap.device, overlap.host, overlap.disk), (overlap, []))[1].append(name)
        return [(overlap, frozenset(names)) for overlap, names in levels.values()]

    return gathered


def _beginning(ids: Sequence[int]) -> str:
    return xxh3_64_hexdigest(array("I", ids[:_LIKELY_BEGINNING]))
