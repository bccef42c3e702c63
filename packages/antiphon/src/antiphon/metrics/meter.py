"""The times of one turn, noted batch by batch."""

from bisect import bisect_left
from collections.abc import Callable

from antiphon_turns import Anomaly, CallReady, Event, SegmentDelta, StopReason, TurnEnd

TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of the classes of the time between two tokens."""


class TurnMeter:
    """Plain numbers until the turn ends, because the stream passes here for every batch. `since` is when the request came, on `clock`, in
    seconds. `begun`: when it was handed on to be generated; `calls`: when each was handed out. `surface` and `client` are what
    the turn is counted under; `anomalies` and `stop_reason` what its client was told."""

    def __init__(self, *, surface: str, client: str, since: float, clock: Callable[[], float]) -> None:
        self.surface = surface
        self.client = client
        self._clock = clock
        self._tokens = 0
        self._last = 0.0
        self.since = since
        self.begun = since
        self.ttft: float | None = None
        self.queue_seconds: float | None = None
        self.gaps = [0] * (len(TOKEN_SECONDS) + 1)
        self.gap_seconds = 0.0
        self.calls: list[float] = []
        self.anomalies: list[str] = []
        self.stop_reason: StopReason | None = None
        self.counted = False

    def note(self, tokens: int, events: list[Event]) -> list[Event]:
        """A batch leaves: the same events. `tokens` were sampled so far; those that come together share the time since those before."""
        now = self._clock()
        new = tokens - self._tokens
        if new > 0:
            if self.ttft is None:
                self.ttft = now - self.since
            else:
                passed = now - self._last
                self.gaps[bisect_left(TOKEN_SECONDS, passed / new)] += new
                self.gap_seconds += passed
            self._tokens = tokens
            self._last = now
        for event in events:
            if type(event) is SegmentDelta:
                continue
            if isinstance(event, CallReady):
                self.calls.append(now)
            elif isinstance(event, Anomaly):
                self.anomalies.append(event.code)
            elif isinstance(event, TurnEnd):
                self.stop_reason = event.stop_reason
        return events

    def leads(self) -> list[float]:
        """How long before now, the end of the turn, each call was handed out, in seconds."""
        now = self._clock()
        return [now - then for then in self.calls]
