"""mimo: the tags of qwen3_coder with values in line and verbatim. MiMo-V2."""

from collections.abc import Sequence

from antiphon_parsers.engine.xml_calls import XmlCalls
from antiphon_parsers.families.parts import UNTYPED, ReasoningPart, ToolPart, offer
from antiphon_parsers.families.qwen3_coder import TOOLS as QWEN3_CODER
from antiphon_parsers.families.qwen3_coder import inline_format, write_inline
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, ReplayPolicy, TemplateSwitches, Tool

SYNTAX = XmlCalls(
    block_open=("<tool_call>",),
    block_close=("</tool_call>",),
    call_open=("<function=",),
    call_close=("</function>",),
    parameter_open=("<parameter=",),
    parameter_close=("</parameter>",),
    framed_values=False,
)
# The last is what GGUF files call it.
ARCHITECTURES = ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM", "mimo2")


def write_call(call: CallSegment) -> str:
    """Strings raw, other values as their JSON text."""
    return write_inline(call, SYNTAX)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    form = "<tool_call>\n<function=function name>\n<parameter=parameter name>value</parameter>\n</function>\n</tool_call>"
    return offer(tools, form, "Repeat the block for every call.", UNTYPED)


TOOLS = ToolPart(
    name="mimo",
    frame=QWEN3_CODER.frame,
    markers=QWEN3_CODER.markers,
    calls=SYNTAX,
    call_format=inline_format(SYNTAX),
    write_call=write_call,
    write_tools=write_tools,
    detection=(DetectionRule(template_all=("<function=", "<parameter="), architectures=ARCHITECTURES, confidence=0.97),),
    source="chat template of MiMo-V2",
)
REASONING = ReasoningPart(
    name="mimo",
    markers=ReasoningMarkers("<think>", "</think>", lead=0, tail=0, behind=0),
    replay=ReplayPolicy(keep="after_last_user"),
    switches=TemplateSwitches(
        thinking_on={"enable_thinking": True}, thinking_off={"enable_thinking": False}, allowed=frozenset(("enable_thinking",))
    ),
    detection=(DetectionRule(template_any=("<think>",), architectures=ARCHITECTURES, confidence=0.97),),
    source="chat template of MiMo-V2",
)
