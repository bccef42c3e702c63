"""The `nvext` object of a body, and what an answer tells in one. Source: NVIDIA Dynamo 1.6."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from antiphon_protocols.retention import NvextCacheControl
from antiphon_turns.events import TurnMetadata
from antiphon_turns.gate import ArgumentStreaming
from antiphon_turns.hints import RouterMode

Dispatch = Literal["tool_call", "reasoning"]
ResponseFields = frozenset[str]
ReasoningFields = Literal["reasoning_content", "both"]

BUDGET_FIELD = "nvext.max_thinking_tokens"
FIELDS_HEADER = "x-antiphon-extra-fields"
_FIELDS = {"worker": "worker", "worker_id": "worker", "timing": "timing", "cached_tokens": "cached_tokens", "session": "session"}


class WireHints(msgspec.Struct, frozen=True):
    """`nvext.agent_hints`. Field meanings: `antiphon_turns.hints.AgentHints`."""

    priority: int | None = None
    strict_priority: int | None = None
    latency_sensitivity: float | None = None
    osl: int | None = None
    speculative_prefill: bool | None = None


class SessionControl(msgspec.Struct, frozen=True):
    """`nvext.session_control`. `bind` names the session, nothing more; `open` also keeps its prompt for `timeout` seconds after each
    turn that says so (None = 300); with `close` no further turn will come."""

    session_id: str | None = None
    action: Literal["bind", "open", "close"] | None = None
    timeout: float | None = None


class Nvext(msgspec.Struct, frozen=True):
    """The part of `nvext` that is read. `dispatch` asks for typed dispatch events on Chat; `argument_streaming` and
    `reasoning_fields` (Chat) override the server's settings for this request; `extra_fields` names what the answer shall tell of
    how it was served; `max_thinking_tokens` is a thinking budget for surfaces, or clients, that have no field of their own for it.
    `decode_worker_id`, else `backend_instance_id`, names the worker that shall serve the request, `dp_rank` its data-parallel rank;
    `router_mode` is how this request is routed."""

    agent_hints: WireHints | None = None
    dispatch: list[Dispatch] | None = None
    argument_streaming: ArgumentStreaming | None = None
    reasoning_fields: ReasoningFields | None = None
    extra_fields: list[str] | None = None
    max_thinking_tokens: int | None = None
    session_control: SessionControl | None = None
    cache_control: NvextCacheControl | None = None
    backend_instance_id: int | str | None = None
    decode_worker_id: int | str | None = None
    dp_rank: int | None = None
    router_mode: RouterMode | None = None


def response_fields(nvext: Nvext | None, headers: Mapping[str, str]) -> ResponseFields:
    """What the client wants told in `nvext` of the answer, from `nvext.extra_fields` and the header of the same meaning (names with
    commas): worker (and, once there was one, the number of migrations), timing, cached_tokens, session. Other names are another
    server's and mean nothing here."""
    asked = [*((nvext and nvext.extra_fields) or ()), *headers.get(FIELDS_HEADER, "").split(",")]
    return frozenset(_FIELDS[name] for name in map(str.strip, asked) if name in _FIELDS)


def shown_metadata(metadata: TurnMetadata, fields: ResponseFields) -> dict[str, object]:
    """The known part of what the client asked for; times in milliseconds, as the format's origin has them."""
    known: dict[str, object] = {}
    if "worker" in fields and metadata.worker is not None:
        known["worker"] = metadata.worker
    if "worker" in fields and metadata.migrations is not None:
        known["migrations"] = metadata.migrations
    if "session" in fields and metadata.session is not None:
        known["session"] = metadata.session
    if "cached_tokens" in fields and metadata.cached_tokens is not None:
        known["cached_tokens"] = metadata.cached_tokens
    if "timing" in fields:
        times = {"queue_ms": metadata.queue_seconds, "ttft_ms": metadata.ttft_seconds}
        timing = {name: round(seconds * 1000, 3) for name, seconds in times.items() if seconds is not None}
        if timing:
            known["timing"] = timing
    return known


def merge_metadata(into: dict[str, object], news: Mapping[str, object]) -> None:
    """Adds what became known later."""
    for name, value in news.items():
        old = into.get(name)
        into[name] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
