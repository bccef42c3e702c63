"""The `/completion` protocol of a llama.cpp server with token ids both ways: request bodies and event parsing, no I/O.

Observed on xllamacpp 2026.10 (llama.cpp build 11549). Events are separated by an empty line; lines that do not start with
`data: ` are comments (pings). Progress events carry a dummy token and must not be read as output. The server sends nothing for a
token that leaves a character incomplete, and with the one that completes it sends the whole text but only that last id: `Gaps`
notices by the running count.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.engines.base import Job
from antiphon_turns import SampledLogprob, Sampling, TokenLogprob
from antiphon_turns.errors import WorkerProtocolError

_SEED_RANGE = 0xFFFFFFFF  # this very value means "random" to the server


class Progress(msgspec.Struct):
    """State of the prefill; `cache` prompt tokens were reused."""

    cache: int = 0
    processed: int = 0


class Probability(msgspec.Struct):
    """A token, the natural logarithm of its probability, and (for a sampled one) the most likely tokens at its place."""

    token: str = ""
    logprob: float | None = None
    bytes: list[int] = []
    top_logprobs: list["Probability"] = []


class ServerError(msgspec.Struct):
    """The error object of the server, as HTTP body or inside the stream."""

    message: str = "no reason given"
    type: str = ""


class Event(msgspec.Struct):
    """One server event; `stop_type` ("eos", "limit", "word") counts in the last one, which has `stop`. `tokens_predicted`
    counts the ids sampled so far, this event's included."""

    tokens: list[int] = []
    content: str = ""
    tokens_predicted: int = 0
    stop: bool = False
    stop_type: str = ""
    prompt_progress: Progress | None = None
    error: ServerError | None = None
    completion_probabilities: list[Probability] = []


class _ErrorBody(msgspec.Struct):
    error: ServerError = msgspec.field(default_factory=ServerError)


_decode_event = msgspec.json.Decoder(Event).decode
_decode_error = msgspec.json.Decoder(_ErrorBody).decode


def sampling_fields(sampling: Sampling) -> dict[str, Any]:
    """Our sampling wishes under the server's names; what is None is left to the server's defaults.

    Temperature 0 is greedy: the most probable token, whatever the other fields say.
    """
    if sampling.temperature is not None and sampling.temperature <= 0:
        return {"temperature": 0, "top_k": 1} | _penalties(sampling)
    wishes = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": None if sampling.seed is None else sampling.seed % _SEED_RANGE,
    }
    return {name: value for name, value in wishes.items() if value is not None} | _penalties(sampling)


def _penalties(sampling: Sampling) -> dict[str, float]:
    wishes = {"presence_penalty": sampling.presence_penalty, "frequency_penalty": sampling.frequency_penalty}
    return {name: value for name, value in wishes.items() if value is not None}


def logprobs_of(event: Event, top: int) -> list[SampledLogprob | None]:
    """One entry for each of the event's tokens. The server tells probabilities for the tokens that end a piece of text; of those before
    it in the event, which only begin a character, nothing is known."""
    known = [_sampled(found, top) for found in event.completion_probabilities[-len(event.tokens) :]] if event.tokens else []
    return [None] * (len(event.tokens) - len(known)) + known


def _sampled(found: Probability, top: int) -> SampledLogprob:
    return SampledLogprob(_logprob(found), tuple(map(_logprob, found.top_logprobs[:top])))


def _logprob(found: Probability) -> TokenLogprob:
    least = float("-inf")
    return TokenLogprob(found.token, least if found.logprob is None else found.logprob, bytes(found.bytes))


class Seat(msgspec.Struct, frozen=True):
    """Where a request runs. With `reuse` it goes on from the beginning that slot and prompt share; without, the slot starts empty."""

    slot: int
    reuse: bool


def completion_body(job: Job, seat: Seat) -> bytes:
    """The body of the streamed request for one job."""
    body = _streamed(job.prompt_ids, seat, job.max_tokens)
    if job.grammar is not None:
        body["grammar"] = job.grammar
    if job.sampling.top_logprobs is not None:
        body["n_probs"] = max(1, job.sampling.top_logprobs)  # with 0 the server tells nothing
    return msgspec.json.encode(body | sampling_fields(job.sampling))


def slice_body(prompt_ids: Sequence[int], seat: Seat) -> bytes:
    """A request that puts these tokens into the slot. The server samples one token all the same, which stays out of the slot."""
    return msgspec.json.encode(_streamed(prompt_ids, seat, 0))


def probe_body(job: Job, eos_id: int, seat: Seat) -> bytes:
    """A one-token request that shows whether the server obeys the job's grammar.

    The server answers a grammar it cannot compile by generating without one and says so in its log only. Here the end
    token is made all but certain; a grammar in force forbids it as the first token.
    """
    body = _streamed(job.prompt_ids, seat, 1)
    return msgspec.json.encode(body | {"temperature": 0, "grammar": job.grammar, "logit_bias": [[eos_id, 10_000.0]]})


def _streamed(prompt_ids: Sequence[int], seat: Seat, max_tokens: int) -> dict[str, Any]:
    return {
        "prompt": list(prompt_ids),
        "n_predict": max_tokens,
        "id_slot": seat.slot,
        "cache_prompt": seat.reuse,
        "stream": True,
        "return_tokens": True,
        "return_progress": True,
    }


def read_error(event: Event) -> None:
    """Raises WorkerProtocolError if the event is one."""
    if event.error is not None:
        raise WorkerProtocolError(f"The embedded engine failed: {event.error.message}")


def error_message(body: bytes) -> str:
    """The reason in an error body of the server; the start of the body when it is not one."""
    try:
        return _decode_error(body).error.message
    except msgspec.MsgspecError:
        return body[:200].decode("utf-8", "replace")


class Gaps:
    """Counts ids to find those the server kept to itself."""

    def __init__(self) -> None:
        self._seen = 0

    def before(self, event: Event) -> int:
        """How many ids are missing in front of this event's. To be asked once for every event."""
        if event.prompt_progress is not None:
            return 0
        missing = event.tokens_predicted - self._seen - len(event.tokens)
        self._seen = event.tokens_predicted
        return missing if event.content else 0


class EventReader:
    """Cuts a response body, as it arrives, into events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Event]:
        """The events completed by `data`. Raises WorkerProtocolError on what is not the protocol."""
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        try:
            return [_decode_event(block[6:]) for block in blocks if block.startswith(b"data: ")]
        except msgspec.MsgspecError as error:
            raise WorkerProtocolError(f"The embedded engine sent an event that cannot be read: {error}") from error
