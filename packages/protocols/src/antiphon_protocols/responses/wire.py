"""The Responses request body as clients send it. Source: the OpenAI Responses API as of its Python SDK 3.57, and what Codex 0.171,
pi, OpenCode and OpenClaw send (wire facts, sections 2 to 6). Of items and tools that say nothing here only the type is read."""

from typing import Any, Literal

import msgspec

from antiphon_protocols.nvext import Nvext
from antiphon_protocols.retention import PromptCacheRetention


class Part(msgspec.Struct, frozen=True):
    """One piece of content, of any type; `text` is there in all textual ones, `refusal` in refusals."""

    type: str = "input_text"
    text: str | None = None
    refusal: str | None = None


Content = str | list[Part] | None


class ItemHead(msgspec.Struct, frozen=True):
    """What tells an item's kind. A message may leave its type out; ids are labels."""

    type: str | None = None
    role: str | None = None
    id: str | None = None


class MessageItem(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: Content = None


class ReasoningItem(msgspec.Struct, frozen=True):
    summary: list[Part] | None = None
    content: Content = None
    encrypted_content: str | None = None


class FunctionCallItem(msgspec.Struct, frozen=True):
    """`arguments` is JSON text in a string; an object is taken too."""

    name: str
    call_id: str | None = None
    id: str | None = None
    namespace: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class CustomCallItem(msgspec.Struct, frozen=True):
    name: str
    call_id: str | None = None
    id: str | None = None
    namespace: str | None = None
    input: str = ""


class NativeCallItem(msgspec.Struct, frozen=True):
    """A call of one of the vendor's client-side tools: `action` (shells), `operation` (patches) or `arguments` (tool search) say what."""

    call_id: str | None = None
    id: str | None = None
    action: msgspec.Raw = msgspec.Raw(b"{}")
    operation: msgspec.Raw = msgspec.Raw(b"{}")
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class OutputItem(msgspec.Struct, frozen=True):
    """The result of a call: text, a list of parts, or JSON. A local shell's result names its call by `id` alone."""

    call_id: str | None = None
    id: str | None = None
    name: str | None = None
    output: msgspec.Raw = msgspec.Raw(b"null")
    status: str | None = None


class FormatSpec(msgspec.Struct, frozen=True):
    """The format of a custom tool's input."""

    type: str = "text"
    syntax: Literal["lark", "regex"] = "lark"
    definition: str = ""


class Environment(msgspec.Struct, frozen=True):
    """Where a shell runs; other tools have a word in its place."""

    type: str | None = None


class WireTool(msgspec.Struct, frozen=True):
    """A tool of any type."""

    type: str = "function"
    name: str | None = None
    description: str | None = None
    parameters: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    strict: bool | None = None
    format: FormatSpec | None = None
    defer_loading: bool | None = None
    execution: str | None = None
    environment: Environment | str | None = None
    tools: "list[WireTool] | None" = None


class LoadedToolsItem(msgspec.Struct, frozen=True):
    """Tools that are there from this item on: `additional_tools`, `tool_search_output`."""

    call_id: str | None = None
    id: str | None = None
    tools: list[WireTool] = []


class AgentItem(msgspec.Struct, frozen=True):
    """A message of one agent of a session to another (Codex)."""

    author: str | None = None
    content: Content = None


class CompactionItem(msgspec.Struct, frozen=True):
    encrypted_content: str | None = None


class ReferenceItem(msgspec.Struct, frozen=True):
    id: str


class ChosenTool(msgspec.Struct, frozen=True):
    """One tool of an `allowed_tools` choice."""

    type: str = "function"
    name: str | None = None
    namespace: str | None = None


class WireToolChoice(msgspec.Struct, frozen=True):
    type: str
    name: str | None = None
    namespace: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: list[ChosenTool] = []


class WireReasoning(msgspec.Struct, frozen=True):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: str | None = None


class TextFormat(msgspec.Struct, frozen=True):
    type: str = "text"
    name: str | None = None
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class WireText(msgspec.Struct, frozen=True):
    format: TextFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`type` and `generate` come over a WebSocket only."""

    model: str
    input: str | list[msgspec.Raw] | None = None
    instructions: str | list[msgspec.Raw] | None = None
    tools: list[WireTool] | None = None
    tool_choice: str | WireToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    reasoning: WireReasoning | None = None
    text: WireText | None = None
    truncation: Literal["auto", "disabled"] | None = None
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    include: list[str] | None = None
    metadata: dict[str, str] | None = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: PromptCacheRetention | None = None
    safety_identifier: str | None = None
    user: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    nvext: Nvext | None = None
    type: Literal["response.create"] | None = None
    generate: bool | None = None
    conversation: Any = None
    prompt: Any = None
    moderation: Any = None


ACCEPTED = frozenset(
    {
        "access_programs",
        "background_options",
        "client_metadata",
        "image",
        "prompt_cache_options",
        "service_tier",
        "stream_id",
        "stream_options",
    }
)
"""Known fields that change nothing here."""

REFUSED: dict[str, str] = {
    "conversation": "conversations are not kept by this server; use previous_response_id, or send the whole input",
    "prompt": "stored prompts are not supported; send instructions and input",
    "moderation": "not supported by this server; leave the field out",
}
"""Known fields that ask for something this server does not do, and what to do instead."""

ECHOED = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)
"""Request fields that a response object repeats."""
