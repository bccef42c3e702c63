"""The ordered turn: events, segments, and the pure functions every stage of Antiphon shares."""

from antiphon_turns.assemble import Assembler, assemble
from antiphon_turns.check import OrderChecker, OrderError, check_order
from antiphon_turns.events import (
    Anomaly,
    CallReady,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentKind,
    SegmentStart,
    SegmentStatus,
    StopReason,
    TurnEnd,
    TurnStart,
    Usage,
    UsageUpdate,
)
from antiphon_turns.family import DetectionRule, Family, Frame, Opening, ReplayPolicy, TemplateSwitches, TurnWriter
from antiphon_turns.gate import ArgumentStreaming, CallGate, CutCalls
from antiphon_turns.hints import AgentHints
from antiphon_turns.outcome import stop_reason
from antiphon_turns.request import (
    AssistantMessage,
    Message,
    Sampling,
    SystemMessage,
    Thinking,
    Tool,
    ToolChoice,
    ToolMessage,
    TurnRequest,
    UserMessage,
)
from antiphon_turns.stops import StopMatcher
from antiphon_turns.turn import CallSegment, FinishReason, ReasoningSegment, Segment, TextSegment, Turn

__all__ = [
    "AgentHints",
    "Anomaly",
    "ArgumentStreaming",
    "Assembler",
    "AssistantMessage",
    "CallGate",
    "CallReady",
    "CallSegment",
    "CutCalls",
    "DetectionRule",
    "Event",
    "Family",
    "FinishReason",
    "Frame",
    "Message",
    "Opening",
    "OrderChecker",
    "OrderError",
    "ReasoningSegment",
    "ReplayPolicy",
    "Sampling",
    "Segment",
    "SegmentDelta",
    "SegmentEnd",
    "SegmentKind",
    "SegmentStart",
    "SegmentStatus",
    "StopMatcher",
    "StopReason",
    "SystemMessage",
    "TemplateSwitches",
    "TextSegment",
    "Thinking",
    "Tool",
    "ToolChoice",
    "ToolMessage",
    "Turn",
    "TurnEnd",
    "TurnRequest",
    "TurnStart",
    "TurnWriter",
    "Usage",
    "UsageUpdate",
    "UserMessage",
    "assemble",
    "check_order",
    "stop_reason",
]
