"""The causes that set two prompts of a session apart, read from the requests they were made of."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

import msgspec

from antiphon.explain.sent import Sent
from antiphon.stabilize import ANTHROPIC_PREAMBLE
from antiphon_turns import AssistantMessage, CallSegment, Message, ReasoningSegment, Segment, SystemMessage, TextSegment, Tool, TurnRequest
from antiphon_turns.replay import same, same_json

Code = Literal[
    "model_changed",
    "effort_changed",
    "billing_header",
    "date_line",
    "tools_changed",
    "tool_order",
    "system_edited",
    "client_compaction",
    "history_edited",
    "reasoning_dropped",
    "arguments_respelled",
    "turn_rewritten",
    "replay_policy",
    "template_suffix",
    "worker_changed",
    "evicted",
]

SENTENCES: dict[Code, str] = {
    "model_changed": "another model, chat template or family renders this session now",
    "effort_changed": "the thinking mode, the effort or a template variable changed, and the template writes it into the prompt",
    "billing_header": "a billing header at the start of the system text varies; --strip-anthropic-preamble removes it",
    "date_line": "a line with a date or time changed",
    "tools_changed": "the list of tools changed",
    "tool_order": "the same tools came in another order",
    "system_edited": "the system text changed",
    "client_compaction": "the client replaced its history by a shorter one",
    "history_edited": "the client changed a message it had sent before",
    "reasoning_dropped": "reasoning of a past turn did not come back, and no record of the turn is left",
    "arguments_respelled": "the arguments of a past call came back in another spelling, and no record of the turn is left",
    "turn_rewritten": "a past turn came back in another form, and no record of it is left",
    "replay_policy": "this model leaves reasoning of past turns out once the user speaks again; --replay all keeps it",
    "template_suffix": "the chat template writes the end of the conversation differently once the conversation goes on",
    "worker_changed": "another worker served this session before",
    "evicted": "the engine no longer held what it had been sent",
}

_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}|\d{1,2}:\d{2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\b|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b \d"
)
_DIGITS = re.compile(
    r"\d+|\b(?:[A-Z][a-z]{2,8}day|January|February|March|April|May|June|July|August|September|October|November|December)\b"
)


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One difference. `message` and `block` count from 0 in the request as the client sent it (system text of its own field is message
    0 of the internal list); `line` from 1 within the block. `detail` quotes at most a line of either side, for the
    inspector and `antiphon explain` only."""

    code: Code
    message: int | None = None
    block: int | None = None
    line: int | None = None
    detail: str = ""

    @property
    def place(self) -> str:
        """Where, as a word for headers and logs."""
        parts = [str(part) for part in (self.message, self.block) if part is not None]
        where = f"message {'.'.join(parts)}" if parts else "head"
        return where if self.line is None else f"{where} line {self.line}"


def causes(before: Sent, now: Sent, *, restored: frozenset[int] = frozenset()) -> tuple[Cause, ...]:
    """All differences, in the order of the prompt. `restored`: messages of the present prompt that stand in it as they were sampled,
    so that what a client did to them cost nothing."""
    if before.model != now.model:
        return (Cause(code="model_changed", detail=f"{before.model} -> {now.model}"),)
    found = [*_controls(before, now), *_tools(before.request.tools, now.request.tools)]
    found += _messages(before, now, restored)
    return tuple(found)


def _controls(before: Sent, now: Sent) -> Iterator[Cause]:
    one, other = _wish(before.request), _wish(now.request)
    if one != other:
        yield Cause(code="effort_changed", detail=f"{one} -> {other}")


def _wish(request: TurnRequest) -> str:
    parts = [f"thinking {request.thinking.mode}"]
    if request.thinking.effort:
        parts.append(f"effort {request.thinking.effort}")
    return ", ".join([*parts, *(f"{name}={value!r}" for name, value in request.template_kwargs.items())])


def _tools(before: Sequence[Tool], now: Sequence[Tool]) -> Iterator[Cause]:
    old, new = _head(before), _head(now)
    if old == new:
        return
    if sorted(map(repr, old)) == sorted(map(repr, new)):
        yield Cause(code="tool_order", detail=f"from {_first_moved([t.name for t in old], [t.name for t in new])!r} on")
        return
    names, others = {tool.name for tool in old}, {tool.name for tool in new}
    changed = sorted({tool.name for tool in new if tool not in old} & names)
    parts = (("added", sorted(others - names)), ("removed", sorted(names - others)), ("changed", changed))
    yield Cause(code="tools_changed", detail="; ".join(f"{word} {', '.join(found)}" for word, found in parts if found))
    moved = _first_moved([tool.name for tool in old if tool.name in others], [tool.name for tool in new if tool.name in names])
    if moved is not None:
        yield Cause(code="tool_order", detail=f"from {moved!r} on")


def _first_moved(old: Sequence[str], new: Sequence[str]) -> str | None:
    return next((one for one, other in zip(old, new, strict=False) if one != other), None)


def _head(tools: Sequence[Tool]) -> list[Tool]:
    return [tool for tool in tools if not tool.deferred]


def _messages(before: Sent, now: Sent, restored: frozenset[int]) -> Iterator[Cause]:
    old: list[Message] = list(before.request.messages)
    new = now.request.messages
    sampled = len(old)
    if before.reply:
        old.append(AssistantMessage(before.reply))
    before_old, before_new = _systems(old), _systems(new)
    for index, (one, other) in enumerate(zip(old[:before_old], new[:before_new], strict=False)):
        if one != other:
            yield from _message(index, one, other, is_reply=False)
    if before_old != before_new:
        yield Cause(code="system_edited", message=min(before_old, before_new), detail=f"{before_old} system texts -> {before_new}")
    said, saying = old[before_old:], new[before_new:]
    if _compacted(said[: sampled - before_old], saying):
        place = before_new + _first_difference(said, saying)
        yield Cause(code="client_compaction", message=place, detail=f"{sampled} messages -> {len(new)}")
        return
    for index, (one, other) in enumerate(zip(said, saying, strict=False), before_new):
        if one != other and index not in restored:
            yield from _message(index, one, other, is_reply=index - before_new == sampled - before_old)


def _systems(messages: Sequence[Message]) -> int:
    """How many system texts stand before everything else."""
    return next((index for index, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))


def _compacted(old: Sequence[Message], new: Sequence[Message]) -> bool:
    """Whether a conversation leaves the way of the one sent before for a shorter one; or for one as long that has nothing of it, as when
    its only message was summed up. A conversation that ends earlier and is the same up to there is taken back, not summed up."""
    was, now = ([m for m in messages if not isinstance(m, SystemMessage)] for messages in (old, new))
    if len(now) < len(was):
        return _first_difference(was, now) < len(now)
    return bool(now) and len(now) == len(was) and not any(map(_alike, was, now))


def _alike(one: Message, other: Message) -> bool:
    if isinstance(one, AssistantMessage) or isinstance(other, AssistantMessage):
        return one == other
    return type(one) is type(other) and alike(one.text, other.text)


def alike(one: str, other: str) -> bool:
    """Whether one text may be the other one edited: half of the shorter one stands at the beginning and the end of both."""
    kept = _common(one, other)
    kept += _common(one[kept:][::-1], other[kept:][::-1])
    return 2 * kept >= min(len(one), len(other))


def _common(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def goes_on(before: TurnRequest, now: TurnRequest) -> bool:
    """Whether a conversation that begins anew in a session may go on from the one before, summed up or edited: it has the same tools, or
    a system text like the one before. A title, a quota check or a sub-agent has neither, and lost nothing."""
    if {tool.name for tool in _head(before.tools)} == {tool.name for tool in _head(now.tools)}:
        return True
    one, other = ("\n".join(m.text for m in r.messages if isinstance(m, SystemMessage)) for r in (before, now))
    return bool(one and other) and alike(one, other)


def _first_difference(old: Sequence[Message], new: Sequence[Message]) -> int:
    return next((i for i, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new)))


def _message(index: int, one: Message, other: Message, *, is_reply: bool) -> Iterator[Cause]:
    if isinstance(one, AssistantMessage) and isinstance(other, AssistantMessage):
        yield from _turn(index, one.segments, other.segments, is_reply=is_reply)
    elif isinstance(one, AssistantMessage) or isinstance(other, AssistantMessage) or type(one) is not type(other):
        yield Cause(code="history_edited", message=index, detail=f"{_role(one)} -> {_role(other)}")
    else:
        yield from _text(index, one.text, other.text, system=isinstance(one, SystemMessage))


def _role(message: Message) -> str:
    return type(message).__name__.removesuffix("Message").lower()


def _text(index: int, one: str, other: str, *, system: bool) -> Iterator[Cause]:
    """One cause for each kind of line that changed, at the first line of its kind."""
    old, new = one.split("\n"), other.split("\n")
    seen: set[Code] = set()
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for line in range(max(b - a, d - c)):
            was, is_now = "".join(old[a + line : a + line + 1][: b - a]), "".join(new[c + line : c + line + 1][: d - c])
            code = _line_code(was, is_now, system=system)
            if code not in seen:
                seen.add(code)
                yield Cause(code=code, message=index, line=c + line + 1, detail=f"{was[:200]!r} -> {is_now[:200]!r}")


def _line_code(was: str, now: str, *, system: bool) -> Code:
    if ANTHROPIC_PREAMBLE.pattern.match(was) or ANTHROPIC_PREAMBLE.pattern.match(now):
        return "billing_header"
    if was != now and _DATE.search(was) and _DATE.search(now) and _DIGITS.sub("0", was) == _DIGITS.sub("0", now):
        return "date_line"
    return "system_edited" if system else "history_edited"


def _turn(index: int, one: Sequence[Segment], other: Sequence[Segment], *, is_reply: bool) -> Iterator[Cause]:
    """What a client did to a turn. Calls and texts are compared in their order; reasoning by what is left of it."""
    visible = [s for s in one if not isinstance(s, ReasoningSegment) and _shown(s)]
    returned = [s for s in other if not isinstance(s, ReasoningSegment)]
    thought, told = _reasoning(one), _reasoning(other)
    if thought and told != thought:
        pieces = {segment.text for segment in one if isinstance(segment, ReasoningSegment)}
        kept = all(segment.text in pieces or not segment.text for segment in other if isinstance(segment, ReasoningSegment))
        reason: Code = "reasoning_dropped" if kept else "history_edited"
        yield Cause(code=reason, message=index, detail=f"{len(thought)} characters of reasoning -> {len(told)}")
    if [type(s) for s in visible] != [type(s) for s in returned]:
        order: Code = "turn_rewritten" if is_reply or sorted(map(repr, visible)) == sorted(map(repr, returned)) else "history_edited"
        yield Cause(code=order, message=index)
        return
    for block, (was, now) in enumerate(zip(visible, returned, strict=True)):
        if isinstance(was, CallSegment) and isinstance(now, CallSegment):
            if was.arguments != now.arguments:
                code: Code = "arguments_respelled" if same_json(was.arguments, now.arguments) else "history_edited"
                yield Cause(code=code, message=index, block=block, detail=f"{was.arguments[:200]!r} -> {now.arguments[:200]!r}")
        elif not same(was, now):
            yield from (msgspec.structs.replace(cause, block=block) for cause in _text(index, _plain(was), _plain(now), system=False))


def _shown(segment: Segment) -> bool:
    return segment.status != "truncated" if isinstance(segment, CallSegment) else bool(_plain(segment).strip())


def _plain(segment: Segment) -> str:
    return segment.text if isinstance(segment, TextSegment | ReasoningSegment) else segment.arguments


def _reasoning(segments: Sequence[Segment]) -> str:
    return "".join(segment.text for segment in segments if isinstance(segment, ReasoningSegment))
