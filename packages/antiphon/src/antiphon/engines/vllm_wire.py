"""The tokens-in, tokens-out interface of vLLM as plain data: `POST /inference/v1/generate`. Source: measured on vLLM 0.32; priorities
there are lower first. Our own workers answer it too, so both ends read these records."""

from typing import Any

import msgspec

GENERATE = "/inference/v1/generate"
ABORT = "/inference/v1/abort_requests"
DONE = b"data: [DONE]\n\n"


class StructuredOutputs(msgspec.Struct, omit_defaults=True):
    """At most one of them. `grammar` is in whatever dialect the engine's backend reads; for llguidance that is Lark."""

    grammar: str | None = None
    json: Any = None
    regex: str | None = None
    choice: list[str] | None = None
    structural_tag: str | None = None


class SamplingParams(msgspec.Struct, omit_defaults=True):
    """What is None is left to the engine."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    logprobs: int | None = None
    n: int = 1
    detokenize: bool = True
    structured_outputs: StructuredOutputs | None = None


class StreamOptions(msgspec.Struct, omit_defaults=True):
    """`include_usage`: an event of its own, at the end. `continuous_usage_stats`: in every event."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class GenerateRequest(msgspec.Struct, omit_defaults=True):
    """One job."""

    token_ids: list[int]
    request_id: str | None = None
    model: str | None = None
    sampling_params: SamplingParams = msgspec.field(default_factory=SamplingParams)
    stream: bool = False
    stream_options: StreamOptions | None = None
    cache_salt: str | None = None
    priority: int = 0


class PromptDetails(msgspec.Struct):
    """What of the prompt was not computed."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """Counts of tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: PromptDetails | None = None


class Logprob(msgspec.Struct, omit_defaults=True):
    """One sampled token with its probability's natural logarithm, and the likeliest ones at its place."""

    token_id: int
    logprob: float | None = None
    rank: int | None = None
    top_logprobs: "list[Logprob]" = []


class Logprobs(msgspec.Struct):
    """One entry a token."""

    content: list[Logprob] | None = None


class GenerateChoice(msgspec.Struct):
    """`token_ids` are the new ones in a stream, all of them in a body."""

    index: int = 0
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: Logprobs | None = None


class GenerateReply(msgspec.Struct):
    """A body, or one event of a stream."""

    request_id: str = ""
    model: str | None = None
    created: int | None = None
    usage: Usage | None = None
    output_mode: str = "tokens"
    choices: list[GenerateChoice] = []


class AbortRequest(msgspec.Struct):
    """Ids as they were given, whole."""

    request_ids: list[str]
