"""A worker's card: what a frontend must know before it sends the first job."""

from typing import Literal

import msgspec

WorkerKind = Literal["embedded", "mock", "vllm", "sglang", "llamacpp"]


class KvFeed(msgspec.Struct, frozen=True, kw_only=True):
    """Where one data-parallel rank publishes its KV events, as ZMQ addresses. With `bind` the subscriber binds `events` and the engine
    connects to it. `replay`: where missed messages can be asked for."""

    events: str
    replay: str | None = None
    topic: str = ""
    rank: int = 0
    bind: bool = False


class WorkerCard(msgspec.Struct, frozen=True, kw_only=True):
    """`model` is the name that the engine knows the model by; `family` the pair of parsers its output needs, where the worker knows it.
    `context_length` in tokens; `block_tokens` the block size of its prefix cache, None where that is not known. `ranks`: data-parallel
    ranks behind the one address. `stream`: `host:port` of the worker's own token stream, for workers of ours. `batch_tokens`: prompt
    tokens the engine computes in a step at most; `cache_blocks`: blocks of its cache. `vocabulary`: a fingerprint of the tokenizer,
    empty where the worker has none to show. `incarnation` changes with every start. `prioritizes`: prompts of a higher priority are
    computed first."""

    kind: WorkerKind
    model: str
    context_length: int
    family: str | None = None
    block_tokens: int | None = None
    ranks: int = 1
    feeds: tuple[KvFeed, ...] = ()
    stream: str | None = None
    constrains: bool = False
    reports_logprobs: bool = False
    batch_tokens: int | None = None
    cache_blocks: int | None = None
    vocabulary: str = ""
    incarnation: str = ""
    prioritizes: bool = False
