"""A simulated fleet's outcome as figures."""

from collections.abc import Iterable, Sequence

import msgspec

from antiphon.load.figures import Spread, quantile, spread
from antiphon.simulation.fleet import ClassOutcome, FleetOutcome


class ClassFleetFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One class, or all. `hit_rate`: cached by prompt tokens. `attained`: cached tokens by those that one cache which never forgets would
    have held. `waited_ms`: in the router's queue."""

    name: str
    requests: int
    refused: int
    ttft_ms: Spread
    whole_ms: Spread
    waited_ms: Spread
    hit_rate: float
    attained: float
    last_end_s: float


class FleetFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `busy`: share of the time that workers computed, on average; `busiest`: the most busy by the average. Microseconds of CPU of
    the router: `ask_us` for one decision, `router_us` for everything that a request costs it. `seconds` are simulated."""

    label: str
    workers: int
    seconds: float
    classes: tuple[ClassFleetFigures, ...]
    busy: float
    busiest: float
    ask_us_p50: float
    ask_us_p99: float
    router_us: float
    most_queued: int

    @property
    def all(self) -> ClassFleetFigures:
        """All classes together."""
        return self.classes[-1]


def fleet_figures(label: str, outcome: FleetOutcome) -> FleetFigures:
    """The figures of a run; the last class is all together."""
    classes = [_class(name, [one]) for name, one in sorted(outcome.classes.items())]
    busy, asks = outcome.busy_seconds, sorted(outcome.ask_ns)
    average = sum(busy) / len(busy)
    requests = max(len(asks), 1)
    return FleetFigures(
        label=label,
        workers=len(busy),
        seconds=outcome.seconds,
        classes=(*classes, _class("all", outcome.classes.values())),
        busy=average / outcome.seconds if outcome.seconds else 0.0,
        busiest=max(busy) / average if average else 0.0,
        ask_us_p50=(quantile(asks, 0.5) or 0) / 1000,
        ask_us_p99=(quantile(asks, 0.99) or 0) / 1000,
        router_us=outcome.router_ns / requests / 1000,
        most_queued=outcome.most_queued,
    )


def _class(name: str, outcomes: Iterable[ClassOutcome]) -> ClassFleetFigures:
    found: Sequence[ClassOutcome] = list(outcomes)
    prompt = sum(one.prompt_tokens for one in found)
    attainable = sum(one.attainable_tokens for one in found)
    cached = sum(one.cached_tokens for one in found)
    return ClassFleetFigures(
        name=name,
        requests=sum(len(one.ttft) for one in found),
        refused=sum(one.refused for one in found),
        ttft_ms=spread(value for one in found for value in one.ttft),
        whole_ms=spread(value for one in found for value in one.whole),
        waited_ms=spread(value for one in found for value in one.waited),
        hit_rate=cached / prompt if prompt else 0.0,
        attained=cached / attainable if attainable else 0.0,
        last_end_s=max((one.last_end for one in found), default=0.0),
    )
