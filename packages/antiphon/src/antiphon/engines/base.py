"""What an engine is: token ids in, token ids out, streamed, cancellable."""

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

import msgspec

from antiphon_turns import RoutingWish, SampledLogprob, Sampling


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """What a router reads of a job; of an engine's concern is only which session it belongs to. `head_start` in seconds; `osl` is the
    expected output length in tokens. `session_ends`: nothing of the session need be kept after this job."""

    session: str | None = None
    parent: str | None = None
    session_ends: bool = False
    strict_priority: int = 0
    head_start: float = 0.0
    osl: int | None = None
    wish: RoutingWish = RoutingWish()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One generation. `max_tokens` > 0 and prompt + max_tokens fits the context. `stop_ids` end the turn when
    sampled. `grammar` is an llguidance Lark text whose root the whole output must match (a scripted engine ignores it). A higher
    `priority` is more urgent, whatever sign an engine's own protocol has. Jobs share cached prefixes with those of the same
    `cache_salt` only. `retain_seconds`: how long the prompt should stay cached after the job. A `prefill_only` job fills the cache with
    its prompt and ends with a chunk without ids and finish "length"; it gives way to any other."""

    request_id: str
    prompt_ids: Sequence[int]
    max_tokens: int
    sampling: Sampling
    stop_ids: frozenset[int]
    grammar: str | None = None
    priority: int = 0
    cache_salt: str = ""
    retain_seconds: float = 0.0
    prefill_only: bool = False
    placement: Placement = Placement()


class Chunk(msgspec.Struct, frozen=True):
    """Newly sampled ids, in order. With finish "stop" the last id is the stop id (when the model sampled one).
    `cached_tokens` appears once, in the first chunk that knows it. `logprobs` has one entry an id, None where the engine could not say,
    in jobs that ask for them. `queue_seconds`, in the first chunk: how long the job waited for the engine. `worker`: who samples from here
    on, in the first chunk of each worker; None from an engine that is only itself."""

    ids: list[int]
    finish: Literal["stop", "length"] | None = None
    cached_tokens: int | None = None
    logprobs: Sequence[SampledLogprob | None] | None = None
    queue_seconds: float | None = None
    worker: str | None = None


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
