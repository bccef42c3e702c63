"""The call gate: which bytes of a tool call may reach a wire, and what a cut call looks like there (I12).

Clients execute whatever argument bytes they get, so by default no byte of a call passes before the call is
complete. Surfaces stand behind the gate and never see a call that must not run.

==============  ===========================================  =============================================
                whole (default)                              incremental
==============  ===========================================  =============================================
complete call   start, one delta, end, ready: at its closer  start and deltas as they are decoded
cut, honest     nothing                                      closed so that the tool's schema refuses it
cut, recover    `{}` where the tool requires a parameter     closed so that the tool's schema refuses it
==============  ===========================================  =============================================

Incremental mode falls back to whole for tools whose schema could not refuse any closing. Where no call is allowed (no tools
offered, or tool_choice none) calls are dropped with an Anomaly.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from antiphon_turns.events import (
    Anomaly,
    CallReady,
    Event,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    TurnEnd,
)
from antiphon_turns.json_scan import JsonScanner
from antiphon_turns.request import Tool

ArgumentStreaming = Literal["whole", "incremental"]
CutCalls = Literal["honest", "recover"]


class CallGate:
    """Filters the events of one turn; indices behind the gate are dense again. `cut_calls` counts the calls that
    were withheld or replaced."""

    def __init__(self, tools: Iterable[Tool], *, streaming: ArgumentStreaming, cut: CutCalls, allow_calls: bool = True) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._streaming = streaming
        self._cut = cut
        self._next = 0
        self._held: SegmentStart | None = None
        self._live: _LiveCall | None = None
        self._end: SegmentEnd | None = None
        self._allow_calls = allow_calls
        self._replaced = False
        self._dropped = False
        self.cut_calls = 0

    def push(self, event: Event) -> list[Event]:
        """The events that may pass now."""
        match event:
            case SegmentDelta() if self._held is None and self._live is None:
                return [event if event.index == self._next - 1 else SegmentDelta(self._next - 1, event.text)]
            case SegmentDelta():
                return self._call_delta(event)
            case SegmentStart():
                return self._start(event)
            case SegmentEnd():
                return self._segment_end(event)
            case CallReady():
                return self._ready(event)
            case TurnEnd() if self._replaced and event.stop_reason not in ("cancelled", "error"):
                return [TurnEnd("tool_use", event.usage)]
            case TurnEnd() if self._dropped and event.stop_reason == "tool_use":
                return [TurnEnd("end_turn", event.usage)]
            case _:
                return [event]

    def _start(self, event: SegmentStart) -> list[Event]:
        if event.kind == "tool_call":
            live = self._streaming == "incremental" and self._allow_calls
            poison = _poison(self._tools.get(event.name or "")) if live else None
            if poison is None:
                self._held = event
                return []
            self._live = _LiveCall(poison)
        self._next += 1
        return [SegmentStart(self._next - 1, event.kind, event.call_id, event.name)]

    def _call_delta(self, event: SegmentDelta) -> list[Event]:
        if self._held is not None:
            return []
        if self._live is not None:
            self._live.text.append(event.text)
        return [SegmentDelta(self._next - 1, event.text)]

    def _segment_end(self, event: SegmentEnd) -> list[Event]:
        held, live = self._held, self._live
        if held is not None:
            if event.status != "truncated":
                self._end = event
                return []
            self._held = None
            return self._cut_whole(held, event)
        if live is not None:
            self._live = None
            if event.status == "truncated":
                return self._cut_live(live, event)
        return [SegmentEnd(self._next - 1, event.status, event.tokens, event.carrier)]

    def _ready(self, event: CallReady) -> list[Event]:
        held, end = self._held, self._end
        self._held = self._end = None
        if not self._allow_calls:
            self._dropped = True
            return [Anomaly("call_not_allowed", event.name)]
        if held is None or end is None:
            return [CallReady(self._next - 1, event.call_id, event.name, event.arguments)]
        return self._whole_call(held, event.arguments, end.status, end.tokens)

    def _whole_call(self, start: SegmentStart, arguments: str, status: Any, tokens: int) -> list[Event]:
        index, self._next = self._next, self._next + 1
        call_id, name = start.call_id or "", start.name or ""
        return [
            SegmentStart(index, "tool_call", call_id, name),
            SegmentDelta(index, arguments),
            SegmentEnd(index, status, tokens),
            CallReady(index, call_id, name, arguments),
        ]

    def _cut_whole(self, start: SegmentStart, end: SegmentEnd) -> list[Event]:
        self.cut_calls += 1
        tool = self._tools.get(start.name or "")
        if self._cut == "honest" or not self._allow_calls or tool is None or not _empty_fails(tool):
            return []
        self._replaced = True
        return self._whole_call(start, "{}", "recovered", end.tokens)

    def _cut_live(self, live: "_LiveCall", end: SegmentEnd) -> list[Event]:
        self.cut_calls += 1
        self._replaced = True
        index = self._next - 1
        tail = live.poisoned_tail()
        return [SegmentDelta(index, tail), SegmentEnd(index, "truncated", end.tokens)]


class _LiveCall:
    """A call whose bytes are on the wire already."""

    def __init__(self, poison: tuple[str, str]) -> None:
        self.text: list[str] = []
        self._poison = poison

    def poisoned_tail(self) -> str:
        """What closes the arguments so that they are JSON and fail the tool's schema."""
        sent = "".join(self.text)
        scanner = JsonScanner()
        scanner.feed(sent)
        key, value = self._poison
        member = f"{msgspec.json.encode(key).decode()}:{value}"
        if not sent.strip():
            return "{" + member + "}"
        inner = scanner.closing()[:-1]
        empty = (sent + inner).rstrip().endswith("{")
        return inner + ("" if empty else ",") + member + "}"


def _empty_fails(tool: Tool) -> bool:
    """Whether `{}` fails the tool's schema: a parameter is required and no default could stand in for it."""
    properties = tool.schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    return any(not (isinstance(declared.get(name), dict) and "default" in declared[name]) for name in tool.required())


# Tried in this order: containers first, because lenient validators turn a scalar of the wrong type into a right one.
_WRONG = (("object", '{"truncated":true}'), ("array", '["truncated"]'), ("string", '"truncated"'), ("boolean", "true"))


def _poison(tool: Tool | None) -> tuple[str, str] | None:
    """A declared parameter and a value its declared type refuses; None if the schema refuses nothing."""
    if tool is None:
        return None
    properties = tool.schema.get("properties")
    if not isinstance(properties, dict):
        return None
    required = [name for name in tool.required() if name in properties]
    for name in [*required, *properties]:
        declared = properties[name].get("type") if isinstance(properties[name], dict) else None
        types = [declared] if isinstance(declared, str) else declared
        if not isinstance(types, list) or not types:
            continue
        for kind, value in _WRONG:
            if kind not in types:
                return name, value
    return None
