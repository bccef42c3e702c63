"""The response object: what created, in-progress and terminal events carry, and what the unary body is."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from antiphon_protocols import sse
from antiphon_protocols.nvext import ResponseFields
from antiphon_protocols.responses.tools import ToolMap
from antiphon_turns.events import Usage

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`created`: Unix time in seconds. `echo`: fields of the request that a response repeats, as JSON. `reasoning`: whether reasoning
    leaves as summary text, the one form that every client shows and returns, or as reasoning text. `is_codex`: a turn that may be
    resumed ends as Codex wants it. `fields`: what `nvext` tells."""

    response_id: str
    created: int
    model: str = ""
    tools: ToolMap = ToolMap()
    echo: dict[str, msgspec.Raw] = {}
    is_codex: bool = False
    reasoning: Literal["summary", "text"] = "summary"
    include_encrypted: bool = True
    logprobs: bool = False
    store: bool = True
    background: bool = False
    fields: ResponseFields = frozenset()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How far a response has come. `end_turn` False tells Codex to go on by itself."""

    status: Status = "in_progress"
    error: dict[str, Any] | None = None
    incomplete: str | None = None
    usage: Usage | None = None
    end_turn: bool = True
    nvext: dict[str, object] = {}


def response_object(options: Options, outcome: Outcome, output: Sequence[bytes] = ()) -> bytes:
    """The object as one line of JSON. `output`: the finished items."""
    fields: dict[str, Any] = {
        "id": options.response_id,
        "object": "response",
        "created_at": options.created,
        "status": outcome.status,
        "background": options.background,
        "error": outcome.error,
        "incomplete_details": {"reason": outcome.incomplete} if outcome.incomplete else None,
        "model": options.model,
        "output": [msgspec.Raw(item) for item in output],
        "usage": usage_object(outcome.usage) if outcome.usage else None,
        "store": options.store,
        "service_tier": "default",
        **_DEFAULTS,
        **options.echo,
    }
    if not outcome.end_turn:
        fields["end_turn"] = False
    if outcome.nvext:
        fields["nvext"] = outcome.nvext
    return sse.one_line(msgspec.json.encode(fields))


def usage_object(usage: Usage) -> dict[str, Any]:
    """Counts in the vendor's form; one client fails on a usage without its total, the vendor's SDK on one without details."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }


_DEFAULTS: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
