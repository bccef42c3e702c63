"""Health probes: how often a worker is looked at, and when it counts as gone."""

from typing import Protocol

import msgspec

from antiphon.engines.base import Engine
from antiphon.workers.card import WorkerCard
from antiphon.workers.directory import WorkerAddress


class Connector(Protocol):
    """The way to a worker. Both raise WorkerError when nobody answers or the answer makes no sense, and ConfigError when whoever
    answers cannot be used at all."""

    async def connect(self, address: WorkerAddress) -> tuple[WorkerCard, Engine]:
        """Its card and a client, which is not started."""
        ...

    async def probe(self, address: WorkerAddress) -> WorkerCard:
        """Its card, from a worker that would take a job now."""
        ...


class ProbeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A well worker is probed every `seconds`; after `failures` in a row it is unwell, and probed after `first_retry_seconds`, then
    twice as long each time up to `seconds`. A probe that takes `limit_seconds` has failed, and so has a first meeting that takes
    `meeting_seconds`: an engine in this process may have a model to load."""

    seconds: float = 5.0
    failures: int = 2
    first_retry_seconds: float = 0.25
    limit_seconds: float = 10.0
    meeting_seconds: float = 300.0


class Health:
    """One worker's probes, counted. Pure."""

    def __init__(self, options: ProbeOptions) -> None:
        self._options = options
        self._failures = 0

    @property
    def is_well(self) -> bool:
        """Whether it may get jobs."""
        return self._failures < self._options.failures

    @property
    def next_in(self) -> float:
        """Seconds until the next probe."""
        options = self._options
        if not self._failures:
            return options.seconds
        return min(options.first_retry_seconds * 2.0 ** min(self._failures - 1, 30), options.seconds)

    def answered(self) -> None:
        """A probe found it well."""
        self._failures = 0

    def failed(self) -> None:
        """A probe found nobody, or nobody in time."""
        self._failures += 1
