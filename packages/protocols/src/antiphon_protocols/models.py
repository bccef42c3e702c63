"""The model catalog in the shapes of three vendors.

`GET /v1/models` answers everybody with one body: OpenAI's `data`, whose items and list also carry Anthropic's fields, beside
Codex's `models`; each client skips the keys of the others. A caller that names an Anthropic version gets that shape alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon_protocols.body import invalid
from antiphon_protocols.profiles import DEFAULT, PROFILES, Profile

_EPOCH_SHIFT = 719_468
"""Days from 0000-03-01 to 1970-01-01."""
_MAX_PAGE = 1000
_ANSWER_RESERVE = 16_384
"""Tokens that a compacting client keeps free for the answer where the context has room for it."""
_OUTPUT_SHARE = 8
"""No more than one part in so many of the context is for the output of one tool."""
_BYTES_A_TOKEN = 4


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """One name that may be asked for. `created` is Unix time in seconds; the lengths are in tokens. `reasons` and `calls`: what the
    family can do. `structured`: output can be held to a schema. `reported_length`: the context in the measure of the token counts that
    Messages reports, where that is not tokens."""

    id: str
    created: int
    context_length: int
    max_output_tokens: int | None = None
    reported_length: int | None = None
    display_name: str | None = None
    profile: Profile = PROFILES[DEFAULT]
    reasons: bool = True
    calls: bool = True
    structured: bool = True

    @property
    def window(self) -> int:
        """The context that clients are told of."""
        return min(self.context_length, self.profile.context_window or self.context_length)


class Page(msgspec.Struct, frozen=True):
    """A part of the catalog in its order. `more`: there is more in the direction that was asked for."""

    cards: tuple[ModelCard, ...]
    more: bool


def page(cards: Sequence[ModelCard], query: Mapping[str, str]) -> Page:
    """The part of the catalog that `limit`, `after_id` and `before_id` ask for; without them all of it. Raises InvalidRequest."""
    limit = _limit(query.get("limit"))
    after, before = query.get("after_id"), query.get("before_id")
    if after is not None and before is not None:
        raise invalid("before_id", "cannot stand beside after_id")
    if before is not None:
        end = _place(cards, "before_id", before)
        start = max(0, end - limit)
        return Page(tuple(cards[start:end]), start > 0)
    start = 0 if after is None else _place(cards, "after_id", after) + 1
    return Page(tuple(cards[start : start + limit]), start + limit < len(cards))


def _limit(text: str | None) -> int:
    if text is None:
        return _MAX_PAGE
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= _MAX_PAGE):
        raise invalid("limit", f"must be between 1 and {_MAX_PAGE}")
    return int(text)


def _place(cards: Sequence[ModelCard], name: str, model_id: str) -> int:
    for place, card in enumerate(cards):
        if card.id == model_id:
            return place
    raise invalid(name, f"no model {model_id[:200]!r} in the list")


def list_body(cards: Sequence[ModelCard], headers: Mapping[str, str], query: Mapping[str, str] | None = None) -> bytes:
    """The body of `GET /v1/models` for this caller. Header names are in lower case. Raises InvalidRequest for a bad page.

    Codex's `models` are never cut into pages: it loads the list in one piece.
    """
    shown = page(cards, query or {})
    anthropic: dict[str, Any] = {
        "data": [_anthropic(card) for card in shown.cards],
        "has_more": shown.more,
        "first_id": shown.cards[0].id if shown.cards else None,
        "last_id": shown.cards[-1].id if shown.cards else None,
    }
    if "anthropic-version" in headers:
        return msgspec.json.encode(anthropic)
    both = [_openai(card) for card in shown.cards]
    return msgspec.json.encode(
        {"object": "list", **anthropic, "data": both, "models": [codex_entry(card, rank) for rank, card in enumerate(cards, 1)]}
    )


def model_body(card: ModelCard, headers: Mapping[str, str]) -> bytes:
    """The body of `GET /v1/models/{id}` for this caller: one object that is an OpenAI model, an Anthropic one and a Codex entry."""
    if "anthropic-version" in headers:
        return msgspec.json.encode(_anthropic(card))
    return msgspec.json.encode({**codex_entry(card, 1), **_openai(card)})


def _anthropic(card: ModelCard) -> dict[str, Any]:
    return {
        "type": "model",
        "id": card.id,
        "display_name": card.display_name or card.id,
        "created_at": timestamp(card.created),
        "lifecycle": "active",
        "max_input_tokens": card.reported_length or card.window,
        "max_tokens": card.max_output_tokens or card.window,
        "capabilities": _capabilities(card),
    }


def _capabilities(card: ModelCard) -> dict[str, Any]:
    """Every capability the vendor's SDK (anthropic 2.14) knows, in its shape."""
    thinking, efforts = card.profile.thinking if card.reasons else (), _efforts(card)
    return {
        "batch": _supported(False),
        "citations": _supported(False),
        "code_execution": _supported(False),
        "context_management": {**_supported(card.reasons), "clear_thinking_20251015": _supported(card.reasons)},
        "effort": {
            **_supported(bool(efforts)),
            **{effort: _supported(effort in efforts) for effort in ("low", "medium", "high", "xhigh", "max")},
        },
        "image_input": _supported(False),
        "pdf_input": _supported(False),
        "server_tools": {**_supported(False), "code_execution": _supported(False), "web_search": _supported(False)},
        "structured_outputs": _supported(card.structured),
        "thinking": {
            **_supported(bool(thinking)),
            "types": {kind: _supported(kind in thinking) for kind in ("adaptive", "enabled")},
        },
    }


def _supported(value: bool) -> dict[str, bool]:  # noqa: FBT001 - the value is all there is
    return {"supported": value}


def _openai(card: ModelCard) -> dict[str, Any]:
    """`context_length` and `max_model_len` are what clients of other open-model servers look for."""
    return {
        **_anthropic(card),
        "object": "model",
        "created": card.created,
        "owned_by": "antiphon",
        "context_length": card.window,
        "max_model_len": card.window,
    }


def _efforts(card: ModelCard) -> tuple[str, ...]:
    return card.profile.efforts if card.reasons else ()


def codex_entry(card: ModelCard, rank: int) -> dict[str, Any]:
    """The entry Codex 0.171 reads: what it requires (one missing or unknown value loses the whole catalog) and what the profile adds.

    `supports_reasoning_summaries` and `supports_parallel_tool_calls` are for other versions; this one skips them. `rank` orders the
    picker, 1 is first.
    """
    profile, window = card.profile, card.window
    entry = {
        "slug": card.id,
        "display_name": card.display_name or card.id,
        "supported_reasoning_levels": [{"effort": effort, "description": f"{effort} reasoning effort"} for effort in _efforts(card)],
        "shell_type": profile.shell,
        "visibility": "list",
        "supported_in_api": True,
        "priority": rank,
        "support_verbosity": profile.verbosity is not None,
        "truncation_policy": {"mode": profile.truncation_mode, "limit": _tool_output(profile, window)},
        "experimental_supported_tools": [],
        "base_instructions": profile.instructions,
        "context_window": window,
        "max_context_window": window,
        "supports_reasoning_summaries": card.reasons and profile.reasoning_summary not in (None, "none"),
        "supports_parallel_tool_calls": card.calls and profile.parallel_calls,
        "input_modalities": ["text"],
        "default_reasoning_level": profile.default_effort if card.reasons else None,
        "default_reasoning_summary": profile.reasoning_summary if card.reasons else "none",
        "default_verbosity": profile.verbosity,
        "apply_patch_tool_type": profile.apply_patch,
        "effective_context_window_percent": profile.window_percent,
        "auto_compact_token_limit": compact_limit(window) if profile.compacts else None,
    }
    return {key: value for key, value in entry.items() if value is not None}


def compact_limit(window: int) -> int:
    """Prompt tokens at which a client should compact: what leaves room for an answer, and never more than nine tenths."""
    return min(window - min(_ANSWER_RESERVE, window // 4), window * 9 // 10)


def _tool_output(profile: Profile, window: int) -> int:
    """The profile's limit for one tool's output, lowered where it would eat a small context."""
    share = window // _OUTPUT_SHARE
    return min(profile.truncation_limit, share if profile.truncation_mode == "tokens" else share * _BYTES_A_TOKEN)


def timestamp(seconds: int) -> str:
    """Unix seconds as an RFC 3339 time in UTC (the proleptic Gregorian calendar, years that begin in March)."""
    days, second = divmod(seconds, 86_400)
    era, day_of_era = divmod(days + _EPOCH_SHIFT, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{year:04d}-{month:02d}-{day:02d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
