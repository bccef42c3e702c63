"""Chat history: wire messages become the ordered messages of a TurnRequest."""

from typing import Any

from antiphon_protocols.body import invalid, refuse
from antiphon_protocols.chat import wire
from antiphon_protocols.history import CallNames, input_text, joined
from antiphon_turns.request import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from antiphon_turns.turn import CallSegment, ReasoningSegment, Segment, TextSegment


def read_messages(messages: list[wire.WireMessage]) -> tuple[Message, ...]:
    """All messages in order. Raises InvalidRequest or UnsupportedFeature with the path at fault."""
    if not messages:
        raise invalid("messages", "at least one message is required")
    names = CallNames()
    return tuple(_message(message, f"messages.{index}", names) for index, message in enumerate(messages))


def _message(message: wire.WireMessage, path: str, names: CallNames) -> Message:
    if message.role == "assistant":
        return AssistantMessage(_segments(message, path, names))
    if message.content is None and message.role not in ("tool", "function"):
        raise invalid(f"{path}.content", "Field required")
    text = _text(message.content)
    if message.role == "user":
        return UserMessage(text)
    if message.role in ("tool", "function"):
        return _result(message, text, path, names)
    return SystemMessage(text)


def _result(message: wire.WireMessage, text: str, path: str, names: CallNames) -> ToolMessage:
    call_id = message.tool_call_id or (message.name if message.role == "function" else None)
    if not call_id:
        raise invalid(f"{path}.tool_call_id", "Field required")
    return ToolMessage(call_id, text, names.name_of(call_id) or message.name)


def _segments(message: wire.WireMessage, path: str, names: CallNames) -> tuple[Segment, ...]:
    """The wire keeps no order between its three fields; a turn that has them all reasons, then speaks, then calls."""
    segments: list[Segment] = []
    reasoning = _first_text(message.reasoning_content, message.reasoning, message.thinking)
    if reasoning:
        segments.append(ReasoningSegment(reasoning))
    text = _text(message.content)
    if text:
        segments.append(TextSegment(text))
    for index, call in enumerate(message.tool_calls or ()):
        if call.function is None:
            if call.type in (None, "function"):
                raise invalid(f"{path}.tool_calls.{index}.function", "Field required")
            raise refuse(f"{path}.tool_calls.{index}", f"a call of type {call.type!r} is not supported, only functions are")
        segments.append(_call(call.function, call.id or "", names))
    if message.function_call is not None:
        segments.append(_call(message.function_call, message.function_call.name, names))
    return tuple(segments)


def _call(function: wire.CalledFunction, call_id: str, names: CallNames) -> CallSegment:
    names.add(call_id, function.name)
    return CallSegment(function.name, input_text(bytes(function.arguments)), call_id)


def _first_text(*values: Any) -> str:
    """Clients echo reasoning under the key they received it with, and some of these keys hold objects elsewhere."""
    return next((value for value in values if isinstance(value, str) and value), "")


def _text(content: wire.Content) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return joined(part.text if isinstance(part, wire.TextPart) else part.refusal for part in content)
