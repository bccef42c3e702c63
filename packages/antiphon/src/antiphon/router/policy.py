"""Which of the targets that could: one function a mode. All break ties by history, never by order."""

from collections.abc import Mapping, Sequence
from random import Random

from antiphon.router.targets import Target


def cheapest(
    targets: Sequence[Target], prompt: int, credits: Mapping[str, float], *, prefill_scale: float, home: str | None, bonus: float
) -> Target:
    """Mode kv: the least `prefill_scale * max(active_prefill + prompt - credit, 0) + active_decode`, all in tokens, with `bonus` taken
    off for `home`. `targets` is not empty. Source of the formula: design, section 9, less what is the same for all targets."""
    best, least = targets[0], float("inf")
    get = credits.get
    for target in targets:
        name = target.name
        missing = target.prefill + prompt - get(name, 0.0)
        found = target.decode + prefill_scale * missing if missing > 0 else target.decode
        if name == home:
            found -= bonus
        if found < least or (found == least and target.last_chosen < best.last_chosen):
            best, least = target, found
    return best


def longest_unchosen(targets: Sequence[Target]) -> Target:
    """Mode round-robin."""
    return min(targets, key=lambda target: target.last_chosen)


def least_loaded(targets: Sequence[Target]) -> Target:
    """Mode least-loaded: the fewest tokens to compute and to decode."""
    return min(targets, key=lambda target: (target.prefill + target.decode, target.last_chosen))


def lesser_of_two(targets: Sequence[Target], random: Random) -> Target:
    """Mode power-of-two: the less loaded of two drawn ones."""
    return least_loaded(random.sample(targets, min(2, len(targets))))
