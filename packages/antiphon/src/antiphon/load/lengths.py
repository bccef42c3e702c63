"""Distributions of lengths and times as plain data. A bare number is always that number."""

from random import Random

import msgspec


class Uniform(msgspec.Struct, frozen=True, kw_only=True, tag="uniform", tag_field="kind", forbid_unknown_fields=True):
    """Every value between `low` and `high` is as likely."""

    low: float
    high: float


class LogNormal(msgspec.Struct, frozen=True, kw_only=True, tag="lognormal", tag_field="kind", forbid_unknown_fields=True):
    """Half of the values lie below `median`; `sigma` is the standard deviation of the logarithm. Values beyond `low` and `high` are moved
    to these."""

    median: float
    sigma: float
    low: float = 0.0
    high: float = float("inf")


class Exponential(msgspec.Struct, frozen=True, kw_only=True, tag="exponential", tag_field="kind", forbid_unknown_fields=True):
    """Memoryless, with this `mean`. Values beyond `high` are moved to it."""

    mean: float
    high: float = float("inf")


class Choice(msgspec.Struct, frozen=True, kw_only=True, tag="choice", tag_field="kind", forbid_unknown_fields=True):
    """One of `values`, by `weights` where they are given: an empirical distribution."""

    values: tuple[float, ...]
    weights: tuple[float, ...] | None = None


Distribution = int | float | Uniform | LogNormal | Exponential | Choice


def draw(distribution: Distribution, random: Random) -> float:
    """One value."""
    if isinstance(distribution, int | float):
        return float(distribution)
    if isinstance(distribution, Uniform):
        return random.uniform(distribution.low, distribution.high)
    if isinstance(distribution, LogNormal):
        value = distribution.median * random.lognormvariate(0.0, distribution.sigma)
        return min(max(value, distribution.low), distribution.high)
    if isinstance(distribution, Exponential):
        return min(random.expovariate(1 / distribution.mean), distribution.high)
    return random.choices(distribution.values, weights=distribution.weights)[0]


def draw_count(distribution: Distribution, random: Random, *, least: int = 0) -> int:
    """One value as a whole number, not below `least`."""
    return max(round(draw(distribution, random)), least)
