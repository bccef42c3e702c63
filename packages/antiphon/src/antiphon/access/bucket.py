"""A token bucket: so much a minute, a minute's worth at once. Pure: whoever asks says what time it is."""

import math

MINUTE = 60.0


class Bucket:
    """Holds what may still be spent. `now` is in seconds of any clock that does not go back.

    One spending may be larger than what is there, and even than the bucket: the level is then below zero, and nothing more leaves
    before it is back above. So a prompt that is longer than a minute's worth passes, and costs its time afterwards.
    """

    def __init__(self, per_minute: float, *, now: float) -> None:
        self._rate = per_minute / MINUTE
        self._size = per_minute
        self._level = per_minute
        self._since = now

    def wait(self, need: float, *, now: float) -> float:
        """Seconds until the level is at least `need`, or the bucket full; 0.0 if it is."""
        self._fill(now)
        short = min(need, self._size) - self._level
        return short / self._rate if short > 0 else 0.0

    def spend(self, amount: float, *, now: float) -> None:
        """Takes the amount out, whether it is there or not."""
        self._fill(now)
        self._level -= amount

    def resize(self, per_minute: float, *, now: float) -> None:
        """Another rate from now on; what is owed stays owed, and what was full stays full."""
        self._fill(now)
        was_full = math.isclose(self._level, self._size)
        self._rate, self._size = per_minute / MINUTE, per_minute
        self._level = per_minute if was_full else min(self._level, per_minute)

    def _fill(self, now: float) -> None:
        if now > self._since:
            self._level = min(self._size, self._level + (now - self._since) * self._rate)
            self._since = now
