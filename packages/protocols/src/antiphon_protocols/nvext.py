"""Agent hints on the wire: the `nvext` object of a body and the headers that override it.

Source: `nvext.agent_hints` and the `x-dynamo-request-*` headers of NVIDIA Dynamo 1.6.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from antiphon_protocols.body import invalid
from antiphon_turns.events import TurnMetadata
from antiphon_turns.gate import ArgumentStreaming
from antiphon_turns.hints import AgentHints

Dispatch = Literal["tool_call", "reasoning"]
ResponseFields = frozenset[str]
ReasoningFields = Literal["reasoning_content", "both"]

PRIORITY_HEADER = "x-dynamo-request-priority"
STRICT_PRIORITY_HEADER = "x-dynamo-request-strict-priority"
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


class Nvext(msgspec.Struct, frozen=True):
    """The part of `nvext` that is read. `dispatch` asks for typed dispatch events on Chat; `argument_streaming` and
    `reasoning_fields` (Chat) override the server's settings for this request; `extra_fields` names what the answer shall tell of
    how it was served; `max_thinking_tokens` is a thinking budget for surfaces, or clients, that have no field of their own for it."""

    agent_hints: WireHints | None = None
    dispatch: list[Dispatch] | None = None
    argument_streaming: ArgumentStreaming | None = None
    reasoning_fields: ReasoningFields | None = None
    extra_fields: list[str] | None = None
    max_thinking_tokens: int | None = None


def agent_hints(nvext: Nvext | None, headers: Mapping[str, str]) -> AgentHints:
    """Hints of one request; headers win over the body. Raises InvalidRequest for a header that is no integer."""
    wire = (nvext and nvext.agent_hints) or WireHints()
    priority = _header_int(headers, PRIORITY_HEADER, wire.priority)
    strict = _header_int(headers, STRICT_PRIORITY_HEADER, wire.strict_priority)
    if strict < 0:
        raise invalid("nvext.agent_hints.strict_priority", "must not be negative")
    if wire.osl is not None and wire.osl < 0:
        raise invalid("nvext.agent_hints.osl", "must not be negative")
    return AgentHints(
        priority=priority,
        strict_priority=strict,
        latency_sensitivity=wire.latency_sensitivity,
        osl=wire.osl,
        speculative_prefill=bool(wire.speculative_prefill),
    )


def _header_int(headers: Mapping[str, str], name: str, default: int | None) -> int:
    text = headers.get(name)
    if text is None:
        return default or 0
    try:
        return int(text)
    except ValueError:
        raise invalid(name, "must be an integer") from None


def response_fields(nvext: Nvext | None, headers: Mapping[str, str]) -> ResponseFields:
    """What the client wants told in `nvext` of the answer, from `nvext.extra_fields` and the header of the same meaning (names with
    commas): worker, timing, cached_tokens, session. Other names are another server's and mean nothing here."""
    asked = [*((nvext and nvext.extra_fields) or ()), *headers.get(FIELDS_HEADER, "").split(",")]
    return frozenset(_FIELDS[name] for name in map(str.strip, asked) if name in _FIELDS)


def shown_metadata(metadata: TurnMetadata, fields: ResponseFields) -> dict[str, object]:
    """The known part of what the client asked for; times in milliseconds, as the format's origin has them."""
    known: dict[str, object] = {}
    if "worker" in fields and metadata.worker is not None:
        known["worker"] = metadata.worker
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
