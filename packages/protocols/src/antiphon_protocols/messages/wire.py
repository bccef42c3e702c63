"""The Messages request body as clients send it. Source: the Anthropic Messages API (version 2023-06-01 with the betas
the known clients name). Fields that carry no meaning here (cache_control, citations, ...) are not declared and so skipped."""

from typing import Any, Literal

import msgspec

from antiphon_protocols.nvext import Nvext


class TextBlock(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class ThinkingBlock(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str | None = None


class RedactedThinkingBlock(msgspec.Struct, frozen=True, tag_field="type", tag="redacted_thinking"):
    pass


class ToolUseBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: msgspec.Raw = msgspec.Raw(b"{}")


class ToolReference(msgspec.Struct, frozen=True, tag_field="type", tag="tool_reference"):
    tool_name: str


class ToolResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[TextBlock | ToolReference] | None = None
    is_error: bool | None = None


Block = TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ToolResultBlock


class WireMessage(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Block]


class WireTool(msgspec.Struct, frozen=True):
    """A client tool has an `input_schema`; a server tool has a versioned `type` and none."""

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    defer_loading: bool | None = None


class WireToolChoice(msgspec.Struct, frozen=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class WireThinking(msgspec.Struct, frozen=True):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None
    display: str | None = None


class OutputConfig(msgspec.Struct, frozen=True):
    effort: str | None = None
    format: dict[str, Any] | None = None


class Metadata(msgspec.Struct, frozen=True):
    user_id: str | None = None


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    messages: list[WireMessage]
    max_tokens: int | None = None
    system: str | list[TextBlock] | None = None
    tools: list[WireTool] | None = None
    tool_choice: WireToolChoice | None = None
    thinking: WireThinking | None = None
    output_config: OutputConfig | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stream: bool | None = None
    metadata: Metadata | None = None
    nvext: Nvext | None = None
    thread: dict[str, Any] | None = None
    container: Any = None
    mcp_servers: Any = None
    compaction: Any = None
    fallbacks: Any = None
    inference_geo: Any = None
    output_format: Any = None


ACCEPTED = frozenset({"cache_control", "context_management", "betas", "service_tier", "speed"})
"""Known fields that change nothing here and are sent unasked."""

REFUSED = ("container", "mcp_servers", "compaction", "fallbacks", "inference_geo", "output_format")
"""Known fields that ask for something this server does not do."""

ZERO_WIDTH = "\u200b"
"""Stands for a thinking text that is withheld or empty: one client drops the whole block when the text is blank."""
