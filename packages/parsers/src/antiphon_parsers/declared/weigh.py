"""What a model's own declaration adds to what was found out about it: a family that reads the declared calls is confirmed; where none
does, the declaration is taken, and the difference is told."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from antiphon_parsers.detection import Candidate, Detection
from antiphon_parsers.families.hf import NAME, Declared, declare
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_parsers.parser import Parser
from antiphon_parsers.registry import REASONING_PARTS, resolve
from antiphon_turns import CallReady, CallSegment, Opening, Tool
from antiphon_turns.errors import ConfigError

_PROBE = CallSegment("probe", '{"text": "a b"}')
_PROBE_TOOL = Tool(name="probe", parameters='{"type": "object", "properties": {"text": {"type": "string"}}}')
UNSURE = 0.5
"""Below this a family is only the usual guess, and a declaration is better."""


def weigh(found: Detection, declaration: Mapping[str, Any], *, template: str = "", turn_ends: Sequence[str] = ()) -> Detection:
    """The detection with the model's `response_template` taken into account. A declaration that is not read changes nothing but the
    reason."""
    try:
        declared = declare(declaration, template=template, turn_ends=turn_ends)
    except ConfigError as error:
        return msgspec.structs.replace(found, reason=f"{found.reason} Its own declaration is not read: {error.message}.")
    if declared.tools.messages is not None:
        return _taken(found, declared, tools=True, reasoning=True)
    agreeing = [name for name in _names(found, "tool", found.tool_parser) if _reads(name, declared)]
    reasoning = [name for name in _names(found, "reasoning", found.reasoning_parser) if _same_markers(name, declared)]
    takes_tools = declared.tools.calls is not None and not agreeing
    takes_reasoning = declared.reasoning is not None and not reasoning
    if takes_tools or takes_reasoning:
        return _taken(found, declared, tools=takes_tools, reasoning=takes_reasoning)
    return msgspec.structs.replace(
        found,
        tool_parser=agreeing[0] if agreeing else found.tool_parser,
        reasoning_parser=reasoning[0] if reasoning else found.reasoning_parser,
        reason=f"{found.reason} Its own response_template declares the same.",
        confidence=max(found.confidence, 0.95 if agreeing else found.confidence),
        others=(),
        declared=declared,
    )


def _names(found: Detection, kind: Literal["tool", "reasoning"], first: str | None) -> list[str]:
    """The families in question, the likeliest first."""
    return [*([first] if first else []), *(other.name for other in found.others if other.kind == kind)]


def _reads(name: str, declared: Declared) -> bool:
    """Whether a family reads a call as the declaration writes it."""
    if declared.tools.calls is None:
        return False
    parser = Parser(resolve(name, None).grammar, tools=(_PROBE_TOOL,), opening=Opening("text"), turn_tag="")
    events = [*parser.feed(declared.tools.write_call(_PROBE)), *parser.finish("stop")]
    ready = [event for event in events if isinstance(event, CallReady)]
    return [(call.name, msgspec.json.decode(call.arguments)) for call in ready] == [(_PROBE.name, {"text": "a b"})]


def _same_markers(name: str, declared: Declared) -> bool:
    ours, theirs = REASONING_PARTS[name].markers, declared.reasoning.markers if declared.reasoning else None
    return ours is not None and theirs is not None and _shared(ours, theirs)


def _shared(ours: ReasoningMarkers, theirs: ReasoningMarkers) -> bool:
    return theirs.opener in (ours.opener, *ours.spellings[0]) and theirs.closer in (ours.closer, *ours.spellings[1])


def _taken(found: Detection, declared: Declared, *, tools: bool, reasoning: bool) -> Detection:
    """The declaration instead of a family, in one half or both; a family that had seemed sure stays named as another reading."""
    sure = found.confidence >= UNSURE or found.others
    halves: tuple[tuple[Literal["tool", "reasoning"], str | None, bool], ...] = (
        ("tool", found.tool_parser, tools),
        ("reasoning", found.reasoning_parser, reasoning),
    )
    reason = "what is known of its template, vocabulary or architecture says so"
    others = [
        Candidate(kind=kind, name=name, reason=reason, confidence=found.confidence)
        for kind, name, taken in halves
        if name is not None and taken and sure
    ]
    named = "; ".join(f"{other.name} for {'calls' if other.kind == 'tool' else 'reasoning'}" for other in others)
    doubt = f" Its other marks would also fit {named}; name the parser by hand if the output is read wrongly." if others else ""
    declares = " and ".join(word for word, taken in (("calls", tools), ("reasoning", reasoning)) if taken)
    return Detection(
        tool_parser=(NAME if declared.tools.calls is not None else None) if tools else found.tool_parser,
        reasoning_parser=(NAME if declared.reasoning is not None else None) if reasoning else found.reasoning_parser,
        reason=f"The model declares how its {declares} are written, as response_template in tokenizer_config.json.{doubt}",
        confidence=UNSURE if others else 0.95,
        others=tuple(others),
        declared=declared,
    )
