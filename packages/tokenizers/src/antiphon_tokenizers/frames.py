"""Where a template lets a past turn be found: as the content of an assistant message, or as the arguments of a call."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from antiphon_tokenizers.messages import slotted_call, slotted_turn
from antiphon_tokenizers.normalise import Entry, normalise, user
from antiphon_tokenizers.splice import splice
from antiphon_tokenizers.template import ChatTemplate
from antiphon_turns import CallSegment, Frame, Segment
from antiphon_turns.errors import InvalidRequest

_CALL = (CallSegment("qztool", '{"qzkey": "qzvalue"}', "callqzid1"),)
_SLOTS = ("qzslot1", "qzslot2")


class Frames(msgspec.Struct, frozen=True):
    """`plain`: turns without calls can be found. `calls`: how turns with calls can be: with a slot as content beside their calls or
    without these, or with one as the arguments; None: not at all."""

    plain: bool
    calls: Literal["content", "content and calls", "arguments"] | None

    def has_slot(self, segments: Sequence[Segment], *, answered: bool) -> bool:
        """Whether a turn of these segments can be found. Calls that no result answers need not be shown as such."""
        return self.calls is not None if answered and _has_call(segments) else self.plain

    def message(self, segments: Sequence[Segment], slot: str, template: ChatTemplate, *, answered: bool) -> dict[str, Any]:
        """The message that shows a turn as a slot."""
        shown = segments if answered and _has_call(segments) else ()
        if self.calls == "arguments" and shown:
            return slotted_call(shown, slot, template.abilities)
        return slotted_turn(shown, slot, template.abilities, shows_calls=self.calls == "content and calls")


def probe_frames(template: ChatTemplate, frame: Frame, variables: Mapping[str, Any]) -> Frames:
    """Renders a conversation with slots in each way. A way serves if everything stands in order and no call beside its slot: what the
    template itself writes of one would be there twice."""

    def spliced(turn: dict[str, Any], role: str) -> str | None:
        role = role if template.accepts_tool_role else "user"
        entries = [
            user("qzuser1", 0),
            Entry(turn, 1),
            Entry({"role": role, "content": "qzresult", "tool_call_id": "callqzid1", "name": "qztool"}, 2),
            Entry({"role": "assistant", "content": _SLOTS[1]}, 3),
            user("qzuser2", 4),
        ]
        messages = [entry.message for entry in normalise(entries, template.abilities)]
        try:
            text = template.render(messages, None, **variables, add_generation_prompt=True)
        except InvalidRequest:
            return None
        found = splice(text, dict(zip(_SLOTS, ("qzturn1", "qzturn2"), strict=True)), frame)
        places = [found.text.find(word) for word in ("qzuser1", "qzturn1", "qzresult", "qzturn2", "qzuser2")]
        in_order = places[0] >= 0 and places == sorted(set(places))
        return found.text if in_order and not found.missing and "qzvalue" not in found.text else None

    abilities = template.abilities
    plain = spliced(slotted_turn((), _SLOTS[0], abilities, shows_calls=False), "user")
    without = spliced(slotted_turn(_CALL, _SLOTS[0], abilities, shows_calls=False), "tool") if abilities.lone_results else None
    beside = spliced(slotted_turn(_CALL, _SLOTS[0], abilities, shows_calls=True), "tool")
    if without is not None and beside in (None, without):
        return Frames(plain is not None, "content")
    if beside is not None:
        return Frames(plain is not None, "content and calls")
    inside = spliced(slotted_call(_CALL, _SLOTS[0], abilities), "tool")
    return Frames(plain is not None, "arguments" if inside is not None else None)


def _has_call(segments: Sequence[Segment]) -> bool:
    return any(isinstance(segment, CallSegment) and segment.status != "truncated" for segment in segments)
