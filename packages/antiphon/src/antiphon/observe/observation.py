"""What is noted of one request while it is served, and told once it is over. Nothing here is touched for a token."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar

import msgspec

from antiphon.access.account import current as current_account
from antiphon_turns import StopReason, TurnRequest, Usage

CLIENT_GONE = 499
"""The status of a request whose client went away before it had an answer."""
SURFACES: dict[tuple[str, str], str] = {
    ("POST", "/v1/messages"): "messages",
    ("POST", "/v1/chat/completions"): "chat",
    ("POST", "/v1/responses"): "responses",
    ("POST", "/v1/responses/compact"): "responses",
    ("POST", "/v1/completions"): "completions",
}
"""Requests for a turn, by method and path."""
_EMPTY_BYTES, _ID_BYTES = 2048, 8
_ID_HEADERS = ("request-id", "x-request-id")


class TurnFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One ended turn. Times in seconds of the monotonic clock: `since` its preparation began, `begun` it was handed on to be generated,
    `ended`, and one of `calls` each call was handed out. `ttft` counts from `since`, `queue_seconds` is a length of time; both are None
    where no token came, or nobody said. `worker`: who served it last."""

    request_id: str
    model: str
    request: TurnRequest
    stop_reason: StopReason
    usage: Usage
    since: float
    begun: float
    ended: float
    ttft: float | None
    queue_seconds: float | None
    calls: tuple[float, ...]
    worker: str | None
    migrations: int
    prompt_ids: Sequence[int]
    output_ids: Sequence[int]


class Observation:
    """Mutable. Open while somebody holds it; whoever releases it last makes it known. `at` is Unix time, `since` and `ended` monotonic, in
    seconds. `pieces` of the body stay empty unless bodies are wanted. `surface` is None where no turn is asked for; `key` is the
    name of the API key, None where none was needed or it was wrong."""

    def __init__(
        self, method: str, path: str, headers: Mapping[str, str], *, client: str, done: Callable[["Observation"], None], body: bytes = b""
    ) -> None:
        self.at = time.time()
        self.since = time.monotonic()
        self.ended = self.since
        self.method = method
        self.path = path
        self.surface = SURFACES.get((method, path))
        self.client = client
        self.traceparent = headers.get("traceparent", "")
        self.tracestate = headers.get("tracestate", "")
        self.pieces = [body] if body else []
        self.request_id: str | None = None
        self.key: str | None = None
        self.status: int = CLIENT_GONE
        self.turns: list[TurnFacts] = []
        self._done = done
        self._holders = 1

    @property
    def body(self) -> bytes:
        """The request's body, as far as it was read."""
        return b"".join(self.pieces)

    @property
    def size(self) -> int:
        """About how many bytes are held here."""
        ids = sum(len(turn.prompt_ids) + len(turn.output_ids) for turn in self.turns)
        return _EMPTY_BYTES + sum(map(len, self.pieces)) + _ID_BYTES * ids

    def hold(self) -> None:
        """Keeps it open until `release`, also behind the end of its request: for what goes on in the background."""
        self._holders += 1

    def release(self) -> None:
        """The other end of `hold`, and of the request itself."""
        self._holders -= 1
        if not self._holders:
            self.ended = time.monotonic()
            self._done(self)

    def answered(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """An answer begins to leave."""
        self.status = status
        account = current_account.get()
        self.key = account.name if account is not None else None
        for name, value in headers:
            if name in _ID_HEADERS:
                self.request_id = value

    def time_of(self, moment: float) -> float:
        """A moment of the monotonic clock as Unix time."""
        return self.at + moment - self.since


Opener = Callable[[bytes], Observation]

current: ContextVar[Observation | None] = ContextVar("observation", default=None)
"""The observation of the request that the running task serves."""

opener: ContextVar[Opener | None] = ContextVar("opener", default=None)
"""On a WebSocket: opens the observation of one frame."""


def note_answer(status: int, headers: Iterable[tuple[str, str]]) -> None:
    """Notes the status and the request id of an answer whose first bytes leave now."""
    observation = current.get()
    if observation is not None:
        observation.answered(status, headers)


def note_turn(facts: TurnFacts) -> None:
    """Notes a turn that has ended."""
    observation = current.get()
    if observation is not None:
        observation.turns.append(facts)


def hold_observation() -> Callable[[], None]:
    """Keeps the running request's observation open; what is returned lets it go."""
    observation = current.get()
    if observation is None:
        return lambda: None
    observation.hold()
    return observation.release


@contextlib.contextmanager
def observed_frame(frame: bytes, request_id: str) -> Iterator[None]:
    """Around the work for one frame of a WebSocket, which is a request of its own."""
    opens = opener.get()
    if opens is None:
        yield
        return
    observation = opens(frame)
    observation.answered(200, [("x-request-id", request_id)])
    token = current.set(observation)
    try:
        yield
    finally:
        current.reset(token)
        observation.release()
