"""What the KV index of a frontend tells of its publishers."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from antiphon.router.kv_source import KvIndex

_COUNTS = (
    ("messages", "KV event messages in the index, replayed ones included."),
    ("gaps", "Times that messages were found missing."),
    ("lost", "Messages that no replay had."),
    ("restarts", "Times that a publisher was found to be a new one."),
    ("skipped", "Blocks that no prompt can be matched with."),
    ("unanswered", "Replays that nobody answered."),
    ("unreadable", "Messages that were no KV events."),
)


class KvMetrics(Collector):
    """Labels: `worker` is a worker, or `worker/rank` where it has several."""

    def __init__(self, index: KvIndex) -> None:
        self._index = index

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        states = self._index.states()
        missing = GaugeMetricFamily("antiphon_kv_event_source_missing", "1: no KV events come from this worker.", labels=("worker",))
        state = GaugeMetricFamily("antiphon_kv_event_state", "1 for the state of the worker's KV events.", labels=("worker", "state"))
        blocks = GaugeMetricFamily("antiphon_kv_blocks", "Blocks known on the worker's device.", labels=("worker",))
        for one in states:
            missing.add_metric((one.target,), int(one.state in ("none", "missing")))
            state.add_metric((one.target, one.state), 1)
            blocks.add_metric((one.target,), one.blocks)
        yield from (missing, state, blocks)
        for name, text in _COUNTS:
            family = CounterMetricFamily(f"antiphon_kv_{name}", text, labels=("worker",))
            for one in states:
                family.add_metric((one.target,), getattr(one, name))
            yield family
        yield CounterMetricFamily(
            "antiphon_kv_listener_deaths", "Times that the listener ended unasked.", value=self._index.listener_deaths
        )
        yield CounterMetricFamily("antiphon_kv_listener_cpu_seconds", "CPU time of the listener.", value=self._index.ingest_cpu_seconds)
