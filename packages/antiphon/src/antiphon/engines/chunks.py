"""Chunks put together."""

from collections.abc import Sequence

from antiphon.engines.base import Chunk
from antiphon_turns import SampledLogprob


def joined(first: Chunk, then: Chunk) -> Chunk:
    """Two chunks of a job as one."""
    return Chunk(
        first.ids + then.ids,
        then.finish,
        then.cached_tokens if first.cached_tokens is None else first.cached_tokens,
        _joined_logprobs(first, then),
        then.queue_seconds if first.queue_seconds is None else first.queue_seconds,
    )


def _joined_logprobs(first: Chunk, then: Chunk) -> Sequence[SampledLogprob | None] | None:
    if first.logprobs is None and then.logprobs is None:
        return None
    return [*_padded(first), *_padded(then)]


def _padded(chunk: Chunk) -> Sequence[SampledLogprob | None]:
    return [None] * len(chunk.ids) if chunk.logprobs is None else chunk.logprobs
