"""Second half of ingest: a call and the items it goes on from become a `TurnRequest`."""

from collections.abc import Mapping, Sequence

import msgspec

from antiphon_protocols import body as wire_body
from antiphon_protocols.body import invalid, object_schema, refuse
from antiphon_protocols.responses import wire
from antiphon_protocols.responses.choice import read_choice
from antiphon_protocols.responses.compaction import SUMMARY_REQUEST
from antiphon_protocols.responses.envelope import Options
from antiphon_protocols.responses.history import REFERENCE, HistoryReader, OpenCompaction
from antiphon_protocols.responses.read import ResponsesCall
from antiphon_protocols.responses.tools import Toolbox, ToolMap
from antiphon_protocols.sampling import MAX_TOP_LOGPROBS
from antiphon_protocols.thinking import openai_thinking
from antiphon_turns.gate import ArgumentStreaming
from antiphon_turns.request import (
    Message,
    OutputFormat,
    ReplayWish,
    Sampling,
    SystemMessage,
    ToolChoice,
    TurnRequest,
    UserMessage,
)

LOGPROBS = "message.output_text.logprobs"

VERBOSITY = {
    "low": "Keep your answers to the user short: say what matters and leave the rest out.",
    "high": "Explain your answers to the user in full: the reasons, the details and what follows from them.",
}
"""How the wish for short or long answers is put to a model that has no switch for it. Medium is what models do unasked."""

_HEAD = msgspec.json.Decoder(wire.ItemHead)


class ResponsesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`truncation` "auto" allows the oldest part of the conversation to be left out when all of it does not fit (`shortened` does it).
    `input`: the new items as a store keeps them, those in it that were named by reference in full. `argument_streaming` is None unless
    the request asks."""

    turn: TurnRequest
    call: ResponsesCall
    input: tuple[msgspec.Raw, ...]
    tools: ToolMap
    truncation: str = "disabled"
    argument_streaming: ArgumentStreaming | None = None

    def options(self, *, response_id: str, created: int) -> Options:
        """What a projector of this request's answer needs. `created`: Unix time in seconds."""
        request = self.call.request
        reasoning = request.reasoning
        return Options(
            response_id=response_id,
            created=created,
            model=self.call.model,
            tools=self.tools,
            echo=self.call.echo,
            is_codex=self.call.is_codex,
            reasoning="text" if reasoning and (reasoning.summary or reasoning.generate_summary) == "none" else "summary",
            logprobs=LOGPROBS in self.call.include,
            store=self.call.store,
            background=self.call.background,
            fields=self.call.fields,
        )


def references(call: ResponsesCall) -> tuple[str, ...]:
    """Ids of stored items that the input names instead of holding them."""
    heads = (_HEAD.decode(item) for item in call.input)
    return tuple(head.id for head in heads if head.type == REFERENCE and head.id)


def ingest(
    call: ResponsesCall,
    *,
    past: Sequence[msgspec.Raw] = (),
    stored: Mapping[str, msgspec.Raw] | None = None,
    open_compaction: OpenCompaction,
) -> ResponsesRequest:
    """Makes the turn request. `past`: all items, input and output, of the responses that `previous_response_id` leads back to, oldest
    first. `stored`: items found for `references(call)`, by id. `open_compaction` gives the text of a compaction item of ours, None for
    any other. Raises InvalidRequest, UnsupportedFeature, or NotFound (an item reference that leads nowhere)."""
    request = call.request
    box = Toolbox(request.tools or ())
    reader = HistoryReader(box, open_compaction, stored or {})
    if isinstance(request.instructions, str):
        if request.instructions:
            reader.system(request.instructions)
    else:
        reader.read(request.instructions or (), "instructions")
    reader.read(past, "previous_response")
    reader.read(call.input, "input")
    messages = _with_verbosity(reader.messages(), request.text)
    if call.compacts:
        messages.append(UserMessage(SUMMARY_REQUEST))
    if not messages and call.generate:
        raise invalid("input", "at least one item is required")
    tools, choice = read_choice(request.tool_choice, box, parallel=request.parallel_tool_calls is not False)
    if call.compacts:
        # The tools stay, so that the prompt begins as those before it did; what the model calls is not shown.
        choice = ToolChoice(parallel=False)
    turn = TurnRequest(
        surface="responses",
        model=call.model,
        messages=tuple(messages),
        tools=tools,
        tool_choice=choice,
        output=None if call.compacts else _output_format(request.text),
        thinking=openai_thinking(request.reasoning.effort if request.reasoning else None, {}, request.nvext),
        replay=_replay(request.reasoning),
        sampling=_sampling(call),
        template_kwargs=request.chat_template_kwargs or {},
        stream=call.stream,
        ignored=(*call.ignored, *wire_body.safe_names([*box.ignored, *reader.ignored, *_no_effect(request)])),
        **call.advice.fields(),
    )
    nvext = request.nvext
    return ResponsesRequest(
        turn=turn,
        call=call,
        input=_resolved(call, stored or {}),
        tools=box.tool_map,
        truncation=request.truncation or "disabled",
        argument_streaming=nvext.argument_streaming if nvext else None,
    )


def _resolved(call: ResponsesCall, stored: Mapping[str, msgspec.Raw]) -> tuple[msgspec.Raw, ...]:
    """A reference that leads to no stored item leads to one the conversation holds already."""
    heads = ((item, _HEAD.decode(item)) for item in call.input)
    found = (stored.get(head.id or "") if head.type == REFERENCE else item for item, head in heads)
    return tuple(item for item in found if item is not None)


def _no_effect(request: wire.WireRequest) -> list[str]:
    """Wishes that are known and change nothing here."""
    mode = request.reasoning.mode if request.reasoning else None
    return ["reasoning.mode"] if mode not in (None, "standard") else []


def _with_verbosity(messages: list[Message], text: wire.WireText | None) -> list[Message]:
    """Behind the system text, so that the longest part of the prompt does not depend on it."""
    wish = VERBOSITY.get((text and text.verbosity) or "")
    if wish is None:
        return messages
    first = next((index for index, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    return [*messages[:first], SystemMessage(wish), *messages[first:]]


def _output_format(text: wire.WireText | None) -> OutputFormat | None:
    spec = text.format if text else None
    if spec is None or spec.type == "text":
        return None
    if spec.type == "json_object":
        return OutputFormat(name=spec.name)
    if spec.type != "json_schema":
        raise refuse("text.format", f"type {spec.type[:80]!r} is not supported, only 'text', 'json_object' and 'json_schema' are")
    schema = object_schema(spec.schema, "text.format.schema")
    if schema is None:
        raise invalid("text.format.schema", "Field required")
    return OutputFormat(schema=schema, name=spec.name)


_CONTEXTS: dict[str, ReplayWish] = {"all_turns": ReplayWish(turns="all"), "current_turn": ReplayWish(turns="current")}


def _replay(reasoning: wire.WireReasoning | None) -> ReplayWish:
    return _CONTEXTS.get((reasoning and reasoning.context) or "", ReplayWish())


def _sampling(call: ResponsesCall) -> Sampling:
    request = call.request
    wire_body.check_positive("max_output_tokens", request.max_output_tokens)
    wire_body.check_positive("max_tool_calls", request.max_tool_calls)
    wire_body.check_range("temperature", request.temperature, 0, 2)
    wire_body.check_range("top_p", request.top_p, 0, 1)
    wire_body.check_range("top_logprobs", request.top_logprobs, 0, MAX_TOP_LOGPROBS)
    return Sampling(
        max_tokens=request.max_output_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        top_logprobs=(request.top_logprobs or 0) if LOGPROBS in call.include else None,
    )
