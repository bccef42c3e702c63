"""The message list a chat template gets, made for what the template can do. All strings are escaped already."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from antiphon_tokenizers.jsontext import loads
from antiphon_tokenizers.normalise import BLANK_LINE, Entry, answers_call, normalise, user
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

Turn = Callable[[int], dict[str, Any]]


def template_messages(
    messages: Sequence[Message], *, abilities: Abilities, writer: TurnWriter, tool_list: str | None, assistant: Turn
) -> list[Entry]:
    """`assistant(i)` gives the form of the turn at index i. `tool_list` is put behind the first system text."""
    return normalise(_entries(messages, abilities, writer, tool_list, assistant), abilities)


def _entries(
    messages: Sequence[Message], abilities: Abilities, writer: TurnWriter, tool_list: str | None, assistant: Turn
) -> Iterator[Entry]:
    yield from _leading_system(messages, abilities, tool_list)
    start = sum(1 for _ in _leading(messages))
    names = _call_names(messages)
    for is_tool, group in groupby(enumerate(messages[start:], start), lambda item: isinstance(item[1], ToolMessage)):
        found = list(group)
        first = found[0][0]
        # Where roles take turns, a result stands between them only if its call does.
        lone = abilities.lone_results and abilities.user_behind_result
        if is_tool and not (abilities.accepts_tool_role and (lone or answers_call(messages, first))):
            results = (writer.tool_result(message) for _, message in found if isinstance(message, ToolMessage))
            yield user("\n".join(results), first)._replace(spoken=False)
            continue
        for index, message in found:
            if isinstance(message, AssistantMessage):
                yield Entry(assistant(index), index)
            elif isinstance(message, ToolMessage):
                yield Entry(_tool(message, names), index)
            elif isinstance(message, SystemMessage) and abilities.accepts_system and abilities.system_anywhere:
                yield Entry({"role": "system", "content": message.text}, index)
            else:
                yield user(message.text, index)


def natural_turn(segments: Sequence[Segment], abilities: Abilities, *, writer: TurnWriter, earlier_calls: int = 0) -> dict[str, Any]:
    """A past turn in the template's own terms: content, calls, reasoning. What the template has no terms for, reasoning it does not
    read and segments in another order than reasoning, text, calls, it gets in the content, in the model's own markers."""
    calls = [segment for segment in segments if isinstance(segment, CallSegment)]
    prose = [segment for segment in segments if not isinstance(segment, CallSegment)]
    reasoning = BLANK_LINE.join(s.text for s in prose if isinstance(s, ReasoningSegment))
    ordered = [s for kind in (ReasoningSegment, TextSegment, CallSegment) for s in segments if isinstance(s, kind)]
    if (reasoning and abilities.reads_reasoning is None) or ordered != list(segments):
        if abilities.lone_results or not calls:
            return {"role": "assistant", "content": writer.write(segments, earlier_calls=earlier_calls)}
        return {"role": "assistant", "content": writer.write(prose), **_calls(calls, abilities)}
    message = {"role": "assistant", "content": "".join(s.text for s in prose if isinstance(s, TextSegment)), **_calls(calls, abilities)}
    if reasoning and abilities.reads_reasoning is not None:
        message[abilities.reads_reasoning] = reasoning
    return message


def slotted_turn(segments: Sequence[Segment], slot: str, abilities: Abilities, *, shows_calls: bool) -> dict[str, Any]:
    """A past turn with a slot as its content."""
    calls = [segment for segment in segments if isinstance(segment, CallSegment)] if shows_calls else []
    return {"role": "assistant", "content": slot, **_calls(calls, abilities)}


def slotted_call(segments: Sequence[Segment], slot: str, abilities: Abilities) -> dict[str, Any]:
    """A past turn with a slot as the arguments of its first call, for templates that show no content beside calls."""
    first = next(segment for segment in segments if isinstance(segment, CallSegment) and segment.status != "truncated")
    function = {"name": first.name, "arguments": slot if abilities.arguments == "string" else {"slot": slot}}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": first.call_id, "type": "function", "function": function}]}


def _calls(segments: Sequence[CallSegment], abilities: Abilities) -> dict[str, Any]:
    calls = [_call(segment, abilities) for segment in segments if segment.status != "truncated"]
    return {"tool_calls": calls} if calls else {}


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


def _leading_system(messages: Sequence[Message], abilities: Abilities, tool_list: str | None) -> Iterator[Entry]:
    """System texts before anything else: one message, unless the template takes several."""
    texts = list(_leading(messages))
    if tool_list is not None:
        texts[:1] = [f"{texts[0]}{BLANK_LINE}{tool_list}" if texts else tool_list]
    if not abilities.system_anywhere:
        texts = [BLANK_LINE.join(texts)] if texts else []
    for index, text in enumerate(texts):
        yield Entry({"role": "system", "content": text}, index) if abilities.accepts_system else user(text, index)


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
