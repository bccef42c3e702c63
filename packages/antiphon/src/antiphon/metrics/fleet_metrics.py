"""What `/metrics` tells of a fleet. Made without a registry; `Metrics.register` takes it in."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from antiphon.fleet.member import MemberReport
from antiphon.metrics import who
from antiphon.router.ask import TargetLoad
from antiphon.router.kv_source import ListenerState, TargetState

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_WHO = ("model", "surface", "client")


class FleetMetrics(Collector):
    """Counters of routing, under the model, surface and client that the running task works for. To be used from the event loop's thread
    only."""

    def __init__(self, model: str) -> None:
        self._model = model

        def counter(name: str, text: str, label: str) -> Counter:
            return Counter(f"antiphon_{name}", text, [*_WHO, label], registry=None)

        self._decisions = counter("routing_decisions", "Jobs placed on a worker, by reason.", "reason")
        self._refusals = counter("routing_refusals", "Jobs that no worker got, by reason.", "reason")
        text = "How long jobs waited in the router."
        self._wait = Histogram("antiphon_router_queue_seconds", text, _WHO, buckets=_SECONDS, registry=None)
        self._migrations = counter(
            "migrations", "Jobs that went on on another worker; ongoing: with tokens out already, new: without.", "kind"
        )

    def placed(self, reason: str, waited: float) -> None:
        """A job got a worker after so many seconds."""
        self._decisions.labels(self._model, *who.labels(), reason).inc()
        self._wait.labels(self._model, *who.labels()).observe(waited)

    def refused(self, because: str) -> None:
        """A job got none."""
        self._refusals.labels(self._model, *who.labels(), because).inc()

    def migrated(self, *, ongoing: bool) -> None:
        """A job moves; `ongoing`: with tokens out already."""
        self._migrations.labels(self._model, *who.labels(), "ongoing" if ongoing else "new").inc()

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        for metric in (self._decisions, self._refusals, self._wait, self._migrations):
            yield from metric.collect()


class EventGauges(Collector):
    """What the engines' KV events are worth, worker by worker."""

    def __init__(self, states: Callable[[], Sequence[TargetState]], listener: Callable[[], ListenerState]) -> None:
        self._states = states
        self._listener = listener

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        where = ["worker", "target"]
        missing = GaugeMetricFamily(
            "antiphon_kv_event_source_missing", "1 where a worker's cache is only guessed, since none of its events come.", labels=where
        )
        state = GaugeMetricFamily("antiphon_kv_event_state", "1 for the state of each feed (docs/workers.md).", labels=[*where, "state"])
        blocks = GaugeMetricFamily("antiphon_kv_blocks", "Blocks that are known to be cached on the device.", labels=where)
        counts = {
            name: CounterMetricFamily(f"antiphon_kv_event_{name}", text, labels=where)
            for name, text in (
                ("messages", "Messages of KV events applied."),
                ("gaps", "Gaps in the KV events of a feed."),
                ("lost", "Messages of KV events that no replay had."),
                ("restarts", "Engines whose KV events began anew."),
                ("skipped", "Blocks in KV events that no prompt can be matched with."),
                ("unanswered", "Replays of KV events that nobody answered."),
                ("unreadable", "Messages that were no KV events."),
            )
        }
        for one in self._states():
            labels = [one.worker, one.target]
            missing.add_metric(labels, one.state in ("none", "missing"))
            state.add_metric([*labels, one.state], 1)
            blocks.add_metric(labels, one.blocks)
            for name, family in counts.items():
                family.add_metric(labels, getattr(one, name))
        yield from (missing, state, blocks, *counts.values())
        listener = self._listener()
        deaths, cpu = "Times that the process that reads KV events ended.", "CPU time of the process that reads KV events."
        yield CounterMetricFamily("antiphon_kv_listener_deaths", deaths, value=listener.deaths)
        yield CounterMetricFamily("antiphon_kv_listener_cpu_seconds", cpu, value=listener.cpu_seconds)


class FleetGauges(Collector):
    """The state of the workers, read when somebody asks."""

    def __init__(
        self, *, reports: Callable[[], Sequence[MemberReport]], loads: Callable[[], Sequence[TargetLoad]], queued: Callable[[], int]
    ) -> None:
        self._reports = reports
        self._loads = loads
        self._queued = queued

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        states = GaugeMetricFamily("antiphon_worker_state", "1 for the state each worker is in.", labels=["worker", "state"])
        for report in self._reports():
            states.add_metric([report.name, report.state], 1)
        yield states
        where = ["worker", "rank"]
        jobs = GaugeMetricFamily("antiphon_worker_jobs", "Jobs on each worker.", labels=where)
        prefill = GaugeMetricFamily("antiphon_worker_prefill_tokens", "Prompt tokens sent and not computed yet.", labels=where)
        decode = GaugeMetricFamily("antiphon_worker_decode_tokens", "Tokens of the sequences it has.", labels=where)
        for load in self._loads():
            name = [load.worker, str(load.rank)]
            jobs.add_metric(name, load.active)
            prefill.add_metric(name, load.prefill_tokens)
            decode.add_metric(name, load.decode_tokens)
        yield from (jobs, prefill, decode)
        yield GaugeMetricFamily("antiphon_router_queued", "Jobs that wait for a worker.", value=self._queued())
