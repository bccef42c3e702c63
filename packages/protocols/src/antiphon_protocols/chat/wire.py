"""The Chat Completions request body as clients send it. Source: the OpenAI API reference, and the reasoning fields that
open-model servers added. Fields that carry no meaning here are not declared and so skipped."""

from typing import Any, Literal

import msgspec

from antiphon_protocols.nvext import Nvext
from antiphon_protocols.retention import PromptCacheRetention


class TextPart(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class RefusalPart(msgspec.Struct, frozen=True, tag_field="type", tag="refusal"):
    refusal: str


class ImagePart(msgspec.Struct, frozen=True, tag_field="type", tag="image_url"):
    pass


class AudioPart(msgspec.Struct, frozen=True, tag_field="type", tag="input_audio"):
    pass


class FilePart(msgspec.Struct, frozen=True, tag_field="type", tag="file"):
    pass


Part = TextPart | RefusalPart | ImagePart | AudioPart | FilePart
Content = str | list[Part] | None


class CalledFunction(msgspec.Struct, frozen=True):
    """`arguments` is JSON text in a string; some clients send the object itself."""

    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class WireCall(msgspec.Struct, frozen=True):
    function: CalledFunction | None = None
    id: str | None = None
    type: str | None = None


class WireMessage(msgspec.Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content = None
    tool_calls: list[WireCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    function_call: CalledFunction | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    thinking: Any = None


class WireFunction(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    strict: bool | None = None


class WireTool(msgspec.Struct, frozen=True):
    """The function stands under `function`, or flat in the tool itself, as on the vendor's newer surface."""

    type: str = "function"
    function: WireFunction | None = None
    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    strict: bool | None = None


class NamedFunction(msgspec.Struct, frozen=True):
    name: str


class NamedChoice(msgspec.Struct, frozen=True):
    type: str = "function"
    function: NamedFunction | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class JsonSchema(msgspec.Struct, frozen=True):
    name: str | None = None
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class ResponseFormat(msgspec.Struct, frozen=True):
    type: str
    json_schema: JsonSchema | None = None


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    messages: list[WireMessage]
    tools: list[WireTool] | None = None
    tool_choice: str | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    reasoning_effort: str | None = None
    thinking_budget: int | None = None
    thinking_token_budget: int | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    response_format: ResponseFormat | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: PromptCacheRetention | None = None
    n: int | None = None
    modalities: list[str] | None = None
    nvext: Nvext | None = None
    functions: Any = None
    function_call: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: Any = None
    audio: Any = None
    moderation: Any = None
    web_search_options: Any = None
    chat_template: Any = None


ACCEPTED = frozenset(
    {
        "store",
        "metadata",
        "user",
        "service_tier",
        "prompt_cache_options",
        "safety_identifier",
    }
)
"""Known fields that change nothing here."""

REFUSED: dict[str, str] = {
    "functions": "use tools instead",
    "function_call": "use tool_choice instead",
    "logit_bias": "not supported by this server; leave the field out",
    "audio": "audio output is not supported",
    "moderation": "not supported by this server; leave the field out",
    "web_search_options": "not supported by this server; leave the field out",
    "chat_template": "a request cannot bring its own chat template; chat_template_kwargs may set the template's variables",
}
"""Known fields that ask for something this server does not do, and what to do instead."""
