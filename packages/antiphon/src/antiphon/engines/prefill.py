"""Who computes prompt tokens next. Pure; times in seconds of any one clock.

A prompt is computed in slices, and only one at a time holds the prefill lock: two would share every batch, and the shorter one would
wait for the longer. Each claim is due when it would be done if it were alone; the earliest goes first. So a short prompt passes a long one
that has only begun, and nothing starves: what comes later is due later.
"""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")
SECONDS_PER_PRIORITY = 30.0
_MOST_PRIORITY = 10
_FIRST_RATE = 200.0  # tokens a second; measured from the first slice on
_NEVER = float("inf")


class Claim(msgspec.Struct, kw_only=True, eq=False):
    """A job's place in the line. Lower `due` goes first. `placed`: it has a slot."""

    due: float
    placed: bool = False


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

    def claim(self, tokens: int, *, priority: int, now: float) -> Claim:
        """The claim of a prompt of which so many tokens are missing. A step of priority is a head start, up to ten of them."""
        steps = max(-_MOST_PRIORITY, min(_MOST_PRIORITY, priority))
        return Claim(due=now + tokens / self.rate - steps * SECONDS_PER_PRIORITY)

    def idle_claim(self) -> Claim:
        """The claim of what gives way to everything."""
        return Claim(due=_NEVER)


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

    def in_order(self) -> list[tuple[Claim, T]]:
        """All that wait, first the one that goes first."""
        return sorted(self._waiting.values(), key=lambda pair: pair[0].due)
