"""The model catalog in the shapes of three vendors.

`GET /v1/models` answers everybody with one body: OpenAI's `data`, whose items and list also carry Anthropic's fields, beside
Codex's `models`; each client skips the keys of the others. A caller that names an Anthropic version gets that shape alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_EPOCH_SHIFT = 719_468
"""Days from 0000-03-01 to 1970-01-01."""
_CODEX_OUTPUT_BYTES = 10_000
_CODEX_INSTRUCTIONS = """You are a coding agent that works in a terminal on the user's machine.
Look at the files that matter before you change them, make the smallest change that does what was asked, and check it by running it.
Use the tools you are given for every look and every change; never invent their output.
Never destroy what the user did not ask you to touch.
When you are done, say in a few sentences what you changed and how you checked it. If you cannot go on, say what is missing."""


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """One served model. `created` is Unix time in seconds; the lengths are in tokens."""

    id: str
    created: int
    context_length: int
    max_output_tokens: int | None = None
    display_name: str | None = None
    reasoning_efforts: tuple[str, ...] = ()


def list_body(cards: Sequence[ModelCard], headers: Mapping[str, str]) -> bytes:
    """The body of `GET /v1/models` for this caller. Header names are in lower case."""
    anthropic: dict[str, Any] = {
        "data": [_anthropic(card) for card in cards],
        "has_more": False,
        "first_id": cards[0].id if cards else None,
        "last_id": cards[-1].id if cards else None,
    }
    if "anthropic-version" in headers:
        return msgspec.json.encode(anthropic)
    both = [_openai(card) for card in cards]
    return msgspec.json.encode({"object": "list", **anthropic, "data": both, "models": [_codex(card) for card in cards]})


def model_body(card: ModelCard, headers: Mapping[str, str]) -> bytes:
    """The body of `GET /v1/models/{id}` for this caller."""
    return msgspec.json.encode(_anthropic(card) if "anthropic-version" in headers else _openai(card))


def _anthropic(card: ModelCard) -> dict[str, Any]:
    return {
        "type": "model",
        "id": card.id,
        "display_name": card.display_name or card.id,
        "created_at": timestamp(card.created),
        "lifecycle": "active",
        "max_input_tokens": card.context_length,
        "max_tokens": card.max_output_tokens or card.context_length,
    }


def _openai(card: ModelCard) -> dict[str, Any]:
    return {**_anthropic(card), "object": "model", "created": card.created, "owned_by": "antiphon"}


def _codex(card: ModelCard) -> dict[str, Any]:
    """The fields Codex 0.171 requires (one missing or unknown value loses the whole catalog), and the window."""
    efforts = [{"effort": effort, "description": f"{effort} reasoning effort"} for effort in card.reasoning_efforts]
    return {
        "slug": card.id,
        "display_name": card.display_name or card.id,
        "supported_reasoning_levels": efforts,
        "shell_type": "unified_exec",
        "visibility": "list",
        "supported_in_api": True,
        "priority": 1,
        "support_verbosity": False,
        "truncation_policy": {"mode": "bytes", "limit": _CODEX_OUTPUT_BYTES},
        "experimental_supported_tools": [],
        "base_instructions": _CODEX_INSTRUCTIONS,
        "context_window": card.context_length,
        "max_context_window": card.context_length,
    }


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
