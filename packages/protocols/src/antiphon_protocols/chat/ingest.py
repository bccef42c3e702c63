"""Chat ingest: a wire body becomes a TurnRequest."""

from collections.abc import Mapping

import msgspec

from antiphon_protocols import body as wire_body
from antiphon_protocols.advice import read_advice
from antiphon_protocols.body import invalid, object_schema, refuse
from antiphon_protocols.chat import wire
from antiphon_protocols.chat.history import read_messages
from antiphon_protocols.nvext import Dispatch, ReasoningFields, ResponseFields, response_fields
from antiphon_protocols.retention import of_openai
from antiphon_protocols.sampling import MAX_TOP_LOGPROBS, openai_sampling
from antiphon_protocols.thinking import openai_thinking
from antiphon_turns.gate import ArgumentStreaming
from antiphon_turns.request import OutputFormat, Sampling, Tool, ToolChoice, TurnRequest

_DECODER = msgspec.json.Decoder(wire.WireRequest)
_KNOWN = frozenset(field.encode_name for field in msgspec.structs.fields(wire.WireRequest)) | wire.ACCEPTED

_MODES: dict[str, ToolChoice] = {
    "auto": ToolChoice(mode="auto"),
    "none": ToolChoice(mode="none"),
    "required": ToolChoice(mode="any"),
}


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`include_usage` asks for the usage chunk; `dispatch` names the typed events the request asks for;
    `argument_streaming` and `reasoning_fields` are None unless the request asks. `n` turns over the one prompt are wanted. `fields`:
    what the answer tells of how it was served."""

    turn: TurnRequest
    n: int = 1
    include_usage: bool = False
    dispatch: frozenset[Dispatch] = frozenset()
    argument_streaming: ArgumentStreaming | None = None
    reasoning_fields: ReasoningFields | None = None
    fields: ResponseFields = frozenset()


def ingest(body: bytes, headers: Mapping[str, str]) -> ChatRequest:
    """Reads `POST /v1/chat/completions`. Header names are in lower case. Raises InvalidRequest or UnsupportedFeature."""
    request, names = wire_body.decode(_DECODER, body, headers)
    _refuse_unsupported(request)
    tools = _tools(request.tools or [])
    not_shown: list[str] = []
    messages = read_messages(request.messages, not_shown)
    retain = of_openai(request.prompt_cache_retention)
    advice = read_advice(request.nvext, headers, prompt_cache_key=request.prompt_cache_key, retain_seconds=retain)
    turn = TurnRequest(
        surface="chat",
        model=request.model,
        messages=messages,
        tools=tools,
        tool_choice=_tool_choice(request, tools),
        output=_output(request.response_format),
        thinking=openai_thinking(
            request.reasoning_effort,
            {"thinking_budget": request.thinking_budget, "thinking_token_budget": request.thinking_token_budget},
            request.nvext,
        ),
        sampling=_sampling(request),
        template_kwargs=request.chat_template_kwargs or {},
        stream=bool(request.stream),
        ignored=(*wire_body.unknown_fields(names, _KNOWN), *wire_body.safe_names(not_shown)),
        **advice.fields(),
    )
    nvext = request.nvext
    return ChatRequest(
        turn=turn,
        n=1 if request.n is None else request.n,
        include_usage=bool(request.stream_options and request.stream_options.include_usage),
        dispatch=frozenset((nvext and nvext.dispatch) or ()),
        argument_streaming=nvext.argument_streaming if nvext else None,
        reasoning_fields=nvext.reasoning_fields if nvext else None,
        fields=response_fields(nvext, headers),
    )


def _refuse_unsupported(request: wire.WireRequest) -> None:
    if not request.model:
        raise invalid("model", "must not be empty")
    for name, instead in wire.REFUSED.items():
        if wire_body.is_set(getattr(request, name)):
            raise refuse(name, instead)
    wire_body.check_positive("n", request.n)
    if request.modalities and request.modalities != ["text"]:
        raise refuse("modalities", "only text output is supported")


def _output(wanted: wire.ResponseFormat | None) -> OutputFormat | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return OutputFormat()
    if wanted.type != "json_schema":
        raise refuse("response_format.type", f"{wanted.type[:80]!r} is not one of 'text', 'json_object', 'json_schema'")
    form = wanted.json_schema
    if form is None:
        raise invalid("response_format.json_schema", "Field required")
    return OutputFormat(schema=object_schema(form.schema, "response_format.json_schema.schema") or "{}", name=form.name)


def _tools(tools: list[wire.WireTool]) -> tuple[Tool, ...]:
    offered: list[Tool] = []
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        if tool.type != "function":
            raise refuse(f"{path}.type", f"{tool.type[:80]!r} tools are not supported, only functions are")
        function = tool.function
        if function is None and tool.name is not None:
            function = wire.WireFunction(tool.name, tool.description, tool.parameters, tool.strict)
        if function is None:
            raise invalid(f"{path}.function", "Field required")
        if not function.name:
            raise invalid(f"{path}.function.name", "must not be empty")
        if function.name in seen:
            raise invalid(f"{path}.function.name", f"tool names must be unique, {function.name[:80]!r} is there twice")
        seen.add(function.name)
        offered.append(_tool(function, path))
    return tuple(offered)


def _tool(function: wire.WireFunction, path: str) -> Tool:
    """A function without parameters, or with null, takes none."""
    schema = object_schema(function.parameters, f"{path}.function.parameters")
    strict = bool(function.strict)
    if schema is None:
        return Tool(name=function.name, description=function.description, strict=strict)
    return Tool(name=function.name, description=function.description, parameters=schema, strict=strict)


def _tool_choice(request: wire.WireRequest, tools: tuple[Tool, ...]) -> ToolChoice:
    choice, parallel = request.tool_choice, request.parallel_tool_calls is not False
    if choice is None:
        return ToolChoice(parallel=parallel)
    if isinstance(choice, str):
        mode = _MODES.get(choice)
        if mode is None:
            raise invalid("tool_choice", f"{choice[:80]!r} is not one of 'auto', 'none', 'required'")
        if mode.mode == "any" and not tools:
            raise invalid("tool_choice", "'required' needs at least one function in tools")
        return msgspec.structs.replace(mode, parallel=parallel)
    if choice.type != "function":
        raise refuse("tool_choice", f"type {choice.type[:80]!r} is not supported, only 'function' is")
    if choice.function is None:
        raise invalid("tool_choice.function", "Field required")
    name = choice.function.name
    if all(tool.name != name for tool in tools):
        raise invalid("tool_choice.function.name", f"no function named {name[:80]!r} is in tools")
    return ToolChoice(mode="named", name=name, parallel=parallel)


def _sampling(request: wire.WireRequest) -> Sampling:
    for name in ("max_tokens", "max_completion_tokens"):
        wire_body.check_positive(name, getattr(request, name))
    return openai_sampling(request, max_tokens=request.max_completion_tokens or request.max_tokens, top_logprobs=_top_logprobs(request))


def _top_logprobs(request: wire.WireRequest) -> int | None:
    top = request.top_logprobs
    wire_body.check_range("top_logprobs", top, 0, MAX_TOP_LOGPROBS)
    if not request.logprobs:
        if top:
            raise invalid("top_logprobs", "needs logprobs to be true")
        return None
    return top or 0
