"""What one API key may do and what it has spent of it."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from fnmatch import fnmatchcase

from antiphon.access.bucket import Bucket
from antiphon.access.key import KeyEntry
from antiphon_turns.errors import AuthError, InvalidRequest, RateLimited, UnknownModel

# Turns take seconds; a client that comes back sooner finds its own turns still running.
RETRY_AFTER_SECONDS = 2.0

Clock = Callable[[], float]


class Account:
    """A key's running account, shared by all its requests. What leaves the configuration is revoked: what runs then ends as usual,
    and nothing new begins, also on a connection that is open."""

    def __init__(self, name: str, entry: KeyEntry, *, clock: Clock) -> None:
        self.name = name
        self.entry = entry
        self.revoked = False
        self.taken = 0
        self._clock = clock
        self._requests = _bucket(entry.requests_per_minute, clock())
        self._tokens = _bucket(entry.prompt_tokens_per_minute, clock())

    def change(self, entry: KeyEntry) -> None:
        """Other rules from now on; what was spent stays spent."""
        self.entry = entry
        now = self._clock()
        self._requests = _resized(self._requests, entry.requests_per_minute, now)
        self._tokens = _resized(self._tokens, entry.prompt_tokens_per_minute, now)

    @contextlib.contextmanager
    def turns(self, count: int) -> Iterator[None]:
        """Room for one request of so many turns. Raises AuthError, InvalidRequest and RateLimited; a refused request costs nothing."""
        most = self.entry.max_turns
        if most is not None and count > most:
            raise InvalidRequest(f"n: the API key {self.name} may run {most} turns at once, and the request asks for {count}", param="n")
        if most is not None and self.taken + count > most:
            message = f"the API key {self.name} has {self.taken} turns running and may have {most} at once; wait until one has ended"
            raise RateLimited(message, retry_after=RETRY_AFTER_SECONDS)
        self.request()
        self.taken += count
        try:
            yield
        finally:
            self.taken -= count

    def request(self) -> None:
        """Counts one request. Raises AuthError, and RateLimited with the seconds to wait."""
        if self.revoked:
            raise AuthError(f"the API key {self.name} has been revoked")
        now = self._clock()
        if self._tokens is not None and (wait := self._tokens.wait(1.0, now=now)):
            most = self.entry.prompt_tokens_per_minute
            raise RateLimited(f"the API key {self.name} may send {most} prompt tokens a minute and has sent more", retry_after=wait)
        if self._requests is not None:
            if wait := self._requests.wait(1.0, now=now):
                most = self.entry.requests_per_minute
                raise RateLimited(f"the API key {self.name} may make {most} requests a minute and has made more", retry_after=wait)
            self._requests.spend(1.0, now=now)

    def charge(self, prompt_tokens: int) -> None:
        """Counts the tokens of a prompt, which are known only when the request has been let in."""
        if self._tokens is not None:
            self._tokens.spend(prompt_tokens, now=self._clock())

    def may_use(self, model: str) -> bool:
        """Whether this key may ask for a name."""
        name = model.lower()
        return not self.entry.models or any(fnmatchcase(name, pattern.lower()) for pattern in self.entry.models)

    def check_model(self, model: str) -> None:
        """Raises UnknownModel, as for a name that nobody has."""
        if not self.may_use(model):
            raise UnknownModel(
                f"the API key {self.name} may not use the model {model[:200]!r}; GET /v1/models lists what it may", param="model"
            )


current: ContextVar[Account | None] = ContextVar("account", default=None)
"""The account of the request that the running task serves; None on a server without keys."""


def _bucket(per_minute: int | None, now: float) -> Bucket | None:
    return Bucket(per_minute, now=now) if per_minute is not None else None


def _resized(bucket: Bucket | None, per_minute: int | None, now: float) -> Bucket | None:
    if bucket is None or per_minute is None:
        return _bucket(per_minute, now)
    bucket.resize(per_minute, now=now)
    return bucket
