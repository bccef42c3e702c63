"""From a turn request to prompt pieces and the opening."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from antiphon_tokenizers.escape import Markers, StandIns, client_strings, escape_message, escape_tool, template_tool
from antiphon_tokenizers.history import calls_before, in_call_order, kept_since, replayed, with_native_ids
from antiphon_tokenizers.jsontext import FixedObject
from antiphon_tokenizers.messages import natural_turn, template_messages
from antiphon_tokenizers.probe import call_message
from antiphon_tokenizers.splice import Spliced, splice
from antiphon_tokenizers.template import ChatTemplate
from antiphon_tokenizers.tokenizer import Tokenizer
from antiphon_turns import (
    Anomaly,
    AssistantMessage,
    CallSegment,
    Family,
    Message,
    ReasoningSegment,
    Segment,
    Tool,
    ToolMessage,
    TurnRequest,
    TurnWriter,
)
from antiphon_turns.errors import InvalidRequest


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt before encoding. `pieces`: an int is a trusted control token's id, a str is text that is never control; a
    past turn begins a piece where the model once began to speak, so that no token spans that place (I9). `opening` is
    the text behind the last trusted assistant header, as the model sees it. `text` is the whole prompt."""

    pieces: tuple[int | str, ...]
    opening: str
    text: str
    anomalies: tuple[Anomaly, ...] = ()


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
        self._frame_plain = self._probe_frame(_PLAIN)
        with_calls = self._probe_frame(_WITH_CALLS)
        without = self._probe_frame(_WITHOUT_CALLS)
        self._frame_calls = without is not None or with_calls is not None
        # A template that needs to see a turn's calls to render their results is shown them.
        self._show_calls = without is None or (with_calls is not None and with_calls != without)

    def render(self, request: TurnRequest) -> Rendered:
        """The prompt of a request. Raises InvalidRequest when the template refuses the conversation, a template
        variable is not open to clients, or a schema is not JSON."""
        stand_ins = StandIns(self._markers, *client_strings(request), avoid=self._avoid)
        # Deferred tools reach the prompt where a result refers to them, so that the head does not move.
        offered = request.tool_choice.mode != "none"
        tools = tuple(tool for tool in request.tools if not tool.deferred) if offered else ()
        native, tool_list = self._tool_forms(tools, stand_ins)
        escaped = [escape_message(message, stand_ins) for message in request.messages]
        messages = with_native_ids(in_call_order(escaped), self._writer)
        last = messages[-1] if messages else None
        prefill = last if isinstance(last, AssistantMessage) else None
        variables = self._variables(request, stand_ins)
        history = messages if prefill is None else messages[:-1]
        seam = stand_ins.reserve() if any(isinstance(message, AssistantMessage) for message in history) else ""
        past = _Past(history, native, tool_list, seam)
        spliced, anomalies = self._conversation(past, variables, stand_ins)
        text, start = self._open(spliced, anomalies)
        opening = text[start:]
        if prefill is not None:
            opening = self._closed_opening(prefill, past, request, stand_ins) + self._writer.write(
                prefill.segments, earlier_calls=calls_before(messages)[-1]
            )
        # What the template opens a turn with now, it has opened the past ones with.
        seam, opened = past.seam, text[start:]
        text = (text[:start].replace(seam + opened, opened + seam) if seam else text[:start]) + opening
        return Rendered(
            pieces=tuple(self._pieces(text, seam, stand_ins)),
            opening=stand_ins.unescape(opening),
            text=stand_ins.unescape(text.replace(seam, "") if seam else text),
            anomalies=tuple(anomalies),
        )

    def _pieces(self, text: str, seam: str, stand_ins: StandIns) -> Iterator[int | str]:
        for place, piece in enumerate(self._tokenizer.split(text)):
            if place % 2:
                yield self._tokenizer.control_tokens[piece]
            else:
                yield from (stand_ins.unescape(part) for part in (piece.split(seam) if seam else (piece,)) if part)

    def _variables(self, request: TurnRequest, stand_ins: StandIns, *, thinking: str | None = None) -> dict[str, Any]:
        switches = self._family.switches
        refused = sorted(set(request.template_kwargs) - switches.allowed)
        if refused:
            allowed = ", ".join(sorted(switches.allowed)) or "none"
            message = f"chat_template_kwargs that are not open to clients here: {', '.join(refused)} (open: {allowed})"
            raise InvalidRequest(message, param="chat_template_kwargs")
        modes = {"on": switches.thinking_on, "off": switches.thinking_off, "default": {}}
        if _deeper_than(_VARIABLE_DEPTH, request.template_kwargs):
            raise InvalidRequest("chat_template_kwargs: nested too deeply", param="chat_template_kwargs")
        client = stand_ins.escape_whole(request.template_kwargs)
        if thinking is not None:
            return {**switches.agent, **client, **modes[thinking]}
        return {**switches.agent, **modes[request.thinking.mode], **client}

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
        segments = replayed(past.messages, self._family.replay)
        turns = [index for index, message in enumerate(past.messages) if isinstance(message, AssistantMessage)]
        mark = stand_ins.reserve() if turns else ""
        slots = {index: f"{mark}{index}{mark}" for index in turns if self._has_frame(segments[index])}
        lead = self._no_reasoning(variables) if turns else ""
        since = kept_since(past.messages, self._family.replay)
        numbers = calls_before(past.messages)
        written = {
            slot: past.seam
            + self._before(past, index, segments[index], lead if index > since else self._family.replay.empty_block)
            + self._writer.write(segments[index], earlier_calls=numbers[index])
            for index, slot in slots.items()
        }
        while True:
            text = self._render(past, segments, slots, variables)
            spliced = splice(text, {slot: written[slot] for slot in slots.values()}, self._family.frame)
            if not spliced.missing:
                break
            # The template's own text stands for these: once more, with their content in place of the slots.
            slots = {index: slot for index, slot in slots.items() if slot not in spliced.missing}
        lost = [index for index in turns if index not in slots]
        return spliced, [Anomaly("frame_not_found", f"assistant turn at message {index}") for index in lost]

    def _render(
        self, past: "_Past", segments: Sequence[tuple[Segment, ...]], slots: Mapping[int, str], variables: Mapping[str, Any]
    ) -> str:
        def assistant(index: int) -> dict[str, Any]:
            if index in slots:
                shown = segments[index] if self._show_calls else ()
                return natural_turn(shown, self._template.abilities, content=slots[index])
            return natural_turn(segments[index], self._template.abilities)

        messages = template_messages(
            past.messages, abilities=self._template.abilities, writer=self._writer, tool_list=past.tool_list, assistant=assistant
        )
        return self._template.render(messages, past.tools, **{**variables, "add_generation_prompt": True})

    def _open(self, spliced: Spliced, anomalies: list[Anomaly]) -> tuple[str, int]:
        """(text, place behind the last assistant header). Only a header behind the last past turn opens a new one."""
        text = spliced.text
        if not self._template.abilities.generation_prompt:
            text += self._family.frame.assistant_header
        start = self._family.frame.header_end(text, spliced.end)
        if start >= 0:
            return text, start
        anomalies.append(Anomaly("frame_not_found", "the template opens no assistant turn with the family's header"))
        return text, len(text)

    def _closed_opening(self, prefill: AssistantMessage, past: "_Past", request: TurnRequest, stand_ins: StandIns) -> str:
        """What stands between header and prefill: a turn that brings no reasoning continues behind the template's
        own "no reasoning" opening, whatever the thinking mode."""
        if not self._family.switches.thinking_off or any(isinstance(s, ReasoningSegment) for s in prefill.segments):
            return ""
        variables = self._variables(request, stand_ins, thinking="off")
        spliced, anomalies = self._conversation(past, variables, stand_ins)
        text, start = self._open(spliced, anomalies)
        return self._closed(text[start:])

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
            known = self._closed(self._opening_alone(off) or now) if now else ""
            if len(self._leads) >= _KEPT_LEADS:
                self._leads.clear()
            self._leads[key] = known
        return known

    def _closed(self, opening: str) -> str:
        """The opening with its reasoning block closed, for templates that open one whatever they are told."""
        before, _, behind = self._writer.write((ReasoningSegment("qzthought"),)).partition("qzthought")
        opener, closer = before.strip(), behind.strip()
        is_open = opener and closer and opening.rfind(opener) > opening.rfind(closer)
        return opening + behind.lstrip("\n") if is_open else opening

    def _opening_alone(self, variables: dict[str, Any]) -> str:
        try:
            text = self._template.render([{"role": "user", "content": "qzuser1"}], None, **variables, add_generation_prompt=True)
        except InvalidRequest:
            return ""
        _, header, opening = text.rpartition(self._family.frame.assistant_header)
        return opening if header else ""

    def _before(self, past: "_Past", index: int, segments: Sequence[Segment], opening: str) -> str:
        """The opening, where the turn has a header and begins with anything but reasoning."""
        behind_result = index > 0 and isinstance(past.messages[index - 1], ToolMessage)
        has_header = not (self._family.frame.result_ends and behind_result)
        return opening if has_header and not _reasons_first(segments) else ""

    def _has_frame(self, segments: Sequence[Segment]) -> bool:
        calls = any(isinstance(segment, CallSegment) for segment in segments)
        return self._frame_calls if calls else self._frame_plain is not None

    def _probe_frame(self, conversation: Sequence[dict[str, Any]]) -> str | None:
        """The conversation with its two slots replaced, or None when the frame does not hold them and nothing else."""
        role = "tool" if self._template.accepts_tool_role else "user"
        messages = [{**message, "role": role} if message["role"] == "tool" else message for message in conversation]
        try:
            text = self._template.render(messages, None, **self._family.switches.agent, add_generation_prompt=True)
        except InvalidRequest:
            return None
        spliced = splice(text, {"qzslot1": "qzturn1", "qzslot2": "qzturn2"}, self._family.frame)
        places = [spliced.text.find(word) for word in ("qzuser1", "qzturn1", "qzresult", "qzturn2", "qzuser2")]
        return spliced.text if not spliced.missing and places[0] >= 0 and places == sorted(places) else None


class _Past(msgspec.Struct, frozen=True):
    """What stands before the turn that is asked for, escaped. At most one of `tools` and `tool_list` is set. `seam` is the
    character that is put where past turns begin."""

    messages: list[Message]
    tools: list[FixedObject] | None
    tool_list: str | None
    seam: str


_VARIABLE_DEPTH = 32


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


def _probe_conversation(turn: dict[str, Any], result_role: str) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "qzuser1"},
        {**turn, "content": "qzslot1"},
        {"role": result_role, "content": "qzresult", "tool_call_id": "callqzid1", "name": "qztool"},
        {"role": "assistant", "content": "qzslot2"},
        {"role": "user", "content": "qzuser2"},
    ]


_PLAIN = _probe_conversation({"role": "assistant"}, "user")
_WITHOUT_CALLS = _probe_conversation({"role": "assistant"}, "tool")
_WITH_CALLS = _probe_conversation(call_message({"qzkey": "qzvalue"}), "tool")
