"""Requests as OpenTelemetry spans, by the semantic conventions for generative AI in version 1.44.0 of the OpenTelemetry semantic
conventions (status there: development). Needs the extra `antiphon[otel]`; only `observe.build` imports this module, and only when asked.

A request for a turn is a SERVER span, below the caller's where the request has a W3C `traceparent`. Each turn is a span `chat MODEL` (or
`text_completion MODEL`) below it, with children `prepare`, `queue`, `prefill` and `decode`; an event `call ready` for each tool call stands
where it was handed out. Spans hold names, ids, numbers and times, and nothing that was said.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from antiphon import __version__
from antiphon.observe.observation import Observation, TurnFacts
from antiphon.observe.scribe import Scribe

SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
TRACES_PATH = "/v1/traces"
PROVIDER = "antiphon"
_MOST_TEXT = 200
_FLUSH_MILLISECONDS = 3000

Attribute = str | bool | int | float | tuple[str, ...]


def exporter_of(endpoint: str) -> SpanProcessor:
    """Sends spans to a collector by OTLP over HTTP. An endpoint without a path gets that of traces."""
    url = endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + TRACES_PATH
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=url))


class Tracing:
    """See observing.Observer. Spans are made by a thread. `remote`: turns run on workers elsewhere."""

    wants_bodies = False
    what = "traces"

    def __init__(self, processor: SpanProcessor, *, remote: bool) -> None:
        resource = Resource.create({SERVICE_NAME: "antiphon", SERVICE_VERSION: __version__})
        # A provider of its own: what else lives in this process is not traced unasked.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("antiphon", __version__, schema_url=SCHEMA)
        self._propagator = TraceContextTextMapPropagator()
        self._kind = SpanKind.CLIENT if remote else SpanKind.INTERNAL
        self._scribe: Scribe[Observation] = Scribe("tracing", self._write)

    @property
    def dropped(self) -> int:
        """Requests that were lost before they were spans."""
        return self._scribe.dropped

    def ended(self, observation: Observation) -> None:
        """See Observer."""
        if observation.surface is not None:
            self._scribe.take(observation, observation.size)

    def close(self) -> None:
        """See Observer."""
        self._scribe.close()
        self._provider.force_flush(_FLUSH_MILLISECONDS)
        self._provider.shutdown()

    def _write(self, observations: list[Observation]) -> None:
        for observation in observations:
            self._request(observation)

    def _request(self, observation: Observation) -> None:
        parent = self._propagator.extract({"traceparent": observation.traceparent, "tracestate": observation.tracestate})
        span = self._tracer.start_span(
            f"{observation.method} {observation.path}",
            context=parent,
            kind=SpanKind.SERVER,
            attributes=_known(
                {
                    "http.request.method": observation.method,
                    "http.route": observation.path,
                    "url.path": observation.path,
                    "http.response.status_code": observation.status,
                    "error.type": str(observation.status) if observation.status >= 500 else None,
                    "antiphon.request.id": observation.request_id,
                    "antiphon.client": observation.client,
                }
            ),
            start_time=_nanoseconds(observation, observation.since),
        )
        if observation.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        for turn in observation.turns:
            self._turn(observation, turn, span)
        span.end(_nanoseconds(observation, observation.ended))

    def _turn(self, observation: Observation, turn: TurnFacts, parent: Span) -> None:
        attributes = turn_attributes(turn, observation)
        span = self._tracer.start_span(
            f"{attributes['gen_ai.operation.name']} {attributes['gen_ai.request.model']}",
            context=set_span_in_context(parent),
            kind=self._kind,
            attributes=attributes,
            start_time=_nanoseconds(observation, turn.since),
        )
        if turn.stop_reason == "error":
            span.set_status(Status(StatusCode.ERROR))
        for name, start, end in phases(turn):
            child = self._tracer.start_span(name, context=set_span_in_context(span), start_time=_nanoseconds(observation, start))
            child.end(_nanoseconds(observation, end))
        for moment in turn.calls:
            span.add_event("call ready", timestamp=_nanoseconds(observation, moment))
        span.end(_nanoseconds(observation, turn.ended))


def phases(turn: TurnFacts) -> list[tuple[str, float, float]]:
    """What a turn was waiting for, and from when to when; the phases follow each other without gaps."""
    queued = min(turn.begun + (turn.queue_seconds or 0.0), turn.ended)
    first = turn.ended if turn.ttft is None else max(turn.since + turn.ttft, queued)
    found = [("prepare", turn.since, turn.begun), ("queue", turn.begun, queued), ("prefill", queued, first)]
    return found if turn.ttft is None else [*found, ("decode", first, turn.ended)]


def turn_attributes(turn: TurnFacts, observation: Observation) -> dict[str, Attribute]:
    """The attributes of a turn's span."""
    request, sampling, usage = turn.request, turn.request.sampling, turn.usage
    return _known(
        {
            "gen_ai.operation.name": "text_completion" if request.surface == "completions" else "chat",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": request.model[:_MOST_TEXT],
            "gen_ai.response.model": turn.model,
            "gen_ai.conversation.id": request.session[:_MOST_TEXT] if request.session else None,
            "gen_ai.request.max_tokens": sampling.max_tokens,
            "gen_ai.request.temperature": sampling.temperature,
            "gen_ai.request.top_p": sampling.top_p,
            "gen_ai.request.top_k": sampling.top_k,
            "gen_ai.request.seed": sampling.seed,
            "gen_ai.request.frequency_penalty": sampling.frequency_penalty,
            "gen_ai.request.presence_penalty": sampling.presence_penalty,
            "gen_ai.request.stream": request.stream,
            "gen_ai.request.choice.count": len(observation.turns) if len(observation.turns) > 1 else None,
            "gen_ai.output.type": "json" if request.output is not None else "text",
            "gen_ai.response.finish_reasons": (turn.stop_reason,),
            "gen_ai.response.time_to_first_chunk": turn.ttft,
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "error.type": "error" if turn.stop_reason == "error" else None,
            "antiphon.surface": request.surface,
            "antiphon.session.parent": request.parent[:_MOST_TEXT] if request.parent else None,
            "antiphon.worker": turn.worker,
            "antiphon.migrations": turn.migrations,
            "antiphon.queue.seconds": turn.queue_seconds,
        }
    )


def _known(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(observation: Observation, moment: float) -> int:
    return round(observation.time_of(moment) * 1e9)
