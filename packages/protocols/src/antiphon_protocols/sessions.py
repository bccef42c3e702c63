"""Which session a request belongs to: the ids the known clients send, in order of precedence (wire facts, section 7 item 11)."""

import re
from collections.abc import Mapping

import msgspec

CANONICAL_HEADER = "x-dynamo-session-id"
_HEADERS = (
    CANONICAL_HEADER,
    "x-claude-code-agent-id",
    "x-claude-code-session-id",
    "session-id",
    "x-session-id",
    "x-session-affinity",
    "session_id",
    "thread-id",
)
"""First match wins. A Claude Code sub-agent carries its parent's session id beside its own agent id: the child is a
session of its own."""

_PARENT_HEADERS = ("x-dynamo-parent-session-id", "x-claude-code-parent-agent-id", "x-parent-session-id")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_USER_ID_SESSION = re.compile(r"_session_([0-9A-Za-z-]+)$")
MAX_LENGTH = 256


class _UserId(msgspec.Struct, frozen=True):
    session_id: str | None = None


def session_id(headers: Mapping[str, str], *, user_id: str | None = None, prompt_cache_key: str | None = None) -> str | None:
    """The session of a request, None if the client names none. Header names are in lower case; `user_id` is
    Messages `metadata.user_id`, `prompt_cache_key` the field of the two other surfaces."""
    named = (headers.get(name) for name in _HEADERS)
    found = next((value for value in named if value), None) or prompt_cache_key
    found = found or (_session_of_user_id(user_id) if user_id else None)
    if found is None:
        trace = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
        found = trace[1] if trace else None
    return found[:MAX_LENGTH] if found else None


def parent_session_id(headers: Mapping[str, str]) -> str | None:
    """The session that started this one (a sub-agent's parent), None for a session of its own."""
    for name in _PARENT_HEADERS:
        value = headers.get(name)
        if value:
            return value[:MAX_LENGTH]
    if headers.get("x-claude-code-agent-id"):
        return headers.get("x-claude-code-session-id", "")[:MAX_LENGTH] or None
    return None


def _session_of_user_id(user_id: str) -> str | None:
    """Claude Code writes a JSON object into `metadata.user_id`; older versions a `user_..._session_<uuid>` text."""
    try:
        return msgspec.json.decode(user_id, type=_UserId).session_id
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        found = _USER_ID_SESSION.search(user_id)
        return found[1] if found else None
