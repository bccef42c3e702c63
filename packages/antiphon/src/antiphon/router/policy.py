"""Which of the targets that could: one function a mode. All break ties by history, never by order."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random

from antiphon.router.order import LoadOrder
from antiphon.router.targets import Target

# So many holders are looked at one by one.
_FEW = 16


def cheapest(
    targets: Sequence[Target],
    prompt: int,
    credits: Mapping[str, float],
    *,
    prefill_scale: float,
    home: str | None,
    bonus: float,
    priority: int = 0,
) -> Target:
    """Mode kv: the least `prefill_scale * max(active_prefill + prompt - credit, 0) + active_decode`, all in tokens, with `bonus` taken
    off for `home`. `targets` is not empty. Source of the formula: design, section 9, less what is the same for all targets."""
    best, least = targets[0], float("inf")
    get = credits.get
    for target in targets:
        name = target.name
        missing = (target.ahead_of(priority) if priority > 0 else target.prefill) + prompt - get(name, 0.0)
        found = target.decode + prefill_scale * missing if missing > 0 else target.decode
        if name == home:
            found -= bonus
        if found < least or (found == least and target.last_chosen < best.last_chosen):
            best, least = target, found
    return best


def cheapest_of_all(
    order: LoadOrder,
    prompt: int,
    worths: Iterable[tuple[float, Collection[str]]],
    *,
    prefill_scale: float,
    home: str | None,
    bonus: float,
) -> Target:
    """The choice of `cheapest` among all targets, which are in `order`, without a look at each. `worths` as in `sight.worths`, none worth
    more than the prompt; so what a target costs is its load, less what it holds, and of those who hold the same the least loaded
    is best. Who holds much are few and are looked at each; a beginning that many hold, the first of them in order stands for."""
    first = order.first()
    best, chosen = first[:3], first[3]
    at_home = order.entry(home) if home is not None else None
    wide: list[tuple[float, Collection[str]]] = []
    if at_home is not None and (found := (at_home[0] - bonus, at_home[1], at_home[2])) < best:
        best, chosen = found, at_home[3]
    for worth, holders in worths:
        gain = prefill_scale * min(worth, prompt)
        if at_home is not None and home in holders and (found := (at_home[0] - (gain + bonus), at_home[1], at_home[2])) < best:
            best, chosen = found, at_home[3]
        if len(holders) > _FEW:
            wide.append((gain, holders))
            continue
        for name in holders:
            entry = order.entry(name)
            if entry is not None and (found := (entry[0] - gain, entry[1], entry[2])) < best:
                best, chosen = found, entry[3]
    for gain, holders in wide:
        for entry in order.members(holders):
            found = entry[0] - gain, entry[1], entry[2]
            if found[0] > best[0]:
                break
            if entry[3].name in holders:
                if found < best:
                    best, chosen = found, entry[3]
                break
    return chosen


def longest_unchosen(targets: Sequence[Target]) -> Target:
    """Mode round-robin."""
    return min(targets, key=lambda target: target.last_chosen)


def least_loaded(targets: Sequence[Target]) -> Target:
    """Mode least-loaded: the fewest tokens to compute and to decode."""
    return min(targets, key=lambda target: (target.prefill + target.decode, target.last_chosen))


def lesser_of_two(targets: Sequence[Target], random: Random) -> Target:
    """Mode power-of-two: the less loaded of two drawn ones."""
    return least_loaded(random.sample(targets, min(2, len(targets))))
