"""What an engine is: token ids in, token ids out, streamed, cancellable."""

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

import msgspec

from antiphon_turns import SampledLogprob, Sampling


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One generation. `max_tokens` > 0 and prompt + max_tokens fits the context. `stop_ids` end the turn when
    sampled. `grammar` is an llguidance Lark text whose root the whole output must match (a scripted engine ignores it). A higher
    `priority` is more urgent. Jobs share cached prefixes with those of the same `cache_salt` only."""

    request_id: str
    prompt_ids: Sequence[int]
    max_tokens: int
    sampling: Sampling
    stop_ids: frozenset[int]
    grammar: str | None = None
    priority: int = 0
    cache_salt: str = ""


class Chunk(msgspec.Struct, frozen=True):
    """Newly sampled ids, in order. With finish "stop" the last id is the stop id (when the model sampled one).
    `cached_tokens` appears once, in the first chunk that knows it. `logprobs` has one entry an id, None where the engine could not say,
    in jobs that ask for them. `queue_seconds`, in the first chunk: how long the job waited for the engine."""

    ids: list[int]
    finish: Literal["stop", "length"] | None = None
    cached_tokens: int | None = None
    logprobs: Sequence[SampledLogprob | None] | None = None
    queue_seconds: float | None = None


class Engine(Protocol):
    """An engine behind the seam: whatever library it uses, only `WorkerError`s come out of it."""

    @property
    def constrains(self) -> bool:
        """Whether `Job.grammar` is obeyed. Forced calls need it."""
        ...

    @property
    def reports_logprobs(self) -> bool:
        """Whether `Sampling.top_logprobs` is obeyed."""
        ...

    async def start(self) -> None:
        """Loads the model. Raises ConfigError when it cannot be served at all."""
        ...

    async def close(self) -> None:
        """Ends running jobs and frees everything."""
        ...

    def ready(self) -> bool:
        """Whether a job would be taken now."""
        ...

    def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Streams chunks; the last one has `finish`. Closing the generator frees the engine at once, also in prefill.
        Raises WorkerError."""
        ...
