"""From a turn request to prompt pieces and the opening."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from antiphon_tokenizers.escape import Markers, StandIns, client_strings, escape_message, escape_tool, template_tool
from antiphon_tokenizers.frames import probe_frames
from antiphon_tokenizers.history import calls_before, kept_since, policy_of, replayed, with_native_ids
from antiphon_tokenizers.jsontext import FixedObject
from antiphon_tokenizers.messages import natural_turn, template_messages
from antiphon_tokenizers.normalise import Entry, in_call_order, is_answered
from antiphon_tokenizers.probe import Abilities
from antiphon_tokenizers.replay import Restored, Slots, restore, sampled_first, without_reasoning, woven
from antiphon_tokenizers.splice import Spliced, splice
from antiphon_tokenizers.template import ChatTemplate, TemplateRefusal
from antiphon_tokenizers.tokenizer import Tokenizer
from antiphon_turns import (
    Anomaly,
    AssistantMessage,
    CallSegment,
    Family,
    Message,
    ReasoningSegment,
    Segment,
    TextSegment,
    Tool,
    ToolMessage,
    TurnRequest,
    TurnWriter,
    UserMessage,
)
from antiphon_turns.effort import thinking_variables
from antiphon_turns.errors import InvalidRequest
from antiphon_turns.replay import TurnRecord


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt before encoding. `pieces`: an int is a trusted control token's id, a str is text that is never control, a tuple
    holds ids as they were sampled; a past turn begins a piece where the model once began to speak, so that no token spans
    that place (I9). `opening` is the text behind the last trusted assistant header, as the model sees it. `spell` gives the text of
    ids. `exact` are the messages that all of their record's ids stand for."""

    pieces: tuple[int | str | tuple[int, ...], ...]
    opening: str
    spell: Callable[[Sequence[int]], str]
    anomalies: tuple[Anomaly, ...] = ()
    exact: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The whole prompt. Made anew each time: only people need it."""
        ids = ((piece,) if isinstance(piece, int) else piece for piece in self.pieces)
        return "".join(piece if isinstance(piece, str) else self.spell(piece) for piece in ids)


class Renderer:
    """Renders requests for one model: its template, its tokenizer's control tokens, its family's frame and writer.

    Pure: equal requests give equal prompts (but for a template that prints the time). Safe to call from several threads.
    """

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer, *, family: Family, writer: TurnWriter) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._family = family
        self._writer = writer
        frame = family.frame
        self._markers = Markers(
            tokenizer.control_tokens, (*family.markers, *frame.stop_tokens, *frame.result_ends, frame.assistant_header, frame.end_of_turn)
        )
        self._avoid = template.text + self._markers.joined
        self._tools: dict[tuple[Tool, ...], tuple[tuple[tuple[str, str], ...], list[FixedObject]]] = {}
        self._leads: dict[bytes, str] = {}
        self._frames = probe_frames(template, frame, family.switches.agent)
        self._opens_behind_results = bool(frame.result_ends) and bool(self._opening_alone(dict(family.switches.agent), behind_result=True))

    @property
    def abilities(self) -> Abilities:
        """What the template can do."""
        return self._template.abilities

    def render(self, request: TurnRequest, records: Mapping[int, TurnRecord] | None = None) -> Rendered:
        """The prompt of a request. `records`: by message index, what is known to have been sampled for a past turn. Raises
        InvalidRequest when the template refuses the conversation, a template variable is not open to clients, or a schema is not JSON."""
        request, restored = restore(request, records or {})
        stand_ins = StandIns(self._markers, *client_strings(request), avoid=self._avoid)
        # Deferred tools reach the prompt where a result refers to them, so that the head does not move.
        offered = request.tool_choice.mode != "none"
        tools = tuple(tool for tool in request.tools if not tool.deferred) if offered else ()
        native, tool_list = self._tool_forms(tools, stand_ins)
        messages = in_call_order(with_native_ids([escape_message(message, stand_ins) for message in request.messages], self._writer))
        last = messages[-1] if messages else None
        prefill = last if isinstance(last, AssistantMessage) else None
        variables = self._variables(request, stand_ins)
        history = messages if prefill is None else messages[:-1]
        seam = stand_ins.reserve() if any(isinstance(message, AssistantMessage) for message in history) else ""
        slots = Slots(stand_ins.reserve() if restored else "")
        since = kept_since(history, policy_of(request, self._family.replay), request.replay)
        past = _Past(history, native, tool_list, seam, restored, slots, stand_ins.unescape, since)
        spliced, anomalies = self._conversation(past, variables, stand_ins)
        text, start = self._open(spliced, anomalies)
        opening = text[start:]
        if prefill is not None:
            opening = self._closed_opening(prefill, past, request, stand_ins)
            opening += self._prefilled(prefill.segments, calls_before(messages)[-1], stand_ins)
        # What the template opens a turn with now, it has opened the past ones with.
        seam, opened = past.seam, text[start:]
        text = (text[:start].replace(seam + opened, opened + seam) if seam and opened else text[:start]) + opening
        return Rendered(
            pieces=tuple(self._pieces(text, past, stand_ins)),
            opening=stand_ins.unescape(opening),
            spell=self._decode,
            anomalies=tuple(anomalies),
            exact=tuple(index for index, turn in restored.items() if turn.spans == turn.record.spans()),
        )

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids))

    def _pieces(self, text: str, past: "_Past", stand_ins: StandIns) -> Iterator[int | str | tuple[int, ...]]:
        for place, piece in enumerate(self._tokenizer.split(text)):
            if place % 2:
                yield self._tokenizer.control_tokens[piece]
                continue
            for part in past.slots.parts(piece):
                if isinstance(part, tuple):
                    yield part
                else:
                    yield from (stand_ins.unescape(run) for run in (part.split(past.seam) if past.seam else (part,)) if run)

    def _variables(self, request: TurnRequest, stand_ins: StandIns, *, off: bool = False) -> dict[str, Any]:
        """What the template is told. `off`: whatever the client says, the turn shall not think."""
        switches = self._family.switches
        refused = sorted(set(request.template_kwargs) - switches.allowed)
        if refused:
            allowed = ", ".join(sorted(switches.allowed)) or "none"
            named = ", ".join(name[:_NAME_SHOWN] for name in refused[:_NAMES_SHOWN])
            message = f"chat_template_kwargs that are not open to clients here: {named} (open: {allowed})"
            raise InvalidRequest(message, param="chat_template_kwargs")
        if _deeper_than(_VARIABLE_DEPTH, request.template_kwargs):
            raise InvalidRequest("chat_template_kwargs: nested too deeply", param="chat_template_kwargs")
        client = stand_ins.escape_whole(request.template_kwargs)
        told = thinking_variables(request.thinking, switches)
        return {**switches.agent, **told, **client, **(switches.thinking_off if off else {})}

    def _tool_forms(self, tools: tuple[Tool, ...], stand_ins: StandIns) -> tuple[list[FixedObject] | None, str | None]:
        """(tools for the template, tools as system text): at most one of the two."""
        if not tools:
            return None, None
        if not self._template.renders_tools:
            return None, self._writer.tool_list([escape_tool(tool, stand_ins) for tool in tools])
        known = self._tools.get(tools)
        if known is not None and stand_ins.adopt(known[0]):
            return known[1], None
        forms = [template_tool(tool, stand_ins) for tool in tools]
        if len(self._tools) >= _KEPT_TOOL_LISTS:
            self._tools.clear()
        self._tools[tools] = stand_ins.pairs, forms
        return forms, None

    def _conversation(self, past: "_Past", variables: dict[str, Any], stand_ins: StandIns) -> tuple[Spliced, list[Anomaly]]:
        """The rendered history with the generation prompt, past turns in the writer's text."""
        segments = replayed(past.messages, past.since)
        turns = [index for index, message in enumerate(past.messages) if isinstance(message, AssistantMessage)]
        mark = stand_ins.reserve() if turns else ""
        slots = {
            index: f"{mark}{index}{mark}"
            for index in turns
            if self._frames.has_slot(segments[index], answered=is_answered(past.messages, index))
        }
        lead = self._no_reasoning(variables) if turns else ""
        numbers = calls_before(past.messages)
        written = {}
        for index, slot in slots.items():
            kept = index > past.since
            turn = past.restored.get(index)
            if turn is not None and not kept:
                turn = without_reasoning(turn, _segments(past.messages[index]))
            write = partial(self._writer.write, earlier_calls=numbers[index])
            if turn is not None and sampled_first(turn):
                written[slot] = turn.record.opening + self._woven(turn, segments[index], write, past.slots)
                continue
            before = self._before(past, index, segments[index], lead if kept else self._family.replay.empty_block)
            body = write(segments[index]) if turn is None else self._woven(turn, segments[index], write, past.slots)
            written[slot] = past.seam + before + body
        while True:
            text = self._render(past, segments, slots, variables)
            spliced = splice(text, {slot: written[slot] for slot in slots.values()}, self._family.frame)
            if not spliced.missing:
                break
            # The template's own text stands for these: once more, with their content in place of the slots.
            slots = {index: slot for index, slot in slots.items() if slot not in spliced.missing}
        lost = [index for index in turns if index not in slots]
        return spliced, [Anomaly("frame_not_found", f"assistant turn at message {index}") for index in lost]

    def _woven(self, turn: Restored, segments: Sequence[Segment], write: Callable[[Sequence[Segment]], str], slots: Slots) -> str:
        frame = self._family.frame
        return woven(turn, segments, write=write, slot=slots.put, decode=self._decode, ends=(frame.end_of_turn, *frame.stop_tokens))

    def _render(
        self, past: "_Past", segments: Sequence[tuple[Segment, ...]], slots: Mapping[int, str], variables: Mapping[str, Any]
    ) -> str:
        def assistant(index: int) -> dict[str, Any]:
            if index in slots:
                answered = is_answered(past.messages, index)
                return self._frames.message(segments[index], slots[index], self._template, answered=answered)
            return natural_turn(segments[index], abilities, writer=self._writer, earlier_calls=numbers[index])

        abilities = self._template.abilities
        numbers = calls_before(past.messages)
        entries = template_messages(past.messages, abilities=abilities, writer=self._writer, tool_list=past.tool_list, assistant=assistant)
        settings = {**variables, "add_generation_prompt": True}
        try:
            return self._template.render([entry.message for entry in entries], past.tools, **settings)
        except TemplateRefusal as refusal:
            raise self._located(refusal, entries, past, settings) from refusal

    def _located(self, refusal: TemplateRefusal, entries: Sequence[Entry], past: "_Past", settings: Mapping[str, Any]) -> InvalidRequest:
        """The refusal with the message it is about: the last one of the shortest beginning that is refused with the same words."""

        def refused(size: int) -> bool:
            try:
                self._template.render([entry.message for entry in entries[:size]], past.tools, **settings)
            except TemplateRefusal as other:
                return other.detail == refusal.detail
            except InvalidRequest:
                return False
            return False

        size = bisect_left(range(len(entries)), 1, key=lambda place: int(refused(place + 1)))
        culprit = entries[min(size, len(entries) - 1)] if entries else Entry({"role": "none"}, 0)
        where = f"at message {culprit.origin} (role {culprit.role}; counted from 0, system text included)"
        detail = past.unescape(refusal.detail)
        return InvalidRequest(f"the model's chat template refuses this conversation {where}: {detail}", param="messages")

    def _open(self, spliced: Spliced, anomalies: list[Anomaly]) -> tuple[str, int]:
        """(text, place behind the last assistant header). Only a header behind the last past turn opens a new one."""
        text = spliced.text
        frame = self._family.frame
        # Where a user's text or a result ends with what opens a turn, nothing is left to open.
        opened = text.endswith((frame.assistant_header, *frame.result_ends)) and len(text) > spliced.end
        if not self._template.abilities.generation_prompt and not opened:
            text += frame.assistant_header
        start = self._family.frame.header_end(text, spliced.end)
        if start >= 0:
            return text, start
        anomalies.append(Anomaly("frame_not_found", "the template opens no assistant turn with the family's header"))
        return text, len(text)

    def _prefilled(self, segments: Sequence[Segment], earlier_calls: int, stand_ins: StandIns) -> str:
        """The writer's text of a turn that goes on; text at its end stays open, though the format would close it."""
        last = segments[-1] if segments else None
        if not isinstance(last, TextSegment):
            return self._writer.write(segments, earlier_calls=earlier_calls)
        mark = stand_ins.reserve()
        marked = (*segments[:-1], msgspec.structs.replace(last, text=last.text + mark))
        return self._writer.write(marked, earlier_calls=earlier_calls).partition(mark)[0]

    def _closed_opening(self, prefill: AssistantMessage, past: "_Past", request: TurnRequest, stand_ins: StandIns) -> str:
        """What stands between header and prefill: a turn that brings no reasoning continues behind the template's
        own "no reasoning" opening, whatever the thinking mode."""
        if not self._family.switches.thinking_off or any(isinstance(s, ReasoningSegment) for s in prefill.segments):
            return ""
        variables = self._variables(request, stand_ins, off=True)
        spliced, anomalies = self._conversation(past, variables, stand_ins)
        text, start = self._open(spliced, anomalies)
        return self._unthinking(text[start:], "")

    def _no_reasoning(self, variables: dict[str, Any]) -> str:
        """What stands before the first word of a turn without reasoning, where the template opens turns with anything
        at all: the prompt that was sampled from held it."""
        if not self._family.switches.thinking_off:
            return ""
        key = msgspec.json.encode(variables)
        known = self._leads.get(key)
        if known is None:
            off = {**variables, **self._family.switches.thinking_off}
            now = self._opening_alone(variables)
            known = self._unthinking(self._opening_alone(off), now) if now else ""
            if len(self._leads) >= _KEPT_LEADS:
                self._leads.clear()
            self._leads[key] = known
        return known

    def _unthinking(self, off: str, now: str) -> str:
        """What stands before a turn without reasoning, of the openings with thinking off and as asked for."""
        if off and self._writer.write((TextSegment("qzreply"),)).startswith(off):
            # The opening of the text itself, which the writer brings.
            return self._closed(now) if now != off else ""
        return self._closed(off or now)

    def _closed(self, opening: str) -> str:
        """The opening with its reasoning block closed, for templates that open one whatever they are told."""
        before, _, behind = self._writer.write((ReasoningSegment("qzthought"),)).partition("qzthought")
        opener, closer = before.strip(), behind.strip()
        is_open = opener and closer and opening.rfind(opener) > opening.rfind(closer)
        return opening + behind.lstrip("\n") if is_open else opening

    def _opening_alone(self, variables: dict[str, Any], *, behind_result: bool = False) -> str:
        """What the template opens a turn with behind a user's text, or behind a result."""
        call = CallSegment("qztool", '{"qzkey": "qzvalue"}', "callqzid1")
        said: list[Message] = [UserMessage("qzuser1")]
        said += [AssistantMessage((call,)), ToolMessage("callqzid1", "qzresult")] if behind_result else []
        past = _Past(said, None, None, "", {}, Slots(""), str, -1)
        try:
            text = self._render(past, [_segments(message) for message in said], {}, variables)
        except InvalidRequest:
            return ""
        start = self._family.frame.header_end(text, max(text.rfind("qzresult"), 0))
        return text[start:] if start >= 0 else ""

    def _before(self, past: "_Past", index: int, segments: Sequence[Segment], opening: str) -> str:
        """The opening, where the turn has a header and begins with anything but reasoning."""
        behind_result = index > 0 and isinstance(past.messages[index - 1], ToolMessage)
        opens = self._opens_behind_results or not (self._family.frame.result_ends and behind_result)
        return opening if opens and not _reasons_first(segments) else ""


class _Past(msgspec.Struct, frozen=True):
    """What stands before the turn that is asked for, escaped. At most one of `tools` and `tool_list` is set. `seam` is the
    character that is put where past turns begin. `restored`: by message index, the turns whose sampled ids are known. Turns behind
    message `since` keep their reasoning."""

    messages: list[Message]
    tools: list[FixedObject] | None
    tool_list: str | None
    seam: str
    restored: dict[int, Restored]
    slots: Slots
    unescape: Callable[[str], str]
    since: int


def _segments(message: Message) -> tuple[Segment, ...]:
    return message.segments if isinstance(message, AssistantMessage) else ()


_VARIABLE_DEPTH = 32
_NAMES_SHOWN = 8
_NAME_SHOWN = 64


def _deeper_than(depth: int, value: Any) -> bool:
    """Whether containers lie more than `depth` deep in each other; level by level, so that no depth is too much for it."""
    level = [value]
    for _ in range(depth):
        level = [
            item for outer in level if isinstance(outer, dict | list) for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(item, dict | list) for item in level)


_KEPT_TOOL_LISTS = 64
_KEPT_LEADS = 64


def _reasons_first(segments: Sequence[Segment]) -> bool:
    return bool(segments) and isinstance(segments[0], ReasoningSegment)
