"""Agent hints on the wire: the `nvext` object of a body and the headers that override it.

Source: `nvext.agent_hints` and the `x-dynamo-request-*` headers of NVIDIA Dynamo 1.6.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from antiphon_protocols.body import invalid
from antiphon_turns.gate import ArgumentStreaming
from antiphon_turns.hints import AgentHints

Dispatch = Literal["tool_call", "reasoning"]

PRIORITY_HEADER = "x-dynamo-request-priority"
STRICT_PRIORITY_HEADER = "x-dynamo-request-strict-priority"


class WireHints(msgspec.Struct, frozen=True):
    """`nvext.agent_hints`. Field meanings: `antiphon_turns.hints.AgentHints`."""

    priority: int | None = None
    strict_priority: int | None = None
    latency_sensitivity: float | None = None
    osl: int | None = None
    speculative_prefill: bool | None = None


class Nvext(msgspec.Struct, frozen=True):
    """The part of `nvext` that is read. `dispatch` asks for typed dispatch events on Chat; `argument_streaming`
    overrides the server's setting for this request."""

    agent_hints: WireHints | None = None
    dispatch: list[Dispatch] | None = None
    argument_streaming: ArgumentStreaming | None = None


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
