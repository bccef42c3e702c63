"""The legacy Completions request body as clients send it. Source: the OpenAI API reference. Fields that carry no meaning here are
not declared and so skipped."""

from typing import Any

import msgspec

from antiphon_protocols.chat.wire import StreamOptions
from antiphon_protocols.nvext import Nvext


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    prompt: str | list[str | int | list[int]]
    max_tokens: int | None = None
    n: int | None = None
    best_of: int | None = None
    echo: bool | None = None
    stop: str | list[str] | None = None
    logprobs: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    prompt_cache_key: str | None = None
    nvext: Nvext | None = None
    suffix: Any = None
    logit_bias: Any = None


ACCEPTED = frozenset({"user", "metadata", "store", "service_tier"})
"""Known fields that change nothing here."""

REFUSED: dict[str, str] = {
    "suffix": "text in front of a given ending cannot be generated here; leave the field out",
    "logit_bias": "not supported by this server; leave the field out",
}
"""Known fields that ask for something this server does not do, and what to do instead."""
