"""The assembled form of a turn: an ordered tuple of segments, and nothing beside it."""

from typing import Literal

import msgspec

from antiphon_turns.events import Anomaly, SegmentStatus, StopReason, Usage

FinishReason = Literal["stop", "length", "cancelled", "error"]
"""How generation ended: "stop" = the model's own end of turn, "length" = the token limit."""


class ReasoningSegment(msgspec.Struct, frozen=True, tag="reasoning"):
    """Reasoning text. `carrier` is the opaque value a surface transports (Messages: `signature`)."""

    text: str
    carrier: str | None = None
    status: SegmentStatus = "complete"
    tokens: int = 0


class TextSegment(msgspec.Struct, frozen=True, tag="text"):
    """Visible text."""

    text: str
    status: SegmentStatus = "complete"
    tokens: int = 0


class CallSegment(msgspec.Struct, frozen=True, tag="tool_call"):
    """One tool call. `arguments` is JSON text, verbatim as the model or the client wrote it; only a
    "complete" or "recovered" call holds a whole JSON object."""

    name: str
    arguments: str
    call_id: str = ""
    status: SegmentStatus = "complete"
    tokens: int = 0


Segment = ReasoningSegment | TextSegment | CallSegment


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One assistant output. Built by `assemble` only."""

    turn_tag: str
    model: str
    segments: tuple[Segment, ...]
    stop_reason: StopReason
    usage: Usage
    stop_sequence: str | None = None
    anomalies: tuple[Anomaly, ...] = ()
