"""What is known of a prompt's cached beginnings: from the engines' events, and from what was sent lately."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
from xxhash import xxh3_64_hexdigest

from antiphon.router.ask import Ask
from antiphon.router.cost import CostWeights, Overlap, credit
from antiphon.router.hashing import HashChains
from antiphon.router.predicted import PredictedIndex

# A prompt without a session most likely goes on from one that begins like it.
_LIKELY_BEGINNING = 1024


class KvView(Protocol):
    """What engines have said of their caches, for prompts in blocks of one size. Targets are called as `targets.target_name` does."""

    def overlaps(self, hashes: Sequence[int]) -> Mapping[str, Overlap]:
        """Each target's cached blocks of the prompt with these hashes."""
        ...

    def is_live(self, target: str) -> bool:
        """Whether its events come, so that what was only predicted need not be believed for long."""
        ...


class Sight(msgspec.Struct, kw_only=True):
    """What is known of one prompt in blocks of one size: what engines told, and how many blocks are predicted."""

    block_tokens: int
    hashes: Sequence[int]
    told: Mapping[str, Overlap]
    predicted: Mapping[str, int]

    def held_tokens(self, target: str) -> int:
        """What the target holds of it, wherever that lies."""
        told = self.told.get(target)
        return self.block_tokens * max(told.blocks if told is not None else 0, self.predicted.get(target, 0))


class Sights:
    """Looks prompts up, in blocks of every size that workers have. Predictions live `live_seconds` where events come, else
    `predicted_seconds`."""

    def __init__(self, views: Mapping[int, KvView], *, clock: Callable[[], float], live_seconds: float, predicted_seconds: float) -> None:
        self._views = views
        self._clock = clock
        self._live_seconds = live_seconds
        self._predicted_seconds = predicted_seconds
        self._by_size: dict[int, tuple[HashChains, PredictedIndex]] = {}

    def keep_sizes(self, sizes: Iterable[int]) -> None:
        """Which sizes workers have now."""
        before = self._by_size
        self._by_size = {size: before.get(size) or (HashChains(size), self._prediction()) for size in sizes}

    def of(self, ask: Ask) -> list[Sight]:
        """One for each size."""
        found = []
        for size, (chains, predicted) in self._by_size.items():
            hashes = ask.hashes.get(size)
            if hashes is None:
                hashes = chains.of(ask.placement.session or _beginning(ask.ids), ask.ids, ask.salt)
            view = self._views.get(size)
            told = view.overlaps(hashes) if view is not None else {}
            found.append(Sight(block_tokens=size, hashes=hashes, told=told, predicted=predicted.depths(hashes)))
        return found

    def predict(self, target: str, sight: Sight) -> None:
        """The target will hold this prompt."""
        view = self._views.get(sight.block_tokens)
        is_live = view is not None and view.is_live(target)
        seconds = self._live_seconds if is_live else self._predicted_seconds
        self._by_size[sight.block_tokens][1].store(target, sight.hashes, seconds=seconds)

    def forget(self, target: str) -> None:
        """The target's cache is lost."""
        for _, predicted in self._by_size.values():
            predicted.clear(target)

    def _prediction(self) -> PredictedIndex:
        return PredictedIndex(self._predicted_seconds, clock=self._clock)


def credits_of(sights: Iterable[Sight], weights: CostWeights) -> dict[str, float]:
    """What each target's cached blocks are worth, in tokens."""
    credits: dict[str, float] = {}
    for sight in sights:
        size = sight.block_tokens
        for name, overlap in sight.told.items():
            credits[name] = credit(overlap, weights) * size
        for name, depth in sight.predicted.items():
            worth = depth * size * weights.device_credit
            if worth > credits.get(name, 0.0):
                credits[name] = worth
    return credits


def _beginning(ids: Sequence[int]) -> str:
    return xxh3_64_hexdigest(array("I", ids[:_LIKELY_BEGINNING]))
