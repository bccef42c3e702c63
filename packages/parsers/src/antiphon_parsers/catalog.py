"""What each format has, read off the parts themselves: for the command line and the support table."""

from typing import Literal

import msgspec

from antiphon_parsers.families.parts import CHATML as USUAL_FRAME
from antiphon_parsers.families.parts import ReasoningPart, ToolPart
from antiphon_parsers.registry import REASONING_PARTS, TOOL_PARTS, spellings
from antiphon_turns import DetectionRule
from antiphon_turns.effort import LEVELS


class FormatRow(msgspec.Struct, frozen=True, kw_only=True):
    """One name. `frame`: ChatML, or the family's own header. `call_grammar`: whether calls can be forced. `replay`: which past turns
    keep their reasoning, and the template variables that keep more. `thinking`: the variables a client's choice is mapped to.
    `detection`: what it is known by."""

    kind: Literal["tool", "reasoning"]
    name: str
    aliases: tuple[str, ...]
    writer: bool = True
    frame: str = ""
    call_grammar: bool = False
    replay: str = ""
    thinking: str = ""
    detection: str = "no"
    source: str = ""


def format_rows() -> list[FormatRow]:
    """Every tool parser, then every reasoning parser, each in the order of their names."""
    tools = [_tool_row(TOOL_PARTS[name]) for name in sorted(TOOL_PARTS)]
    return [*tools, *(_reasoning_row(REASONING_PARTS[name]) for name in sorted(REASONING_PARTS))]


def _tool_row(part: ToolPart) -> FormatRow:
    return FormatRow(
        kind="tool",
        name=part.name,
        aliases=spellings("tool", part.name),
        frame="ChatML" if part.frame == USUAL_FRAME else part.frame.assistant_header.strip(),
        call_grammar=part.call_format is not None,
        detection=evidence(part.detection),
        source=part.source,
    )


def _reasoning_row(part: ReasoningPart) -> FormatRow:
    kept = [f"all with {switch.variable}={str(switch.value).lower()}" for switch in part.replay_switches]
    without = [f"{part.replay.without_tools.replace('_', ' ')} without tools"] if part.replay.without_tools else []
    more = ", ".join([*kept, *without])
    return FormatRow(
        kind="reasoning",
        name=part.name,
        aliases=spellings("reasoning", part.name),
        writer=part.markers is not None,
        replay=part.replay.keep.replace("_", " ") + (f" ({more})" if more else ""),
        thinking=_thinking(part),
        detection=evidence(part.detection),
        source=part.source,
    )


def _thinking(part: ReasoningPart) -> str:
    """How a client's choice reaches the template: the variables that are true or false, or their two values."""
    on, off = part.switches.thinking_on, part.switches.thinking_off
    named = [key if (value, off.get(key)) == (True, False) else f"{key}={value}/{off.get(key)}" for key, value in on.items()]
    levels = [level for level in LEVELS if level in part.switches.effort]
    efforts = [f"effort {'/'.join(levels)}"] if levels else []
    return ", ".join([*named, *efforts]) or "none"


def evidence(rules: tuple[DetectionRule, ...]) -> str:
    """Which kinds of evidence the rules look at."""
    kinds = {
        "template": any(rule.template_all or rule.template_any for rule in rules),
        "vocabulary": any(rule.vocab_all for rule in rules),
        "architecture": any(rule.architectures for rule in rules),
    }
    return ", ".join(kind for kind, used in kinds.items() if used) or "no"
