"""What is told about the serving of a turn while it runs: cached tokens, waiting time, time to the first token."""

from collections.abc import Callable

from antiphon.decode import TurnDecoder
from antiphon_turns import Event, TurnMetadata, UsageUpdate


class ServingNotes:
    """Watches one turn. `since` is when its request came, on `clock`, in seconds. `open` until everything has been told."""

    def __init__(self, *, since: float, clock: Callable[[], float]) -> None:
        self._since = since
        self._clock = clock
        self._cache_told = False
        self._queue_told = False
        self.open = True

    def news(self, decoder: TurnDecoder, queue_seconds: float | None) -> list[Event]:
        """What has become known since the last call. To be asked after each batch while `open`."""
        events: list[Event] = []
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
