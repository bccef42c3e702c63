"""mistral: a name and a JSON object behind a marker, and nothing that ends a call. Tokenizer version 11 and later: Mistral
Small 3.2 and later, Ministral 3, Magistral, Devstral. The list form of older versions is read too."""

import re
from collections.abc import Sequence

from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.engine.named_calls import NamedCalls
from antiphon_parsers.families.parts import TYPED, ReasoningPart, ToolPart, argument_text, levels, offer
from antiphon_parsers.forcing.forms import CallFormat
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

CALL, CALL_ID, ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
LIST_END = "[/TOOL_CALLS]"
_NAME = r'[^\s\[\]{}<>"]+'

SYNTAX = NamedCalls(
    opener=CALL,
    header=rf"\s*+(?P<name>{_NAME})\s*+(?:{re.escape(CALL_ID)}\s*+[\w-]*\s*+)?{re.escape(ARGUMENTS)}\s*+|(?P<known>{_NAME})\s*+",
    growing=rf"\s*+(?:{_NAME})?\s*+(?:\[[A-Z_]*\]?\s*+[\w-]*\s*+)*",
    separators=(CALL_ID, ARGUMENTS),
    listed=JsonCalls(opener=CALL, closer=LIST_END, listed=True, separator=","),
)

FRAME = Frame(assistant_header="[/INST]", end_of_turn="</s>", stop_tokens=("</s>",), result_ends=("[/TOOL_RESULTS]",))
MARKERS = (
    *("<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]", CALL, LIST_END, CALL_ID, ARGUMENTS),
)


def write_id(name: str, number: int) -> str:
    """Templates refuse ids that are not nine letters and digits."""
    return f"{number:09d}"


def write_call(call: CallSegment) -> str:
    """The form of version 13, which has no ids."""
    return f"{CALL}{call.name}{ARGUMENTS}{argument_text(call)}"


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    return offer(tools, f'{CALL}function_name{ARGUMENTS}{{"parameter": "value"}}', "Write the same once more for each further call.", TYPED)


TOOLS = ToolPart(
    name="mistral",
    frame=FRAME,
    markers=MARKERS,
    calls=SYNTAX,
    call_format=CallFormat(before=CALL, behind=ARGUMENTS, close=""),
    write_call=write_call,
    write_id=write_id,
    write_tools=write_tools,
    gap=0,
    template="mistral",
    detection=(
        DetectionRule(template_all=(CALL, ARGUMENTS), confidence=0.95),
        DetectionRule(vocab_all=(CALL, ARGUMENTS), template_none=(CALL,), confidence=0.8),
    ),
    source="chat templates of Mistral Small 3.2 and Magistral, and the token scheme of mistral-common",
)

REASONING = ReasoningPart(
    name="mistral",
    # Version 11 writes the markers as text.
    markers=ReasoningMarkers("[THINK]", "[/THINK]", lead=0, tail=0, behind=0, spellings=(("<think>",), ("</think>",))),
    replay=ReplayPolicy(keep="all"),
    # From version 15 on, among the settings before the first message.
    switches=TemplateSwitches(
        effort=levels("reasoning_effort", "none", "high"), effort_at_head=True, allowed=frozenset(("reasoning_effort",))
    ),
    detection=(
        DetectionRule(template_any=("[THINK]", "[/THINK]"), confidence=0.95),
        DetectionRule(vocab_all=("[THINK]", "[/THINK]"), confidence=0.8),
    ),
    source="chat template of Magistral, and the token scheme of mistral-common",
)
