"""What chat templates refuse, met: a conversation is brought into the form that a template takes, and nothing is left out. Each rule
acts only where the template's abilities ask for it; docs/templates.md lists them.

Conversations that grow at their end stay prefixes of each other: no rule looks at what follows the place where it acts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from antiphon_tokenizers.probe import Abilities
from antiphon_turns import AssistantMessage, CallSegment, Message, ToolMessage
from antiphon_turns.ids import fold

BLANK_LINE = "\n\n"
STAND_IN = "Continue."
"""User text where a template demands a user and the conversation has none."""


class Entry(NamedTuple):
    """A message for the template, and the index of the client's message that it comes from. `spoken`: it is no result in a user's
    clothes."""

    message: dict[str, Any]
    origin: int
    spoken: bool = True

    @property
    def role(self) -> str:
        """The role the template sees."""
        return str(self.message["role"])


def user(text: str, origin: int) -> Entry:
    """A user message."""
    return Entry({"role": "user", "content": text}, origin)


def in_call_order(messages: Sequence[Message]) -> list[Message]:
    """Results that follow each other in the order of their calls: models read them so, whichever ended first. Results of unknown
    calls stay behind those of known ones."""
    found: list[Message] = []
    places: dict[str, int] = {}
    for is_tool, group in groupby(messages, lambda message: isinstance(message, ToolMessage)):
        members = list(group)
        if is_tool and places:
            members.sort(key=lambda message: places.get(fold(message.call_id), len(places)) if isinstance(message, ToolMessage) else 0)
        elif not is_tool:
            last = members[-1]
            calls = [s.call_id for s in last.segments if isinstance(s, CallSegment)] if isinstance(last, AssistantMessage) else []
            places = {fold(call_id): place for place, call_id in enumerate(calls)}
        found += members
    return found


def answers_call(messages: Sequence[Message], index: int) -> bool:
    """Whether the results that begin at `index` follow a turn with a whole call."""
    before = messages[index - 1] if index else None
    return isinstance(before, AssistantMessage) and any(isinstance(s, CallSegment) and s.status != "truncated" for s in before.segments)


def is_answered(messages: Sequence[Message], index: int) -> bool:
    """Whether results follow the turn at `index`."""
    return index + 1 < len(messages) and isinstance(messages[index + 1], ToolMessage)


def normalise(entries: Iterable[Entry], abilities: Abilities) -> list[Entry]:
    """The entries in the form the template takes."""
    rules: tuple[tuple[bool, Callable[[Iterable[Entry]], Iterator[Entry]]], ...] = (
        (not abilities.opens_without_user, _opened_by_user),
        (not abilities.user_behind_result, lambda found: _bridged(found, abilities.bridge)),
        (not abilities.consecutive_assistants, _answered_by_user),
        (not abilities.consecutive_users, lambda found: _joined(found, "user")),
        (not abilities.consecutive_systems, lambda found: _joined(found, "system")),
    )
    found: Iterable[Entry] = entries
    for needed, rule in rules:
        if needed:
            found = rule(found)
    return list(found)


def _opened_by_user(entries: Iterable[Entry]) -> Iterator[Entry]:
    """For templates that demand a user's text: compacted and system-only conversations may have none."""
    opened, origin = False, 0
    for entry in entries:
        if not opened and entry.role != "system":
            opened = True
            if entry.role != "user" or not entry.spoken:
                yield user(STAND_IN, entry.origin)
        origin = entry.origin
        yield entry
    if not opened:
        yield user(STAND_IN, origin)


def _bridged(entries: Iterable[Entry], bridge: str | None) -> Iterator[Entry]:
    """For templates that want a turn of the model between a result and a user's text. Where none is accepted the text is joined to
    the result."""
    before: Entry | None = None
    for entry in entries:
        if before is not None and before.role == "tool" and entry.role == "user":
            if bridge is None:
                before = Entry(
                    {**before.message, "content": before.message["content"] + BLANK_LINE + entry.message["content"]}, before.origin
                )
                continue
            yield before
            before = Entry({"role": "assistant", "content": bridge}, entry.origin)
        if before is not None:
            yield before
        before = entry
    if before is not None:
        yield before


def _answered_by_user(entries: Iterable[Entry]) -> Iterator[Entry]:
    """For templates that want roles to alternate: a user's text between two turns of the model."""
    before = ""
    for entry in entries:
        if before == entry.role == "assistant":
            yield user(STAND_IN, entry.origin)
        yield entry
        before = entry.role


def _joined(entries: Iterable[Entry], role: str) -> Iterator[Entry]:
    """For templates that want neighbours to differ: texts of one role in a row are one."""
    for found, group in groupby(entries, lambda entry: entry.role):
        members = list(group)
        if found == role:
            text = BLANK_LINE.join(member.message["content"] for member in members)
            yield Entry({"role": role, "content": text}, members[-1].origin)
        else:
            yield from members
