"""The Messages request body as clients send it. Source: the Anthropic Messages API (version 2023-06-01 with the betas
the known clients name). Fields that carry no meaning here (citations, ...) are not declared and so skipped."""

from typing import Any, Literal

import msgspec

from antiphon_protocols.nvext import Nvext
from antiphon_protocols.retention import CacheControl


class TextBlock(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str
    cache_control: CacheControl | None = None


class ThinkingBlock(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    thinking: str
    signature: str | None = None


class RedactedThinkingBlock(msgspec.Struct, frozen=True, tag_field="type", tag="redacted_thinking"):
    pass


class ToolUseBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: msgspec.Raw = msgspec.Raw(b"{}")
    cache_control: CacheControl | None = None


class ToolReference(msgspec.Struct, frozen=True, tag_field="type", tag="tool_reference"):
    tool_name: str | None = None
    name: str | None = None


class Source(msgspec.Struct, frozen=True):
    """Where an image or a document is. `data` is text only for sources of type "text"."""

    type: str = ""
    media_type: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    content: "str | list[TextBlock | ImageBlock] | None" = None


class Citations(msgspec.Struct, frozen=True):
    enabled: bool | None = None


class ImageBlock(msgspec.Struct, frozen=True, tag_field="type", tag="image"):
    source: Source | None = None
    cache_control: CacheControl | None = None


class DocumentBlock(msgspec.Struct, frozen=True, tag_field="type", tag="document"):
    source: Source
    title: str | None = None
    context: str | None = None
    citations: Citations | None = None
    cache_control: CacheControl | None = None


class SearchResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="search_result"):
    source: str
    title: str
    content: list[TextBlock]
    citations: Citations | None = None
    cache_control: CacheControl | None = None


class ToolResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str | list[TextBlock | ImageBlock | DocumentBlock | SearchResultBlock | ToolReference] | None = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None


class ToolAdditionBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool_addition"):
    tool: ToolReference


class ToolRemovalBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool_removal"):
    pass


# What the vendor's own servers ran and found. It stands in histories that began there and says nothing a model here could use.
class ServerToolUseBlock(msgspec.Struct, frozen=True, tag_field="type", tag="server_tool_use"):
    pass


class WebSearchResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="web_search_tool_result"):
    pass


class WebFetchResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="web_fetch_tool_result"):
    pass


class CodeResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="code_execution_tool_result"):
    pass


class BashResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="bash_code_execution_tool_result"):
    pass


class EditorResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="text_editor_code_execution_tool_result"):
    pass


class ToolSearchResultBlock(msgspec.Struct, frozen=True, tag_field="type", tag="tool_search_tool_result"):
    pass


ServerBlock = (
    ServerToolUseBlock
    | WebSearchResultBlock
    | WebFetchResultBlock
    | CodeResultBlock
    | BashResultBlock
    | EditorResultBlock
    | ToolSearchResultBlock
)
Block = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ToolAdditionBlock
    | ToolRemovalBlock
    | ServerToolUseBlock
    | WebSearchResultBlock
    | WebFetchResultBlock
    | CodeResultBlock
    | BashResultBlock
    | EditorResultBlock
    | ToolSearchResultBlock
)


class WireMessage(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Block]


class WireTool(msgspec.Struct, frozen=True):
    """A client tool has an `input_schema`; a tool of the vendor's has a versioned `type` and none, and a toolset no name."""

    name: str | None = None
    type: str | None = None
    description: str | None = None
    input_schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    defer_loading: bool | None = None
    strict: bool | None = None
    display_width_px: int | None = None
    display_height_px: int | None = None
    cache_control: CacheControl | None = None


class WireToolChoice(msgspec.Struct, frozen=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class WireThinking(msgspec.Struct, frozen=True):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = None
    display: str | None = None


class WireFormat(msgspec.Struct, frozen=True):
    type: str
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class OutputConfig(msgspec.Struct, frozen=True):
    effort: str | None = None
    format: WireFormat | None = None


class Edit(msgspec.Struct, frozen=True):
    """`keep`: "all", or an object whose type says what its value counts."""

    type: str
    keep: Any = None


class ContextManagement(msgspec.Struct, frozen=True):
    edits: list[Edit] | None = None


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
    cache_control: CacheControl | None = None
    nvext: Nvext | None = None
    thread: dict[str, Any] | None = None
    container: Any = None
    mcp_servers: Any = None
    compaction: Any = None
    fallbacks: Any = None
    inference_geo: Any = None
    output_format: WireFormat | None = None
    context_management: ContextManagement | None = None


ACCEPTED = frozenset({"betas", "service_tier", "speed"})
"""Known fields that change nothing here and are sent unasked."""

REFUSED = ("container", "mcp_servers", "compaction", "fallbacks", "inference_geo")
"""Known fields that ask for something this server does not do."""

ZERO_WIDTH = "\u200b"
"""Stands for a thinking text that is withheld or empty: one client drops the whole block when the text is blank."""
