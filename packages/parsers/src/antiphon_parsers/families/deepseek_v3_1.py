"""deepseek_v3_1: calls in a section, the name before the arguments. DeepSeek V3.1; and its <think> blocks, which the
prompt opens or closes."""

from collections.abc import Sequence

from antiphon_parsers.families.deepseek_v3 import CALL, CALL_END, FRAME, MARKERS, SECTION, SECTION_END, SEPARATOR, SYNTAX
from antiphon_parsers.families.parts import TYPED, ReasoningPart, ToolPart, argument_text, offer
from antiphon_parsers.forcing.forms import CallFormat
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, ReplayPolicy, TemplateSwitches, Tool


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """One section, the calls with nothing between them."""
    blocks = (f"{CALL}{call.name}{SEPARATOR}{argument_text(call)}{CALL_END}" for call in calls)
    return f"{SECTION}{''.join(blocks)}{SECTION_END}"


def write_call(call: CallSegment) -> str:
    """A section of one call."""
    return write_run([call], 0)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    example = f'{CALL}function_name{SEPARATOR}{{"parameter": "value"}}{CALL_END}'
    return offer(tools, f"{SECTION}{example}{SECTION_END}", "A section may hold several calls, one after the other.", TYPED)


TOOLS = ToolPart(
    name="deepseek_v3_1",
    frame=FRAME,
    markers=MARKERS,
    calls=SYNTAX,
    call_format=CallFormat(block_open=SECTION, before=CALL, behind=SEPARATOR, close=CALL_END, block_close=SECTION_END),
    write_call=write_call,
    write_run=write_run,
    write_tools=write_tools,
    gap=0,
    detection=(DetectionRule(template_all=(SECTION, SEPARATOR), template_none=("```json",), confidence=0.95),),
    source="chat template of DeepSeek V3.1",
)

REASONING = ReasoningPart(
    name="deepseek_v3_1",
    markers=ReasoningMarkers("<think>", "</think>", lead=0, tail=0, behind=0),
    replay=ReplayPolicy(keep="none", empty_block="</think>"),
    switches=TemplateSwitches(
        thinking_on={"thinking": True},
        thinking_off={"thinking": False},
        allowed=frozenset(("thinking", "enable_thinking")),
    ),
    detection=(DetectionRule(template_all=("<｜Assistant｜>", "</think>", "thinking"), confidence=0.96),),
    source="chat template of DeepSeek V3.1",
)
