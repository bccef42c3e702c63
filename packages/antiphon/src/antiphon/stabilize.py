"""Step 2: prompt text that varies without meaning is removed before it can poison the KV prefix.

Rules are data: a name, a pattern, the place it may act. A rule never touches text a user wrote, what the model said, or what a
tool returned.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from antiphon.line_pattern import LinePattern
from antiphon_turns import SystemMessage, Tool, TurnRequest


class HeadRule(msgspec.Struct, frozen=True, kw_only=True):
    """`pattern` is matched once, at the very start of the first system or developer text, and what it matches is cut."""

    name: str
    pattern: re.Pattern[str]


class LineRule(msgspec.Struct, frozen=True, kw_only=True):
    """Each line that `pattern` matches whole gives way to `replacement`; None drops it with its line end. `where`: every system and
    developer text, or the description of every tool."""

    name: str
    where: Literal["system", "tool_description"]
    pattern: LinePattern
    replacement: str | None = None


StabilizerRule = HeadRule | LineRule

ANTHROPIC_PREAMBLE = HeadRule(
    name="strip-anthropic-preamble",
    # Measured grammar (Claude Code 2.1.197 and 2.1.332): `x-anthropic-billing-header: key=value; key=value;`, one line, as a block of its
    # own or as the first line of a longer text. Key and value vary by version, entry point, sub-agent and workload.
    pattern=re.compile(r"\s*x-anthropic-billing-header:(?:[ \t]*[\w.-]+=[^;\r\n]*(?:;|(?=\r?\n|\Z)))*[ \t]*(?:\r?\n)*", re.IGNORECASE),
)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
BUILT_IN: tuple[StabilizerRule, ...] = (ANTHROPIC_PREAMBLE,)


def stabilize(request: TurnRequest, rules: Sequence[StabilizerRule]) -> tuple[TurnRequest, tuple[str, ...]]:
    """The request without unstable prompt text, and the names of the rules that acted, in their order."""
    acted = []
    for rule in rules:
        found = _cut_head(request, rule) if isinstance(rule, HeadRule) else _edit_lines(request, rule)
        if found is not request:
            request = found
            acted.append(rule.name)
    return request, tuple(acted)


def _cut_head(request: TurnRequest, rule: HeadRule) -> TurnRequest:
    at = next((i for i, message in enumerate(request.messages) if isinstance(message, SystemMessage)), None)
    if at is None:
        return request

    def cut(text: str) -> str:
        found = rule.pattern.match(text)
        return text[found.end() :] if found else text

    return _with_system(request, cut, places=range(at, at + 1))


def _edit_lines(request: TurnRequest, rule: LineRule) -> TurnRequest:
    if rule.where == "system":
        return _with_system(request, lambda text: edited(text, rule), places=range(len(request.messages)))
    tools = tuple(_described(tool, rule) for tool in request.tools)
    return request if all(map(_is, tools, request.tools)) else msgspec.structs.replace(request, tools=tools)


def _described(tool: Tool, rule: LineRule) -> Tool:
    text = edited(tool.description or "", rule)
    return tool if text == (tool.description or "") else msgspec.structs.replace(tool, description=text)


def _with_system(request: TurnRequest, change: Callable[[str], str], *, places: range) -> TurnRequest:
    """The request with its system texts at some places changed. A text that nothing is left of leaves no message behind."""
    messages = list(request.messages)
    for index in reversed(places):
        message = messages[index]
        if not isinstance(message, SystemMessage):
            continue
        text = change(message.text)
        if text != message.text:
            messages[index : index + 1] = [SystemMessage(text)] if text else []
    # Lengths and identities tell; comparing long histories would cost more than the rules do.
    same = len(messages) == len(request.messages) and all(map(_is, messages, request.messages))
    return request if same else msgspec.structs.replace(request, messages=tuple(messages))


def _is(one: object, other: object) -> bool:
    return one is other


def edited(text: str, rule: LineRule) -> str:
    """A text with the lines that the rule matches replaced or dropped. Other lines keep their ends."""
    return _remembered(text, rule) if REMEMBERED[0] <= len(text) <= REMEMBERED[1] else _edited(text, rule)


# A session sends the same system text again and again. Shorter texts cost less than they are worth; longer ones would fill the memory.
REMEMBERED = 4096, 1 << 17


@lru_cache(maxsize=64)
def _remembered(text: str, rule: LineRule) -> str:
    return _edited(text, rule)


def _edited(text: str, rule: LineRule) -> str:
    out = []
    for line in _LINES.findall(text):
        bare = line.rstrip("\r\n")
        if not rule.pattern.matches(bare):
            out.append(line)
        elif rule.replacement is not None:
            out.append(rule.replacement + line[len(bare) :])
    return "".join(out)
