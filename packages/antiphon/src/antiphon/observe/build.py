"""The observers that the settings want."""

import os
from pathlib import Path

from antiphon.config import Settings
from antiphon.fleet.fleet import Fleet
from antiphon.metrics.metrics import LostEntries
from antiphon.observe.access_log import AccessLog
from antiphon.observe.observing import Observer, Observers
from antiphon.pipeline import Pipeline
from antiphon.recording.recorder import Recorder, RecordOptions
from antiphon_turns.errors import ConfigError


def build_observers(settings: Settings, pipeline: Pipeline) -> Observers:
    """All of them, at work. Raises ConfigError for a file that cannot be written, and for a library that is not there."""
    observers: list[Observer] = []
    if settings.access_log is not None:
        observers.append(AccessLog(settings.access_log))
    if settings.record is not None:
        observers.append(build_recorder(settings, settings.record, pipeline))
    if settings.otel_endpoint is not None:
        observers.append(build_tracing(settings.otel_endpoint, remote=isinstance(pipeline.engine, Fleet)))

    def count(surface: str, client: str, status: int) -> None:
        pipeline.metrics.answered(surface=surface, client=client, status=status)

    found = Observers(observers, count=count)
    pipeline.metrics.register(LostEntries(found.lost))
    return found


def build_recorder(settings: Settings, folder: Path, pipeline: Pipeline) -> Recorder:
    """The recorder of the settings. Raises ConfigError."""
    options = RecordOptions(
        folder=folder, content=settings.record_content, tokens=settings.record_tokens, max_bytes=settings.record_max_bytes
    )
    model = pipeline.model
    return Recorder(options, model.tokenizer, stop_ids=model.stop_ids, random_bytes=os.urandom)


def build_tracing(endpoint: str, *, remote: bool) -> Observer:
    """Spans to a collector. Raises ConfigError where the extra is not installed, or the endpoint is no URL."""
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"--otel-endpoint must be a URL such as http://127.0.0.1:4318, not {endpoint!r}")
    try:
        from antiphon.observe import spans
    except ImportError as error:
        raise ConfigError("--otel-endpoint needs further packages: pip install 'antiphon[otel]'") from error
    return spans.Tracing(spans.exporter_of(endpoint), remote=remote)
