"""A llama.cpp server, somewhere else than in this process, as an `Engine`."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon.engines.http_stream import HttpEngine
from antiphon.engines.llama_http import Event, EventReader, Gaps, logprobs_of, sampling_fields
from antiphon_turns import SampledLogprob
from antiphon_turns.errors import StreamInterrupted, WorkerProtocolError

COMPLETION = "/completion"

Encode = Callable[[str], list[int]]
"""The ids of a text, control tokens in it read as text."""


def body_of(job: Job) -> bytes:
    """The body for one job; the server chooses the slot."""
    body = {
        "prompt": list(job.prompt_ids),
        "n_predict": 0 if job.prefill_only else job.max_tokens,
        "cache_prompt": True,
        "stream": True,
        "return_tokens": True,
        "return_progress": True,
    }
    if job.grammar is not None:
        body["grammar"] = job.grammar
    if job.sampling.top_logprobs is not None:
        body["n_probs"] = max(1, job.sampling.top_logprobs)  # with 0 the server tells nothing
    return msgspec.json.encode(body | sampling_fields(job.sampling))


class CompletionReader:
    """Reads the events of one job. The server knows no list of stop ids, so the answer is cut here behind the first of them. `encode`
    is asked for the ids that the server keeps to itself inside a character; without it such an answer is an error."""

    def __init__(self, job: Job, encode: Encode | None = None) -> None:
        self._job = job
        self._encode = encode
        self._events = EventReader()
        self._gaps = Gaps()
        self._told_cache = False

    def feed(self, data: bytes) -> Chunk | None:
        """See `ChunkReader`."""
        top = self._job.sampling.top_logprobs
        ids: list[int] = []
        logprobs: list[SampledLogprob | None] | None = None if top is None else []
        cached: int | None = None
        for event in self._events.feed(data):
            if event.prompt_progress is not None:
                cached = self._cached(event, cached)
                continue
            self._check(event)
            if self._job.prefill_only:
                if event.stop:
                    return Chunk([], "length", cached)
                continue
            if logprobs is not None and top is not None:
                logprobs += logprobs_of(event, top)
            for token_id in event.tokens:
                ids.append(token_id)
                if token_id in self._job.stop_ids:
                    return Chunk(ids, "stop", cached, logprobs and logprobs[: len(ids)])
            if event.stop:
                return Chunk(ids, "length" if event.stop_type == "limit" else "stop", cached, logprobs)
        return Chunk(ids, None, cached, logprobs) if ids or cached is not None else None

    def end(self) -> Chunk | None:
        """See `ChunkReader`."""
        return None

    def _cached(self, event: Event, known: int | None) -> int | None:
        if self._told_cache or event.prompt_progress is None:
            return known
        self._told_cache = True
        return event.prompt_progress.cache

    def _check(self, event: Event) -> None:
        if event.error is not None:
            raise StreamInterrupted(f"the engine failed: {event.error.message}")
        if missing := self._gaps.before(event):
            if self._encode is None:
                raise WorkerProtocolError(f"the engine kept {missing} sampled ids to itself, and there is no tokenizer to ask for them")
            # With the token that completes a character comes the text of all that began it, and of those ids only the last. The model
            # nearly always samples the ones that the tokenizer writes.
            event.tokens = self._encode(event.content)


class LlamaCppEngine:
    """`constrains`: whether the server was built with llguidance, which reads our grammars. `encode`: see `CompletionReader`."""

    reports_logprobs = True

    def __init__(self, http: HttpEngine, *, constrains: bool = False, encode: Encode | None = None) -> None:
        self.constrains = constrains
        self._http = http
        self._encode = encode

    async def start(self) -> None:
        """Gets ready; the engine is not asked anything."""
        await self._http.start()

    async def close(self) -> None:
        """Ends running jobs (they raise WorkerUnavailable). May be called twice."""
        await self._http.close()

    def ready(self) -> bool:
        """Whether the client is open."""
        return self._http.ready()

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Streams the job's chunks; see `antiphon.engines.base.Engine`. The server ends a job whose connection closes."""
        async with aclosing(self._http.chunks(COMPLETION, body_of(job), CompletionReader(job, self._encode))) as chunks:
            async for chunk in chunks:
                yield chunk
