"""What `/metrics` tells, in a registry of its own. Labels have few values: never a session, a request or a tenant."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from antiphon import client_family
from antiphon.explain.explanation import Explanation
from antiphon.metrics import who
from antiphon.metrics.meter import TOKEN_SECONDS, TurnMeter
from antiphon_turns import Anomaly, StopReason, TurnRequest, Usage

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_WHO = ("model", "surface", "client")


class Held(msgspec.Struct, frozen=True):
    """How much a memory of the server holds now; and how often something asked for was there, and was not, where that is counted."""

    bytes: int
    entries: int
    hits: int | None = None
    misses: int = 0


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a turn at its end. `anomalies` are those of its prompt. `stop_reason` counts where the client was told none."""

    stop_reason: StopReason
    usage: Usage
    explanation: Explanation
    anomalies: tuple[Anomaly, ...] = ()


class Metrics:
    """All metrics of one server. To be used from the event loop's thread only."""

    def __init__(
        self,
        model: str,
        *,
        held: Mapping[str, Callable[[], Held]],
        running: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Without this each counter has a second series that says when it was made.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._model = model
        self._clock = clock
        self._registry = registry = CollectorRegistry()

        def counter(name: str, text: str, labels: Iterable[str] = _WHO) -> Counter:
            return Counter(f"antiphon_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(f"antiphon_{name}_seconds", text, _WHO, buckets=_SECONDS, registry=registry)

        self._requests = counter("requests", "Requests for a turn that were answered, by the status of the answer.", (*_WHO, "status"))
        self._turns = counter("turns", "Turns that ended, by their stop reason.", (*_WHO, "stop_reason"))
        self._ttft = histogram("time_to_first_token", "From the request to its first sampled token.")
        self._queue = histogram("queue", "How long turns waited for the engine.")
        self._lead = histogram("call_lead", "How long before the end of its turn a call was handed to the client.")
        self._calls = counter("calls", "Tool calls handed to clients.")
        self._prompt = counter("prompt_tokens", "Tokens of prompts.")
        self._output = counter("output_tokens", "Sampled tokens, reasoning included.")
        self._reasoning = counter("reasoning_tokens", "Sampled tokens of reasoning.")
        self._expected = counter("cache_expected_tokens", "Prompt tokens sent before, in turns whose engine says what it had cached.")
        self._cached = counter("cache_hit_tokens", "Prompt tokens the engine had cached.")
        self._causes = counter("cache_miss_causes", "Causes of cache misses; docs/explain.md lists them.", (*_WHO, "cause"))
        self._followed = counter("followed_turns", "Turns that follow another one of their session.")
        self._exact = counter("exact_turns", "Of those, the ones whose prompt leaves nothing the engine held.")
        self._lost = counter("replay_lost_tokens", "Tokens held after a turn that the session's next prompt did not begin with.")
        self._anomalies = counter("anomalies", "Malformed output and lost replay, contained.", (*_WHO, "kind"))
        self._ahead = counter("speculative_prefills", "Prefixes of next prompts computed ahead, by their outcome.", ("model", "outcome"))
        self._ahead_tokens = counter("speculative_prefill_tokens", "Tokens of next prompts that were computed ahead.", ("model",))
        self._gaps = TokenGaps(model)
        registry.register(self._gaps)
        registry.register(Gauges(held, running))

    def start(self, request: TurnRequest, *, since: float) -> TurnMeter:
        """A turn begins, and the running task works for it. `since`: when its request came, on the clock."""
        who.surface.set(request.surface)
        meter = TurnMeter(surface=request.surface, client=client_family.current.get(), since=since, clock=self._clock)
        meter.begun = self._clock()
        return meter

    def end(self, meter: TurnMeter, ended: Ended) -> None:
        """A turn has ended, however; only the first end of a meter counts."""
        if meter.counted:
            return
        meter.counted = True
        of = self._model, meter.surface, meter.client
        usage = ended.usage
        self._turns.labels(*of, meter.stop_reason or ended.stop_reason).inc()
        self._prompt.labels(*of).inc(usage.prompt_tokens)
        self._output.labels(*of).inc(usage.output_tokens)
        self._reasoning.labels(*of).inc(usage.reasoning_tokens)
        if meter.ttft is not None:
            self._ttft.labels(*of).observe(meter.ttft)
        if meter.queue_seconds is not None:
            self._queue.labels(*of).observe(meter.queue_seconds)
        for lead in meter.leads():
            self._calls.labels(*of).inc()
            self._lead.labels(*of).observe(lead)
        for kind in (*(anomaly.code for anomaly in ended.anomalies), *meter.anomalies):
            self._anomalies.labels(*of, kind).inc()
        self._gaps.add(meter)
        self._explained(of, ended.explanation)

    def _explained(self, of: tuple[str, str, str], found: Explanation) -> None:
        if found.cached_tokens is not None:
            self._expected.labels(*of).inc(found.expected_tokens)
            self._cached.labels(*of).inc(found.cached_tokens)
        if found.shared_tokens or found.lost_tokens:
            self._followed.labels(*of).inc()
            self._exact.labels(*of).inc(0 if found.lost_tokens else 1)
            self._lost.labels(*of).inc(found.lost_tokens)
        for cause in found.causes:
            self._causes.labels(*of, cause.code).inc()

    def answered(self, *, surface: str, client: str, status: int) -> None:
        """A request for a turn has its answer; `status` 499: its client went away before."""
        self._requests.labels(self._model, surface, client, str(status)).inc()

    def speculated(self, outcome: str, tokens: int) -> None:
        """A speculative prefill has ended, or was not begun; `tokens` were new to the engine."""
        self._ahead.labels(self._model, outcome).inc()
        self._ahead_tokens.labels(self._model).inc(tokens)

    def register(self, *collectors: Collector) -> None:
        """Tells of something else too."""
        for collector in collectors:
            self._registry.register(collector)

    def text(self) -> bytes:
        """Everything in the text form of Prometheus, of CONTENT_TYPE."""
        return generate_latest(self._registry)


class TokenGaps(Collector):
    """The time between two tokens. A turn has thousands of them, so whole turns are added."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._sums: dict[tuple[str, str], tuple[list[int], float]] = {}

    def add(self, meter: TurnMeter) -> None:
        """Adds the gaps of an ended turn."""
        if not any(meter.gaps):
            return
        key = meter.surface, meter.client
        counts, seconds = self._sums.get(key, ([0] * len(meter.gaps), 0.0))
        self._sums[key] = [one + other for one, other in zip(counts, meter.gaps, strict=True)], seconds + meter.gap_seconds

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        family = HistogramMetricFamily("antiphon_inter_token_seconds", "Time between two tokens as they left the engine.", labels=_WHO)
        for (surface, client), (counts, seconds) in self._sums.items():
            total, buckets = 0, []
            for bound, count in zip((*map(str, TOKEN_SECONDS), "+Inf"), counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric((self._model, surface, client), buckets, seconds)
        yield family


class Gauges(Collector):
    """What holds now, asked for when it is told."""

    def __init__(self, held: Mapping[str, Callable[[], Held]], running: Callable[[], int]) -> None:
        self._held = held
        self._running = running

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        yield GaugeMetricFamily("antiphon_running_turns", "Turns in flight.", value=self._running())
        size = GaugeMetricFamily("antiphon_memory_bytes", "Bytes a bounded memory of the server holds.", labels=("what",))
        entries = GaugeMetricFamily("antiphon_memory_entries", "Entries a bounded memory of the server holds.", labels=("what",))
        hits = CounterMetricFamily("antiphon_memory_hits", "Look-ups in a memory that found something.", labels=("what",))
        misses = CounterMetricFamily("antiphon_memory_misses", "Look-ups in a memory that found nothing.", labels=("what",))
        for what, ask in self._held.items():
            now = ask()
            size.add_metric((what,), now.bytes)
            entries.add_metric((what,), now.entries)
            if now.hits is not None:
                hits.add_metric((what,), now.hits)
                misses.add_metric((what,), now.misses)
        yield from (size, entries, hits, misses)


class LostEntries(Collector):
    """What could not be written, asked for when it is told."""

    def __init__(self, lost: Callable[[], Mapping[str, int]]) -> None:
        self._lost = lost

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        text = "Requests missing in the access log, the recording or the traces, since they could not be written as fast as they came."
        family = CounterMetricFamily("antiphon_lost_entries", text, labels=("what",))
        for what, count in self._lost().items():
            family.add_metric((what,), count)
        yield family
