"""Sampling fields that Chat and legacy Completions share, checked and read."""

from typing import Protocol

from antiphon_protocols import body as wire_body
from antiphon_protocols.body import invalid
from antiphon_turns.request import Sampling

MAX_TOP_LOGPROBS = 20
"""The vendor's limit, on all of its surfaces."""


class SamplingFields(Protocol):
    """The wire fields; None = not sent."""

    @property
    def stop(self) -> str | list[str] | None: ...
    @property
    def temperature(self) -> float | None: ...
    @property
    def top_p(self) -> float | None: ...
    @property
    def top_k(self) -> int | None: ...
    @property
    def min_p(self) -> float | None: ...
    @property
    def seed(self) -> int | None: ...
    @property
    def presence_penalty(self) -> float | None: ...
    @property
    def frequency_penalty(self) -> float | None: ...


def openai_sampling(request: SamplingFields, *, max_tokens: int | None, top_logprobs: int | None) -> Sampling:
    """Raises InvalidRequest for values out of the vendor's ranges."""
    wire_body.check_range("temperature", request.temperature, 0, 2)
    wire_body.check_range("top_p", request.top_p, 0, 1)
    wire_body.check_range("min_p", request.min_p, 0, 1)
    wire_body.check_range("presence_penalty", request.presence_penalty, -2, 2)
    wire_body.check_range("frequency_penalty", request.frequency_penalty, -2, 2)
    wire_body.check_range("seed", request.seed, -(2**63), 2**63 - 1)
    stops = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    if "" in stops:
        raise invalid("stop", "a stop string must not be empty")
    return Sampling(
        max_tokens=max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k if request.top_k and request.top_k > 0 else None,
        min_p=request.min_p,
        seed=request.seed,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        stop=stops,
        top_logprobs=top_logprobs,
    )
