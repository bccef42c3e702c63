"""The observers that the settings want."""

from antiphon.config import Settings
from antiphon.observe.access_log import AccessLog
from antiphon.observe.observing import Observer, Observers
from antiphon.pipeline import Pipeline


def build_observers(settings: Settings, pipeline: Pipeline) -> Observers:
    """All of them, at work. Raises ConfigError for a file that cannot be written, and for a library that is not there."""
    observers: list[Observer] = []
    if settings.access_log is not None:
        observers.append(AccessLog(settings.access_log))

    def count(surface: str, client: str, status: int) -> None:
        pipeline.metrics.answered(surface=surface, client=client, status=status)

    return Observers(observers, count=count)
