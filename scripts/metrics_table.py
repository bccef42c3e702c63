"""Writes docs/metrics.md from the registry: every metric, its labels, and what it says.

usage: metrics_table.py            writes the file
       metrics_table.py --check    exit status 1 if the file is not what would be written
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from antiphon.explain.causes import SENTENCES, Cause
from antiphon.explain.explanation import Explanation
from antiphon.fleet.member import MemberReport
from antiphon.metrics.fleet_metrics import EventGauges, FleetGauges, FleetMetrics
from antiphon.metrics.metrics import Ended, Held, LostEntries, Metrics
from antiphon.router.ask import TargetLoad
from antiphon.router.kv_source import ListenerState, TargetState
from antiphon_turns import Anomaly, CallReady, TurnRequest, Usage

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
HEAD = """# Metrics

Made by `make docs` from the registry itself; a test keeps it current.

`GET /metrics` answers in the text form of Prometheus. It needs the API key where the server has one (`authorization: Bearer` in the
scrape configuration); `--no-enable-metrics` switches it off. With `--processes N` each process answers for itself.

`model` is the served model, `surface` one of messages, chat, responses and completions (`none` outside of turns), `client` the family of
the client by its user agent. No label ever holds a session, a request, a key or text of a client, so there are few series.

A counter ends in `_total`; a histogram has `_bucket`, `_sum` and `_count`. Times are in seconds. [deploy.md](deploy.md) has the scrape
configuration, and `deploy/grafana/antiphon.json` is a dashboard of these metrics.

"""
QUESTIONS = {
    "how long until the first token, at worst for 1 in 100?": (
        "histogram_quantile(0.99, sum by (le, client) (rate(antiphon_time_to_first_token_seconds_bucket[5m])))"
    ),
    "how long before the end of its turn could a call be run?": (
        "histogram_quantile(0.5, sum by (le) (rate(antiphon_call_lead_seconds_bucket[5m])))"
    ),
    "does the cache hold what it should?": (
        "sum(rate(antiphon_cache_hit_tokens_total[5m])) / sum(rate(antiphon_cache_expected_tokens_total[5m]))"
    ),
    "how many sessions come back exactly as the engine holds them?": (
        "sum(rate(antiphon_exact_turns_total[5m])) / sum(rate(antiphon_followed_turns_total[5m]))"
    ),
    "which worker is behind?": "max by (worker) (antiphon_worker_prefill_tokens)",
}


def shown() -> Iterator[Metric]:
    """Every metric of a frontend with workers, with at least one sample."""
    metrics = Metrics("m", held={"ledger": lambda: Held(1, 1, 1, 1)}, running=lambda: 1, clock=iter(range(100)).__next__)
    fleet = FleetMetrics("m")
    fleet.placed("cache", 0.1)
    fleet.refused("full")
    fleet.migrated(ongoing=True)
    member = MemberReport(name="w", url="u", state="ready", kind=None, jobs=0, detail=None)
    load = TargetLoad(worker="w", rank=0, available=True, active=0, prefill_tokens=0, decode_tokens=0)
    target = TargetState(worker="w", target="w", state="none")
    metrics.register(
        fleet,
        LostEntries(lambda: {"recording": 1}),
        FleetGauges(reports=lambda: [member], loads=lambda: [load], queued=lambda: 0),
        EventGauges(lambda: [target], lambda: ListenerState(0, 0.0)),
    )
    metrics.answered(surface="chat", client="other", status=200)
    metrics.speculated("done", 1)
    _turn(metrics)
    yield from text_string_to_metric_families(metrics.text().decode())


def _turn(metrics: Metrics) -> None:
    """One turn in which everything happens that is counted."""
    meter = metrics.start(TurnRequest(surface="chat", model="m", messages=()), since=0)
    meter.note(1, [CallReady(0, "c", "run", "{}")])
    meter.note(2, [])
    meter.queue_seconds = 0.1
    cause = Cause(code=next(iter(SENTENCES)))
    found = Explanation(prompt_tokens=1, expected_tokens=1, shared_tokens=1, lost_tokens=1, cached_tokens=1, causes=(cause,))
    ended = Ended(stop_reason="end_turn", usage=Usage(prompt_tokens=1), explanation=found, anomalies=(Anomaly("x", ""),))
    metrics.end(meter, ended)


def names() -> set[str]:
    """What expressions may name: every series there is."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    return {metric.name + suffix for metric in shown() for suffix in suffixes[metric.type]}


def labels_of(metric: Metric) -> tuple[str, ...]:
    """The labels of a metric's samples."""
    found = {label: None for sample in metric.samples for label in sample.labels if label != "le"}
    return tuple(sorted(found, key=lambda label: (label not in ("model", "surface", "client"), label)))


def page() -> str:
    """The text of docs/metrics.md."""
    rows = sorted(
        (f"`{metric.name}{'_total' if metric.type == 'counter' else ''}`", metric.type, ", ".join(labels_of(metric)), metric.documentation)
        for metric in shown()
    )
    questions = ((question, f"`{expression}`") for question, expression in QUESTIONS.items())
    return (
        HEAD
        + table(("metric", "type", "labels", "what"), rows)
        + "\n## How to read them\n\n"
        + table(("question", "expression"), questions)
    )


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [headings, ("---",) * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    """Writes the page, or with --check says whether it is current."""
    if "--check" in sys.argv[1:]:
        current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page()
        sys.stdout.write("docs/metrics.md is current.\n" if current else "docs/metrics.md is not current: run `make docs`.\n")
        sys.exit(0 if current else 1)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
