"""A circuit breaker: a worker that fails job after job gets none for a while, and longer each time."""

import msgspec


class BreakerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`failures` in a row open it for `seconds`; each time it opens again without a success in between, twice as long, up to
    `longest_seconds`."""

    failures: int = 3
    seconds: float = 5.0
    longest_seconds: float = 60.0


class Breaker:
    """Pure: times are passed in, in seconds of any one clock. After its pause one failure more opens it again."""

    def __init__(self, options: BreakerOptions) -> None:
        self._options = options
        self._failures = 0
        self._opened = 0
        self.open_until = 0.0

    def allows(self, now: float) -> bool:
        """Whether jobs may go there."""
        return now >= self.open_until

    def succeeded(self) -> None:
        """A job came to its end."""
        self._failures = self._opened = 0

    def failed(self, now: float) -> None:
        """A job failed, and it was not the job's fault. Those that were under way when it opened count for nothing."""
        if not self.allows(now):
            return
        self._failures += 1
        if self._failures >= self._options.failures or self._opened:
            pause = min(self._options.seconds * 2**self._opened, self._options.longest_seconds)
            self.open_until = now + pause
            self._opened += 1
            self._failures = 0
