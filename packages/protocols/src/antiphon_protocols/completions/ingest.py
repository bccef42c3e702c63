"""Legacy Completions ingest: each prompt of a body becomes a TurnRequest that brings its whole prompt along."""

from collections.abc import Mapping

import msgspec

from antiphon_protocols import body as wire_body
from antiphon_protocols.advice import read_advice
from antiphon_protocols.body import invalid, refuse
from antiphon_protocols.completions import wire
from antiphon_protocols.nvext import ResponseFields, response_fields
from antiphon_protocols.sampling import MAX_TOP_LOGPROBS, openai_sampling
from antiphon_turns.request import TurnRequest, UserMessage

_DECODER = msgspec.json.Decoder(wire.WireRequest)
_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(wire.WireRequest)) | wire.ACCEPTED
DEFAULT_TOKENS = 16
"""The vendor's default of `max_tokens` on this surface; clients that leave the field out count on a short answer."""


class CompletionsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`turns` has one request a prompt; `n` turns are wanted over each. `echo`: each text begins with its prompt. `fields`: what the
    answer tells of how it was served."""

    turns: tuple[TurnRequest, ...]
    n: int = 1
    echo: bool = False
    include_usage: bool = False
    fields: ResponseFields = frozenset()


def ingest(body: bytes, headers: Mapping[str, str]) -> CompletionsRequest:
    """Reads `POST /v1/completions`. Header names are in lower case. Raises InvalidRequest or UnsupportedFeature."""
    request, names = wire_body.decode(_DECODER, body, headers)
    prompts = _prompts(request.prompt)
    _refuse_unsupported(request, prompts)
    sampling = openai_sampling(request, max_tokens=request.max_tokens or DEFAULT_TOKENS, top_logprobs=request.logprobs)
    turn = TurnRequest(
        surface="completions",
        model=request.model,
        messages=(),
        sampling=sampling,
        stream=bool(request.stream),
        ignored=wire_body.unknown_fields(names, _KNOWN),
        **read_advice(request.nvext, headers, prompt_cache_key=request.prompt_cache_key).fields(),
    )
    return CompletionsRequest(
        turns=tuple(_with_prompt(turn, prompt) for prompt in prompts),
        n=1 if request.n is None else request.n,
        echo=bool(request.echo),
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        fields=response_fields(request.nvext, headers),
    )


def _with_prompt(turn: TurnRequest, prompt: str | tuple[int, ...]) -> TurnRequest:
    """The text stands in a message too, for what looks at a request's size."""
    messages = (UserMessage(prompt),) if isinstance(prompt, str) else ()
    return msgspec.structs.replace(turn, prompt=prompt, messages=messages)


def _prompts(prompt: str | list[str | int | list[int]]) -> list[str | tuple[int, ...]]:
    """A text, a list of texts, the ids of one prompt, or a list of such."""
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise invalid("prompt", "must not be empty")
    ids = tuple(item for item in prompt if isinstance(item, int))
    if len(ids) == len(prompt):
        return [ids]
    if ids:
        raise invalid("prompt", "must hold texts, or token ids, or lists of token ids, not a mixture")
    found: list[str | tuple[int, ...]] = []
    for index, item in enumerate(prompt):
        if isinstance(item, list) and not item:
            raise invalid(f"prompt.{index}", "must not be empty")
        if isinstance(item, str | list):
            found.append(item if isinstance(item, str) else tuple(item))
    return found


def _refuse_unsupported(request: wire.WireRequest, prompts: list[str | tuple[int, ...]]) -> None:
    if not request.model:
        raise invalid("model", "must not be empty")
    for name, instead in wire.REFUSED.items():
        if wire_body.is_set(getattr(request, name)):
            raise refuse(name, instead)
    wire_body.check_positive("n", request.n)
    wire_body.check_positive("max_tokens", request.max_tokens)
    wire_body.check_range("logprobs", request.logprobs, 0, MAX_TOP_LOGPROBS)
    if request.best_of is not None and request.best_of != (request.n or 1):
        raise refuse("best_of", "answers are not ranked here; ask for them with n")
    if request.echo and request.logprobs is not None:
        raise refuse("logprobs", "not available for the echoed prompt; leave out echo or logprobs")
    if request.echo and not all(isinstance(prompt, str) for prompt in prompts):
        raise refuse("echo", "needs the prompt as text")
