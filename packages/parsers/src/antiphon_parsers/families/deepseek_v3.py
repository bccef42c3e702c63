"""deepseek_v3: calls in a section, the arguments in a fence. DeepSeek V3-0324 and R1-0528."""

import re
from collections.abc import Sequence

from antiphon_parsers.engine.named_calls import NamedCalls
from antiphon_parsers.families.parts import TYPED, ToolPart, argument_text, offer
from antiphon_parsers.forcing.forms import CallFormat
from antiphon_turns import CallSegment, DetectionRule, Frame, Tool

SECTION, SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEPARATOR, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_NAME = r'[^\s<>{}"`｜]+'

# The forms of V3 (a type word, then the name, then a fence) and of V3.1 (the name alone): models mix them.
SYNTAX = NamedCalls(
    sections=(SECTION,),
    section_ends=(SECTION_END,),
    opener=CALL,
    header=rf"(?=[^{{]*{re.escape(SEPARATOR)})\s*+(?:function{SEPARATOR}\s*+)?(?P<name>{_NAME})\s*+(?:{SEPARATOR}\s*+)?(?:```(?:json)?\s*+)?",
    growing=rf"\s*+(?:{_NAME})?\s*+(?:<[^\s>]*>?\s*+(?:{_NAME})?\s*+(?:<[^\s>]*>?\s*+)?`{{0,3}}(?:j|js|jso|json)?\s*+)?",
    separators=(SEPARATOR,),
    strays=(SEPARATOR,),
    fence=("```",),
    closer=CALL_END,
)

FRAME = Frame(
    assistant_header="<｜Assistant｜>",
    end_of_turn="<｜end▁of▁sentence｜>",
    stop_tokens=("<｜end▁of▁sentence｜>",),
    result_ends=("<｜tool▁outputs▁end｜>", "<｜tool▁output▁end｜>"),
)
MARKERS = (
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", SECTION, SECTION_END, CALL, SEPARATOR, CALL_END),
    *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
)


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """One section, one call a line."""
    blocks = (f"{CALL}function{SEPARATOR}{call.name}\n```json\n{argument_text(call)}\n```{CALL_END}" for call in calls)
    joined = "\n".join(blocks)
    return f"{SECTION}{joined}{SECTION_END}"


def write_call(call: CallSegment) -> str:
    """A section of one call."""
    return write_run([call], 0)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    example = f'{CALL}function{SEPARATOR}function_name\n```json\n{{"parameter": "value"}}\n```{CALL_END}'
    return offer(tools, f"{SECTION}{example}{SECTION_END}", "A section may hold several calls, one after the other.", TYPED)


TOOLS = ToolPart(
    name="deepseek_v3",
    frame=FRAME,
    markers=MARKERS,
    calls=SYNTAX,
    call_format=CallFormat(
        block_open=SECTION,
        before=f"{CALL}function{SEPARATOR}",
        behind="\n```json\n",
        close=f"\n```{CALL_END}",
        between="\n",
        block_close=SECTION_END,
    ),
    write_call=write_call,
    write_run=write_run,
    write_tools=write_tools,
    gap=0,
    detection=(DetectionRule(template_all=(SECTION, SEPARATOR, "```json"), confidence=0.95),),
    source="chat templates of DeepSeek V3-0324 and R1-0528",
)
