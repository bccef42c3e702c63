"""What was asked and what came of it, as figures: by class and priority, and over all. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from antiphon.load.trace import PlannedRequest

ALL = "all"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One request that was sent. Times in seconds: `sent` from the beginning of the run, `ttft` and `whole` from sending; `ttft` None: no
    token came. `gaps`: times between arrivals of text. Token counts None where the server said none. `error`: why it is no answer;
    `cut`: the run's time was up before it ended, which is nobody's fault."""

    request: PlannedRequest
    sent: float
    ttft: float | None = None
    whole: float = 0.0
    gaps: Sequence[float] = ()
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    error: str = ""
    cut: bool = False


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of times in milliseconds; None of nothing."""

    p50: float | None
    p90: float | None
    p99: float | None
    mean: float | None


class ClassFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One class at one priority, or all. `hit_rate`: cached by prompt tokens, over the answers that say both."""

    name: str
    priority: int | None
    requests: int
    errors: int
    cut: int
    ttft_ms: Spread
    itl_ms: Spread
    whole_ms: Spread
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    hit_rate: float | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run. `seconds`: until its last answer. `errors`: messages with their number."""

    url: str
    surface: str
    seconds: float
    requests_per_second: float
    output_tokens_per_second: float
    classes: tuple[ClassFigures, ...]
    errors: dict[str, int]


def quantile(values: Sequence[float], share: float) -> float | None:
    """Of sorted values the least that so large a share does not exceed; None of none."""
    return values[min(int(share * len(values)), len(values) - 1)] if values else None


def spread(seconds: Iterable[float]) -> Spread:
    """Percentiles in milliseconds."""
    found = sorted(1000 * value for value in seconds)
    mean = sum(found) / len(found) if found else None
    return Spread(p50=quantile(found, 0.5), p90=quantile(found, 0.9), p99=quantile(found, 0.99), mean=mean)


def class_figures(name: str, priority: int | None, outcomes: Sequence[Outcome]) -> ClassFigures:
    """The figures of these outcomes. Times count only whole answers."""
    good = [one for one in outcomes if not one.error and not one.cut]
    counted = [one for one in good if one.prompt_tokens and one.cached_tokens is not None]
    prompt, cached = sum(one.prompt_tokens or 0 for one in counted), sum(one.cached_tokens or 0 for one in counted)
    return ClassFigures(
        name=name,
        priority=priority,
        requests=len(outcomes),
        errors=sum(1 for one in outcomes if one.error),
        cut=sum(1 for one in outcomes if one.cut),
        ttft_ms=spread(one.ttft for one in good if one.ttft is not None),
        itl_ms=spread(gap for one in good for gap in one.gaps),
        whole_ms=spread(one.whole for one in good),
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=sum(one.output_tokens or 0 for one in good),
        hit_rate=cached / prompt if prompt else None,
    )


def report_of(outcomes: Sequence[Outcome], *, url: str, surface: str) -> Report:
    """Classes by falling priority, then all together."""
    groups: dict[tuple[int, str], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((-one.request.priority, one.request.kind), []).append(one)
    classes = [class_figures(name, -negative, found) for (negative, name), found in sorted(groups.items())]
    everything = class_figures(ALL, None, outcomes)
    seconds = max((one.sent + one.whole for one in outcomes), default=0.0)
    errors: dict[str, int] = {}
    for one in outcomes:
        if one.error:
            errors[one.error] = errors.get(one.error, 0) + 1
    return Report(
        url=url,
        surface=surface,
        seconds=seconds,
        requests_per_second=len(outcomes) / seconds if seconds else 0.0,
        output_tokens_per_second=everything.output_tokens / seconds if seconds else 0.0,
        classes=(*classes, everything),
        errors=errors,
    )
