"""What is told about the serving of a turn while it runs: cached tokens, waiting time, time to the first token, who serves it."""

from collections.abc import Callable

from antiphon.decode import TurnDecoder
from antiphon.generate import Generation
from antiphon_turns import Event, TurnMetadata, UsageUpdate


class ServingNotes:
    """Watches one turn. `since` is when its request came, on `clock`, in seconds. `open` until everything has been told that
    is told once. `worker` is the one that was told last."""

    def __init__(self, *, since: float, clock: Callable[[], float], worker: str | None = None) -> None:
        self._since = since
        self._clock = clock
        self._cache_told = False
        self._queue_told = False
        self.open = True
        self.worker = worker

    def news(self, decoder: TurnDecoder, generation: Generation) -> list[Event]:
        """What has become known since the last call. To be asked after each batch while `open`, and when the worker has changed."""
        events = self._taken_over(generation)
        if not self.open:
            return events
        queue_seconds = generation.queue_seconds
        cached = None if self._cache_told else decoder.cached_tokens
        queued = None if self._queue_told else queue_seconds
        ttft = self._clock() - self._since if decoder.output_ids else None
        if cached is not None:
            self._cache_told = True
            events.append(UsageUpdate(decoder.usage()))
        self._queue_told = self._queue_told or queued is not None
        if cached is not None or queued is not None or ttft is not None:
            events.append(TurnMetadata(cached_tokens=cached, queue_seconds=queued, ttft_seconds=ttft))
        # An engine tells the rest with its first token at the latest, or never.
        self.open = ttft is None
        return events

    def _taken_over(self, generation: Generation) -> list[Event]:
        if generation.worker in (None, self.worker):
            return []
        self.worker = generation.worker
        return [TurnMetadata(worker=generation.worker, migrations=generation.migrations or None)]
