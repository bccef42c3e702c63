"""How many turns are taken at once: one more is told to come back, before it costs anything."""

import contextlib
from collections.abc import Iterator

from antiphon.access.account import current
from antiphon_turns.errors import Overloaded

# Turns take seconds; a client that comes back sooner finds the same crowd.
RETRY_AFTER_SECONDS = 2.0


class Admission:
    """Counts requests from body to answer, waiting ones included. `limit` 0 = no limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0

    @contextlib.contextmanager
    def turns(self, count: int = 1) -> Iterator[None]:
        """Room for `count` turns of one request while the context is open. Raises Overloaded when there is none, and what the account
        of the request's key raises."""
        if self._limit and self.taken + count > self._limit:
            message = f"this server is busy with {self.taken} turns and takes {self._limit} at once; try again in a moment"
            raise Overloaded(message, retry_after=RETRY_AFTER_SECONDS)
        account = current.get()
        with account.turns(count) if account is not None else contextlib.nullcontext():
            self.taken += count
            try:
                yield
            finally:
                self.taken -= count
