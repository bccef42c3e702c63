"""Chat history: wire messages become the ordered messages of a TurnRequest."""

from typing import Any

from antiphon_protocols.body import invalid, refuse
from antiphon_protocols.chat import wire
from antiphon_protocols.history import TEXT_ONLY, CallNames, input_text, joined, not_shown
from antiphon_turns.request import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from antiphon_turns.turn import CallSegment, ReasoningSegment, Segment, TextSegment

_UNSEEN = {wire.ImagePart: "image", wire.AudioPart: "audio", wire.FilePart: "file"}


def read_messages(messages: list[wire.WireMessage], ignored: list[str]) -> tuple[Message, ...]:
    """All messages in order. Parts of tool results that the model cannot see are named in `ignored`. Raises InvalidRequest or
    UnsupportedFeature with the path at fault."""
    if not messages:
        raise invalid("messages", "at least one message is required")
    names = CallNames()
    return tuple(_message(message, f"messages.{index}", names, ignored) for index, message in enumerate(messages))


def _message(message: wire.WireMessage, path: str, names: CallNames, ignored: list[str]) -> Message:
    if message.role == "assistant":
        return AssistantMessage(_segments(message, path, names))
    if message.role in ("tool", "function"):
        return _result(message, _text(message.content, f"{path}.content", ignored), path, names)
    if message.content is None:
        raise invalid(f"{path}.content", "Field required")
    text = _text(message.content, f"{path}.content")
    return UserMessage(text) if message.role == "user" else SystemMessage(text)


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
    text = _text(message.content, f"{path}.content")
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


def _text(content: wire.Content, path: str, ignored: list[str] | None = None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return joined(_part(part, f"{path}.{index}", ignored) for index, part in enumerate(content))


def _part(part: wire.Part, path: str, ignored: list[str] | None) -> str:
    """Without `ignored` a part that is no text is refused."""
    if isinstance(part, wire.TextPart):
        return part.text
    if isinstance(part, wire.RefusalPart):
        return part.refusal
    kind = type(part).__struct_config__.tag
    if ignored is None:
        raise refuse(path, f"type {kind!r} is not supported: {TEXT_ONLY}")
    ignored.append(f"{path}.{kind}")
    return not_shown(_UNSEEN[type(part)])
