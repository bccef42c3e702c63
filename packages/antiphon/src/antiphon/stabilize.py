"""Step 2: prompt text that varies without meaning is removed before it can poison the KV prefix.

Rules are data: a name, a pattern, the place it may act. A rule never touches text a user wrote.
"""

import re
from collections.abc import Sequence

import msgspec

from antiphon_turns import SystemMessage, TurnRequest


class StabilizerRule(msgspec.Struct, frozen=True, kw_only=True):
    """`pattern` is matched once, at the very start of the first system or developer text, and what it matches is cut."""

    name: str
    pattern: re.Pattern[str]


ANTHROPIC_PREAMBLE = StabilizerRule(
    name="strip-anthropic-preamble",
    # Measured grammar (Claude Code 2.1.197 and 2.1.332): `x-anthropic-billing-header: key=value; key=value;`, one line, as a block of its
    # own or as the first line of a longer text. Key and value vary by version, entry point, sub-agent and workload.
    pattern=re.compile(r"\s*x-anthropic-billing-header:(?:[ \t]*[\w.-]+=[^;\r\n]*(?:;|(?=\r?\n|\Z)))*[ \t]*(?:\r?\n)*", re.IGNORECASE),
)


def stabilize(request: TurnRequest, rules: Sequence[StabilizerRule]) -> tuple[TurnRequest, tuple[str, ...]]:
    """The request without unstable prompt text, and the names of the rules that acted."""
    at = next((i for i, message in enumerate(request.messages) if isinstance(message, SystemMessage)), None)
    if at is None or not rules:
        return request, ()
    message = request.messages[at]
    text = message.text if isinstance(message, SystemMessage) else ""
    acted = []
    for rule in rules:
        found = rule.pattern.match(text)
        if found and found.end():
            text = text[found.end() :]
            acted.append(rule.name)
    if not acted:
        return request, ()
    # A system text that was nothing but the preamble leaves no message behind.
    kept = (SystemMessage(text),) if text else ()
    messages = (*request.messages[:at], *kept, *request.messages[at + 1 :])
    return msgspec.structs.replace(request, messages=messages), tuple(acted)
