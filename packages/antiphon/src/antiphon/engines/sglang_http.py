"""SGLang's `POST /generate` with ids both ways, without I/O. Source: SGLang 0.5.23.

Each event tells `completion_tokens`, how many were sampled so far; its `output_ids` are either all of them or, with
`--incremental-streaming-output`, the new ones. The new ones end the list in both cases.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon.engines.http_stream import ErrorObject, ServerSentEvents
from antiphon_turns import SampledLogprob, TokenLogprob
from antiphon_turns.errors import StreamInterrupted, WorkerProtocolError, WorkerRefusal

GENERATE = "/generate"
ABORT = "/abort_request"
# A prefill-only job gives way to any other.
LAST_PRIORITY = -(1 << 30)

LogprobEntry = tuple[float | None, int, str | None]
"""Logarithm, id, and text where the server was asked for it."""


class FinishReason(msgspec.Struct):
    """`type` is stop, length or abort."""

    type: str
    message: str | None = None
    status_code: int | None = None


class MetaInfo(msgspec.Struct):
    """Counts are of tokens, for the whole answer so far."""

    completion_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: FinishReason | None = None
    output_token_logprobs: list[LogprobEntry] | None = None
    output_top_logprobs: list[list[LogprobEntry] | None] | None = None


class GenerateEvent(msgspec.Struct):
    """One event of a stream."""

    output_ids: list[int] = []
    meta_info: MetaInfo = msgspec.field(default_factory=MetaInfo)
    error: ErrorObject | None = None


class Manners(msgspec.Struct, frozen=True):
    """What a server told of itself: whether it schedules by priority, and whether lower ones go first there."""

    priorities: bool = False
    lower_first: bool = False


_read_event = msgspec.json.Decoder(GenerateEvent).decode


def generate_body(job: Job, rid: str, manners: Manners) -> bytes:
    """The body for one job."""
    sampling = job.sampling
    params: dict[str, Any] = {
        "max_new_tokens": 1 if job.prefill_only else job.max_tokens,
        "stop_token_ids": sorted(job.stop_ids),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "sampling_seed": sampling.seed,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "ebnf": job.grammar,
    }
    body: dict[str, Any] = {
        "input_ids": list(job.prompt_ids),
        "rid": rid,
        "sampling_params": {name: value for name, value in params.items() if value is not None},
        "stream": True,
    }
    if sampling.top_logprobs is not None:
        body |= {"return_logprob": True, "top_logprobs_num": sampling.top_logprobs, "return_text_in_logprobs": True}
    if job.cache_salt:
        body["cache_salt"] = job.cache_salt
    if job.placement.wish.rank is not None:
        body["routed_dp_rank"] = job.placement.wish.rank
    if manners.priorities:
        body["priority"] = wire_priority(job, manners)
    return msgspec.json.encode(body)


def wire_priority(job: Job, manners: Manners) -> int:
    """A job's priority with the sign that the server reads."""
    priority = LAST_PRIORITY if job.prefill_only else job.priority
    return -priority if manners.lower_first else priority


class GenerateReader:
    """Reads the events of one job, of both kinds of stream."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._events = ServerSentEvents()
        self._seen = 0
        self._told_cache = False

    def feed(self, data: bytes) -> Chunk | None:
        """See `ChunkReader`."""
        ids: list[int] = []
        logprobs: list[SampledLogprob | None] = []
        cached: int | None = None
        for line in self._events.feed(data):
            if line == b"[DONE]":
                break
            event = self._event(line)
            meta = event.meta_info
            new = self._new(event)
            ids += new
            logprobs += self._logprobs(meta, len(new))
            if meta.cached_tokens is not None and not self._told_cache:
                cached, self._told_cache = meta.cached_tokens, True
            if meta.finish_reason is not None:
                return self._finished(meta.finish_reason, ids, cached, logprobs)
        if self._job.prefill_only:
            ids = []
        return self._chunk(ids, None, cached, logprobs) if ids or cached is not None else None

    def end(self) -> Chunk | None:
        """See `ChunkReader`."""
        return None

    def _event(self, line: bytes) -> GenerateEvent:
        try:
            event = _read_event(line)
        except msgspec.MsgspecError as error:
            raise WorkerProtocolError(f"the engine sent an event that cannot be read: {error}") from None
        if event.error is not None:
            raise StreamInterrupted(f"the engine failed: {event.error.message}")
        return event

    def _new(self, event: GenerateEvent) -> list[int]:
        ids, total = event.output_ids, event.meta_info.completion_tokens
        new = len(ids) if total is None else total - self._seen
        if not 0 <= new <= len(ids):
            raise WorkerProtocolError(f"the engine says that it has sampled {total} tokens, and {self._seen} and {len(ids)} have come")
        self._seen += new
        return ids[len(ids) - new :]

    def _finished(self, reason: FinishReason, ids: list[int], cached: int | None, logprobs: list[SampledLogprob | None]) -> Chunk:
        if reason.type == "abort":
            why = f"the engine ended the request by itself: {reason.message or 'no reason given'}"
            raise WorkerRefusal(why) if reason.status_code is not None and 400 <= reason.status_code < 500 else StreamInterrupted(why)
        if self._job.prefill_only:
            return Chunk([], "length", cached)
        return self._chunk(ids, reason.type, cached, logprobs)

    def _chunk(self, ids: list[int], finish: str | None, cached: int | None, logprobs: list[SampledLogprob | None]) -> Chunk:
        wanted = self._job.sampling.top_logprobs is not None
        return Chunk(ids, None if finish is None else "length" if finish == "length" else "stop", cached, logprobs if wanted else None)

    def _logprobs(self, meta: MetaInfo, new: int) -> list[SampledLogprob | None]:
        """One entry a new token. Both lists grow with the answer in both kinds of stream, or hold the new ones only: their ends count."""
        top = self._job.sampling.top_logprobs
        if top is None or not new:
            return []
        sampled: Sequence[LogprobEntry] = (meta.output_token_logprobs or [])[-new:]
        likely: Sequence[list[LogprobEntry] | None] = (meta.output_top_logprobs or [])[-new:]
        found: list[SampledLogprob | None] = []
        for place, entry in enumerate(sampled):
            others = (likely[place] if place < len(likely) else None) or []
            found.append(SampledLogprob(_token(entry), tuple(map(_token, others[:top]))))
        return [None] * (new - len(found)) + found


def _token(entry: LogprobEntry) -> TokenLogprob:
    logprob, _, text = entry
    return TokenLogprob(text or "", float("-inf") if logprob is None else logprob, (text or "").encode())
