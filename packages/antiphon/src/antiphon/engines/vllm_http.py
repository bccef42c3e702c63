"""vLLM's two ways of tokens in and tokens out, without I/O: `/inference/v1/generate`, and `/v1/completions` with ids for servers that do
not open the first. Source: measured on vLLM 0.32.

Its priorities are lower first. How much of the prompt was cached is told behind the last token, so that one is held back for it: the
two come together.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon.engines.http_stream import ErrorObject, ServerSentEvents
from antiphon.engines.vllm_wire import (
    GenerateReply,
    GenerateRequest,
    Logprob,
    Logprobs,
    SamplingParams,
    StreamOptions,
    StructuredOutputs,
    Usage,
)
from antiphon_turns import SampledLogprob, Sampling, TokenLogprob
from antiphon_turns.errors import StreamInterrupted, WorkerProtocolError

COMPLETIONS = "/v1/completions"
RANK_HEADER = "X-data-parallel-rank"
# A prefill-only job gives way to any other.
LAST_PRIORITY = 1 << 30

SpellToken = Callable[[int], tuple[str, bytes]]
"""Text and bytes of a token id."""


class CompletionLogprobs(msgspec.Struct):
    """In the old form of Completions: one entry a token, text in place of ids."""

    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class CompletionChoice(msgspec.Struct):
    """`token_ids` are the new ones."""

    token_ids: list[int] | None = None
    finish_reason: str | None = None
    logprobs: CompletionLogprobs | None = None


class CompletionEvent(msgspec.Struct):
    """One event of `/v1/completions`."""

    choices: list[CompletionChoice] = []
    usage: Usage | None = None


class Failure(msgspec.Struct):
    """An error within a stream."""

    error: ErrorObject


_read_generate = msgspec.json.Decoder(GenerateReply).decode
_read_completion = msgspec.json.Decoder(CompletionEvent).decode
_read_failure = msgspec.json.Decoder(Failure).decode


def generate_body(job: Job, request_id: str, *, priorities: bool) -> bytes:
    """The body for `/inference/v1/generate`. Without `priorities` the server takes none."""
    request = GenerateRequest(
        token_ids=list(job.prompt_ids),
        request_id=request_id,
        sampling_params=_sampling_params(job),
        stream=True,
        stream_options=StreamOptions(include_usage=True),
        cache_salt=job.cache_salt or None,
        priority=wire_priority(job) if priorities else 0,
    )
    return msgspec.json.encode(request)


def completions_body(job: Job, request_id: str, *, model: str, priorities: bool) -> bytes:
    """The body for `/v1/completions`."""
    params: dict[str, Any] = msgspec.to_builtins(_sampling_params(job))
    params.pop("detokenize", None)
    more: dict[str, Any] = {
        "model": model,
        "prompt": list(job.prompt_ids),
        "request_id": request_id,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
    if job.cache_salt:
        more["cache_salt"] = job.cache_salt
    if priorities and wire_priority(job):
        more["priority"] = wire_priority(job)
    return msgspec.json.encode(params | more)


def wire_priority(job: Job) -> int:
    """A job's priority as vLLM has it: lower first."""
    return LAST_PRIORITY if job.prefill_only else -job.priority


def rank_header(job: Job) -> dict[str, str]:
    """Which data-parallel rank is meant."""
    rank = job.placement.wish.rank
    return {} if rank is None else {RANK_HEADER: str(rank)}


def _sampling_params(job: Job) -> SamplingParams:
    sampling: Sampling = job.sampling
    return SamplingParams(
        max_tokens=1 if job.prefill_only else job.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        seed=sampling.seed,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        stop_token_ids=sorted(job.stop_ids),
        logprobs=sampling.top_logprobs,
        detokenize=False,
        structured_outputs=None if job.grammar is None else StructuredOutputs(grammar=job.grammar),
    )


class GenerateReader:
    """Reads the events of `/inference/v1/generate` or `/v1/completions` (`read`). `spell` is asked in jobs that want probabilities."""

    def __init__(self, job: Job, spell: SpellToken | None, *, completions: bool = False) -> None:
        self._job = job
        self._spell = spell
        self._read = _read_completion if completions else _read_generate
        self._events = ServerSentEvents()
        self._last: Chunk | None = None

    def feed(self, data: bytes) -> Chunk | None:
        """See `ChunkReader`."""
        ids: list[int] = []
        logprobs: list[SampledLogprob | None] = []
        for line in self._events.feed(data):
            if line == b"[DONE]":
                return self.end() or self._chunk(ids, logprobs)
            event = self._event(line)
            for choice in event.choices:
                new = choice.token_ids or []
                if self._spell is not None and choice.logprobs is not None:
                    logprobs += self._logprobs(choice.logprobs, new)
                ids += new
                if choice.finish_reason is not None:
                    self._last = self._finished(choice.finish_reason, ids, logprobs)
                    ids, logprobs = [], []
            if event.usage is not None and self._last is not None:
                return self._told(event.usage, self._last)
        return self._chunk(ids, logprobs)

    def end(self) -> Chunk | None:
        """See `ChunkReader`."""
        return self._last

    def _event(self, line: bytes) -> GenerateReply | CompletionEvent:
        if line.startswith(b'{"error"'):
            try:
                raise StreamInterrupted(f"the engine failed: {_read_failure(line).error.message}")
            except msgspec.MsgspecError:
                raise StreamInterrupted(f"the engine failed: {line[:200]!r}") from None
        try:
            return self._read(line)
        except msgspec.MsgspecError as error:
            raise WorkerProtocolError(f"the engine sent an event that cannot be read: {error}") from None

    def _finished(self, reason: str, ids: list[int], logprobs: list[SampledLogprob | None]) -> Chunk:
        if reason not in ("stop", "length"):
            raise StreamInterrupted(f"the engine ended the request by itself ({reason})")
        if self._job.prefill_only:
            return Chunk([], "length")
        return Chunk(ids, "stop" if reason == "stop" else "length", None, logprobs if self._spell is not None else None)

    def _told(self, usage: Usage, last: Chunk) -> Chunk:
        details = usage.prompt_tokens_details
        return msgspec.structs.replace(last, cached_tokens=details.cached_tokens if details is not None else None)

    def _chunk(self, ids: list[int], logprobs: list[SampledLogprob | None]) -> Chunk | None:
        if not ids or self._job.prefill_only:
            return None
        return Chunk(ids, None, None, logprobs if self._spell is not None else None)

    def _logprobs(self, found: Logprobs | CompletionLogprobs, ids: list[int]) -> list[SampledLogprob | None]:
        top = self._job.sampling.top_logprobs or 0
        known: list[SampledLogprob | None]
        if isinstance(found, Logprobs):
            known = [self._of_ids(one, top) for one in found.content or []]
        else:
            known = [self._of_text(found, place, top) for place in range(len(found.tokens))]
        return (known + [None] * len(ids))[: len(ids)]

    def _of_ids(self, found: Logprob, top: int) -> SampledLogprob | None:
        if found.logprob is None:
            return None
        return SampledLogprob(self._one(found), tuple(self._one(other) for other in found.top_logprobs[:top]))

    def _one(self, found: Logprob) -> TokenLogprob:
        assert self._spell is not None
        text, spelled = self._spell(found.token_id)
        return TokenLogprob(text, float("-inf") if found.logprob is None else found.logprob, spelled)

    def _of_text(self, found: CompletionLogprobs, place: int, top: int) -> SampledLogprob | None:
        logprob = found.token_logprobs[place]
        if logprob is None:
            return None
        others = (found.top_logprobs[place] if found.top_logprobs is not None else None) or {}
        likely = tuple(TokenLogprob(text, value, text.encode()) for text, value in list(others.items())[:top])
        return SampledLogprob(TokenLogprob(found.tokens[place], logprob, found.tokens[place].encode()), likely)
