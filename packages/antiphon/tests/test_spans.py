"""Spans of requests that really ran: the conventions' names, the phases of a turn, the caller's trace, and no word that was said."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Settings
from antiphon.observe import build
from antiphon_turns.errors import ConfigError

pytest.importorskip("opentelemetry.sdk", reason="the extra antiphon[otel] is not installed")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanKind, StatusCode

from antiphon.observe import spans

TOOLS = [{"name": "run", "input_schema": {"type": "object", "properties": {"cmd": {"type": "string"}}}}]
CALL = "<tool_call>\n<function=run>\n<parameter=cmd>\nPRIVATE\n</parameter>\n</function>\n</tool_call>"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Where spans go instead of a collector."""
    memory = InMemorySpanExporter()
    monkeypatch.setattr(spans, "exporter_of", lambda endpoint: SimpleSpanProcessor(memory))
    yield memory
    memory.shutdown()


def traced(run_server: Any, tmp_path: Path, exporter: InMemorySpanExporter, *asks: tuple[str, dict[str, Any]], **headers: str) -> Any:
    """The finished spans of some requests, by name in order of their start."""
    script = tmp_path / "script.jsonl"
    script.write_text('{"when": "act", "say": ' + json.dumps(f"</think>\n\nOn it.\n{CALL}") + '}\n{"when": "", "say": "PRIVATE words."}\n')
    settings = Settings(engine="mock", http_port=0, mock_script=script, otel_endpoint="http://127.0.0.1:1")
    with run_server(settings) as server:
        for path, body in asks:
            server.http.post(path, json={"model": "antiphon-mock", "max_tokens": 99, **body}, headers=headers)
    return sorted(exporter.get_finished_spans(), key=lambda span: (span.start_time or 0, -(span.end_time or 0)))


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


def test_a_turn_is_a_tree_of_spans(run_server: Any, tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    ask = said("act PRIVATE", tools=TOOLS, temperature=0.5, stream=True)
    found = traced(run_server, tmp_path, exporter, ("/v1/messages", ask), **{"x-dynamo-session-id": "s1"})
    by_name: dict[str, ReadableSpan] = {span.name: span for span in found}
    assert set(by_name) == {"POST /v1/messages", "chat antiphon-mock", "prepare", "queue", "prefill", "decode"}
    request, turn = by_name["POST /v1/messages"], by_name["chat antiphon-mock"]
    assert request.kind is SpanKind.SERVER and request.parent is None and turn.kind is SpanKind.INTERNAL
    assert turn.parent is not None and turn.parent.span_id == request.context.span_id
    phases = [by_name[name] for name in ("prepare", "queue", "prefill", "decode")]
    assert all(phase.parent is not None and phase.parent.span_id == turn.context.span_id for phase in phases)
    assert [phase.start_time for phase in phases] == [turn.start_time, *(phase.end_time for phase in phases[:-1])]
    assert phases[-1].end_time == turn.end_time and (turn.end_time or 0) <= (request.end_time or 0)
    has = turn.attributes or {}
    assert (has["gen_ai.operation.name"], has["gen_ai.request.model"]) == ("chat", "antiphon-mock")
    assert (has["gen_ai.conversation.id"], has["gen_ai.request.temperature"], has["gen_ai.request.max_tokens"]) == ("s1", 0.5, 99)
    assert has["gen_ai.response.finish_reasons"] == ("tool_use",)
    assert has["gen_ai.usage.cache_read.input_tokens"] == 0 and int(str(has["gen_ai.usage.input_tokens"])) > 20
    (call,) = turn.events
    assert call.name == "call ready" and (phases[-1].start_time or 0) <= call.timestamp <= (turn.end_time or 0)
    assert "PRIVATE" not in "".join(span.to_json() for span in found)


def test_names_are_those_of_the_convention_that_is_cited(run_server: Any, tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    found = traced(run_server, tmp_path, exporter, ("/v1/chat/completions", said("hi", n=2)), ("/v1/completions", {"prompt": "hi"}))
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    used = {name for span in found for name in span.attributes or {} if name.startswith("gen_ai.")}
    assert len(used) > 12 and used - known == set()
    operations = {value.value for value in gen_ai_attributes.GenAiOperationNameValues}
    assert {(span.attributes or {}).get("gen_ai.operation.name") for span in found} - {None} == {"chat", "text_completion"} <= operations
    assert spans.SCHEMA in {schema.value for schema in Schemas}
    assert {span.instrumentation_scope.schema_url for span in found if span.instrumentation_scope} == {spans.SCHEMA}
    assert len([span for span in found if span.name == "chat antiphon-mock"]) == 2


def test_the_callers_trace_goes_on(run_server: Any, tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    found = traced(run_server, tmp_path, exporter, ("/v1/messages", said("hi")), traceparent=f"00-{TRACE}-{CALLER}-01")
    assert {f"{span.context.trace_id:032x}" for span in found} == {TRACE}
    request = found[0]
    assert request.parent is not None and f"{request.parent.span_id:016x}" == CALLER


@pytest.mark.parametrize("header", [f"00-{TRACE}-{CALLER}-00", "00-nonsense", "00-" + "0" * 32 + f"-{CALLER}-01"])
def test_what_the_caller_does_not_sample_or_mean_is_no_parent(
    run_server: Any, tmp_path: Path, exporter: InMemorySpanExporter, header: str
) -> None:
    found = traced(run_server, tmp_path, exporter, ("/v1/messages", said("hi")), traceparent=header)
    assert all(span.parent is None for span in found[:1])
    assert (found == []) == header.endswith("-00")


def test_refusals_are_spans_without_turns(run_server: Any, tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    found = traced(run_server, tmp_path, exporter, ("/v1/messages", {"messages": 3}))
    assert [(span.name, (span.attributes or {})["http.response.status_code"]) for span in found] == [("POST /v1/messages", 400)]
    assert found[0].status.status_code is StatusCode.UNSET


def test_phases_follow_each_other_also_where_nothing_came() -> None:
    class Turn:
        since, begun, ended, ttft, queue_seconds = 1.0, 2.0, 4.0, None, 9.0

    turn: Any = Turn
    assert spans.phases(turn) == [("prepare", 1.0, 2.0), ("queue", 2.0, 4.0), ("prefill", 4.0, 4.0)]


def test_without_the_extra_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "antiphon.observe.spans", None)
    monkeypatch.delattr("antiphon.observe.spans")
    with pytest.raises(ConfigError, match=r"antiphon\[otel\]"):
        build.build_tracing("http://127.0.0.1:4318", remote=False)
    with pytest.raises(ConfigError, match="must be a URL"):
        build.build_tracing("127.0.0.1:4318", remote=False)


def test_nothing_of_it_is_imported_unasked() -> None:
    code = "import sys, antiphon.serve; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/tenant/traces", "http://127.0.0.1:4318/tenant/traces"),
    ],
)
def test_an_endpoint_gets_the_usual_path(monkeypatch: pytest.MonkeyPatch, endpoint: str, url: str) -> None:
    asked: list[str] = []

    class Exporter(InMemorySpanExporter):
        def __init__(self, endpoint: str) -> None:
            super().__init__()
            asked.append(endpoint)

    monkeypatch.setattr(spans, "OTLPSpanExporter", Exporter)
    spans.exporter_of(endpoint).shutdown()
    assert asked == [url]
