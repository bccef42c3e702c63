"""Who computes prompt tokens next. Pure; times in seconds of any one clock.

A prompt is computed in slices, and only one at a time holds the prefill lock: two would share every batch, and the shorter one would
wait for the longer. Each claim is due when it would be done at a third of the engine's speed; the earliest goes first. So a short prompt
passes a long one, and nothing starves: what comes later is due later.
"""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")
SECONDS_PER_PRIORITY = 120.0
_MOST_PRIORITY = 5
_FIRST_RATE = 200.0  # tokens a second; measured from the first slice on
# A prompt lets shorter ones pass until it has been slowed down so much.
_STRETCH = 3.0


class Claim(msgspec.Struct, kw_only=True, eq=False):
    """A job's place in the line. `tokens` of its prompt were missing at its `arrival`; a step of priority is a head start, up to five of
    them. What is computed `ahead` gives way to everything. `placed`: it has a slot."""

    arrival: float
    tokens: int
    priority: int = 0
    ahead: bool = False
    placed: bool = False

    def due(self, rate: float) -> tuple[bool, float]:
        """Lower goes first. With the rate of now, not that of the arrival: where the engine is slower than it was, all wait longer."""
        steps = max(-_MOST_PRIORITY, min(_MOST_PRIORITY, self.priority))
        return self.ahead, self.arrival + _STRETCH * self.tokens / rate - steps * SECONDS_PER_PRIORITY


class Pace:
    """How many tokens a slice has: at most `most`, in whole batches, and about `seconds` long as measured."""

    def __init__(self, batch: int, *, most: int, seconds: float) -> None:
        self._batch = batch
        self._most = max(batch, most)
        self._seconds = seconds
        self.rate = _FIRST_RATE

    @property
    def tokens(self) -> int:
        """The length of the next slice."""
        return max(self._batch, min(self._most, int(self.rate * self._seconds)) // self._batch * self._batch)

    def note(self, tokens: int, seconds: float) -> None:
        """A slice took so long. Depth and other load change the rate, so the latest counts half."""
        if tokens >= self._batch and seconds > 0:
            self.rate += (tokens / seconds - self.rate) / 2


class Line(Generic[T]):
    """Claims that wait for the prefill lock, each with whose it is. They are few: looking at all of them is cheap."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Claim, T]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, claim: Claim, owner: T) -> None:
        """The claim wants the lock. Among equals the one that waits longer goes first."""
        self._waiting[id(claim)] = claim, owner

    def leave(self, claim: Claim) -> None:
        """It does not any more; nothing happens if it did not."""
        self._waiting.pop(id(claim), None)

    def in_order(self, rate: float) -> list[tuple[Claim, T]]:
        """All that wait, first the one that goes first while the engine computes so many tokens a second."""
        return sorted(self._waiting.values(), key=lambda pair: pair[0].due(rate))
