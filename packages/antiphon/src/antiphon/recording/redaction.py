"""What of a request body goes into a recording."""

import functools
import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.recording.recorded import NO_BODY, Content
from antiphon.wire_schemas import request_schemas

# Where a string may be one of the vendors' own words, which then says how the body is built and is kept.
STRUCTURE = frozenset({"type", "role", "status", "effort", "reasoning_effort", "verbosity", "tool_choice", "syntax", "mode", "ttl"})
# Types of tools and of JSON values, which the schemas of the wire leave open.
TYPES = frozenset(
    {"string", "number", "integer", "boolean", "object", "array", "null", "custom", "mcp", "local_shell", "web_search", "tool_search"}
)
SECRET = frozenset({"authorization", "headers", "server_url"})
HEADS: dict[str, tuple[str, ...]] = {
    "messages": ("system", "tools"),
    "chat": ("tools",),
    "responses": ("instructions", "tools"),
    "completions": (),
}
_MOST_DEPTH = 100


@functools.cache
def words() -> frozenset[str]:
    """The vendors' words: whatever the wire's own schemas list."""
    return TYPES | frozenset(_listed(request_schemas()))


def _listed(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        values = [*schema.get("enum", ()), schema.get("const")] if isinstance(schema.get("enum", ()), list | tuple) else []
        yield from (value for value in values if isinstance(value, str))
        schema = list(schema.values())
    if isinstance(schema, list | tuple):
        for item in schema:
            yield from _listed(item)


class Redaction:
    """Hashes are keyed: in one process of the server equal strings have equal hashes, and without `key`, which is written nowhere, a guess
    at a text cannot be checked."""

    def __init__(self, content: Content, key: bytes) -> None:
        self.content = content
        self._key = key

    def body(self, body: bytes) -> msgspec.Raw:
        """A body as one line of JSON, or NO_BODY. Credentials for tools that a vendor would call (`type: mcp`) never stay."""
        if self.content == "none":
            return NO_BODY
        try:
            value = msgspec.json.decode(body)
            if self.content == "full" and not _may_hold_secrets(body):
                return msgspec.Raw(msgspec.json.format(body, indent=-1))
            if isinstance(value, dict):
                value = {**value, "tools": [_without_secrets(tool) for tool in value["tools"]]} if _has_tools(value) else value
            if self.content == "hash":
                value = self._hashed(value, "", 0)
            return msgspec.Raw(msgspec.json.encode(value))
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return NO_BODY

    def head(self, body: bytes, surface: str) -> tuple[str, float]:
        """The name of a body's system prompt and tools, and their share of its bytes; "" and 0 where it has none."""
        try:
            parts = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            pieces = [bytes(parts[name]) for name in HEADS.get(surface, ()) if name in parts]
            if surface == "chat" and "messages" in parts:
                pieces += _system_messages(bytes(parts["messages"]))
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return "", 0.0
        size = sum(map(len, pieces))
        return (self.hash(b"\0".join(pieces)), round(size / len(body), 4)) if size else ("", 0.0)

    def hash(self, text: bytes) -> str:
        """Sixteen characters."""
        return hashlib.blake2b(text, key=self._key, digest_size=8).hexdigest()

    def _hashed(self, value: Any, name: str, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            return None
        if isinstance(value, str):
            kept = (name in STRUCTURE and value in words()) or (name == "model" and depth == 1)
            return value if kept else f"#{self.hash(value.encode('utf-8', 'surrogatepass'))}"
        if isinstance(value, list):
            return [self._hashed(item, name, depth + 1) for item in value]
        if isinstance(value, dict):
            # Names of JSON schemas' properties and of free objects are content too, but a schema is nothing without them.
            return {key: self._hashed(item, key, depth + 1) for key, item in value.items()}
        return value


def _has_tools(value: dict[str, Any]) -> bool:
    return isinstance(value.get("tools"), list)


def _may_hold_secrets(body: bytes) -> bool:
    return b"mcp" in body


def _without_secrets(tool: Any) -> Any:
    if not isinstance(tool, dict) or tool.get("type") != "mcp":
        return tool
    return {name: value for name, value in tool.items() if name not in SECRET}


def _system_messages(messages: bytes) -> list[bytes]:
    found = []
    for message in msgspec.json.decode(messages, type=list[msgspec.Raw]):
        role = msgspec.json.decode(message, type=dict[str, Any]).get("role")
        if role not in ("system", "developer"):
            break
        found.append(bytes(message))
    return found
