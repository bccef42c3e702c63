"""The message list a chat template gets, made for what the template can do. All strings are escaped already."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from antiphon_tokenizers.jsontext import loads
from antiphon_tokenizers.probe import Abilities
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Message,
    ReasoningSegment,
    Segment,
    SystemMessage,
    TextSegment,
    ToolMessage,
    TurnWriter,
)
from antiphon_turns.errors import InvalidRequest

_BLANK_LINE = "\n\n"


def template_messages(
    messages: Sequence[Message],
    *,
    abilities: Abilities,
    writer: TurnWriter,
    tool_list: str | None,
    assistant: Callable[[int], dict[str, Any]],
) -> list[dict[str, Any]]:
    """`assistant(i)` gives the form of the turn at index i. `tool_list` is put behind the first system text."""
    found = list(_leading_system(messages, abilities, tool_list))
    start = sum(1 for _ in _leading(messages))
    names = _call_names(messages)
    for is_tool, group in groupby(enumerate(messages[start:], start), lambda item: isinstance(item[1], ToolMessage)):
        if is_tool and not abilities.accepts_tool_role:
            results = (writer.tool_result(message) for _, message in group if isinstance(message, ToolMessage))
            found.append(_user("\n".join(results)))
            continue
        for index, message in group:
            if isinstance(message, AssistantMessage):
                found.append(assistant(index))
            elif isinstance(message, ToolMessage):
                found.append(_tool(message, names))
            elif isinstance(message, SystemMessage) and abilities.accepts_system and abilities.system_anywhere:
                found.append({"role": "system", "content": message.text})
            else:
                found.append(_user(message.text))
    return found if abilities.consecutive_users else list(_joined_users(found))


def natural_turn(segments: Sequence[Segment], abilities: Abilities, *, content: str | None = None) -> dict[str, Any]:
    """A past turn in the template's own terms: content, calls, reasoning. `content` replaces the turn's text."""
    text = "".join(s.text for s in segments if isinstance(s, TextSegment)) if content is None else content
    message: dict[str, Any] = {"role": "assistant", "content": text}
    reasoning = _BLANK_LINE.join(s.text for s in segments if isinstance(s, ReasoningSegment))
    if reasoning and content is None:
        message[abilities.reads_reasoning or "reasoning_content"] = reasoning
    calls = [_call(s, abilities) for s in segments if isinstance(s, CallSegment) and s.status != "truncated"]
    if calls:
        message["tool_calls"] = calls
    return message


def _call(segment: CallSegment, abilities: Abilities) -> dict[str, Any]:
    arguments: Any = segment.arguments
    if abilities.arguments == "mapping":
        try:
            arguments = loads(segment.arguments)
        except ValueError as error:
            message = f"the arguments of the call of {segment.name!r} are not JSON: {error}"
            raise InvalidRequest(message, param="messages") from error
    return {"id": segment.call_id, "type": "function", "function": {"name": segment.name, "arguments": arguments}}


def _leading(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if not isinstance(message, SystemMessage):
            return
        yield message.text


def _leading_system(messages: Sequence[Message], abilities: Abilities, tool_list: str | None) -> Iterator[dict[str, Any]]:
    """System texts before anything else: one message, unless the template takes several."""
    texts = list(_leading(messages))
    if tool_list is not None:
        texts[:1] = [f"{texts[0]}{_BLANK_LINE}{tool_list}" if texts else tool_list]
    if not abilities.system_anywhere:
        texts = [_BLANK_LINE.join(texts)] if texts else []
    for text in texts:
        yield {"role": "system", "content": text} if abilities.accepts_system else _user(text)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _tool(message: ToolMessage, names: dict[str, str]) -> dict[str, Any]:
    text = message.text
    if message.is_error and "error" not in text[:64].lower():
        text = f"Error: {text}"
    name = message.name or names.get(message.call_id)
    known = {} if name is None else {"name": name}
    return {"role": "tool", "content": text, "tool_call_id": message.call_id, **known}


def _call_names(messages: Sequence[Message]) -> dict[str, str]:
    turns = (message for message in messages if isinstance(message, AssistantMessage))
    return {s.call_id: s.name for turn in turns for s in turn.segments if isinstance(s, CallSegment)}


def _joined_users(messages: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """For templates that want roles to alternate."""
    for role, group in groupby(messages, lambda message: message["role"]):
        if role == "user":
            yield _user(_BLANK_LINE.join(message["content"] for message in group))
        else:
            yield from group
