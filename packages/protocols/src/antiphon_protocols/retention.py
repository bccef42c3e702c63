"""How long a client wants its prompt to stay cached, in seconds. Sources: `cache_control` of Anthropic Messages, `nvext.cache_control`
of NVIDIA Dynamo, `prompt_cache_retention` of the OpenAI API."""

import math
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from antiphon_protocols.body import invalid

PINNED = math.inf
"""As long as the server allows."""

_TTL = re.compile(r"([0-9]{1,9})([smh])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MESSAGES_TTL = {"5m": 300.0, "1h": 3600.0}
_OPENAI = {"24h": 86_400.0}

PromptCacheRetention = Literal["in_memory", "in-memory", "24h"]


class CacheControl(msgspec.Struct, frozen=True):
    """A mark on a block, a tool or the system text of Messages: what stands before it is worth keeping. `ttl` None = 5 minutes."""

    type: Literal["ephemeral"] = "ephemeral"
    ttl: Literal["5m", "1h"] | None = None


class NvextCacheControl(msgspec.Struct, frozen=True):
    """`nvext.cache_control`, for surfaces without marks: `ttl` in seconds, or as text with a unit ("90s", "5m", "1h"); None = 5 minutes.
    `pin`: as long as the server allows."""

    type: Literal["ephemeral"] = "ephemeral"
    ttl: float | str | None = None
    pin: bool = False


def of_marks(marks: Iterable[CacheControl | None]) -> float:
    """The longest life that the marks of a Messages request ask for; 0 without any."""
    return max((_MESSAGES_TTL[mark.ttl or "5m"] for mark in marks if mark is not None), default=0.0)


def of_nvext(control: NvextCacheControl | None) -> float:
    """Raises InvalidRequest for a life that is none."""
    if control is None:
        return 0.0
    seconds = _seconds(control.ttl, "nvext.cache_control.ttl")
    return PINNED if control.pin else seconds


def of_openai(wish: PromptCacheRetention | None) -> float:
    """The wish `in_memory` is what caches do unasked."""
    return _OPENAI.get(wish or "", 0.0)


def _seconds(ttl: float | str | None, path: str) -> float:
    if ttl is None:
        return _MESSAGES_TTL["5m"]
    if isinstance(ttl, str):
        found = _TTL.fullmatch(ttl)
        if found is None:
            raise invalid(path, "must be a number of seconds, or a number with s, m or h behind it, such as '5m'")
        ttl = int(found[1]) * _UNITS[found[2]]
    if not 0 < ttl < math.inf:
        raise invalid(path, "must be greater than 0 and finite; pin keeps a prompt as long as the server allows")
    return float(ttl)
