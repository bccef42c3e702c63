"""seed_oss: function and parameter tags with values in line, in wrappers of its own. Seed-OSS."""

from collections.abc import Sequence

from antiphon_parsers.engine.xml_calls import XmlCalls
from antiphon_parsers.families.parts import UNTYPED, ReasoningPart, ToolPart, levels, offer
from antiphon_parsers.families.qwen3_coder import inline_format, write_inline
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

SYNTAX = XmlCalls(
    block_open=("<seed:tool_call>",),
    block_close=("</seed:tool_call>",),
    call_open=("<function=",),
    call_close=("</function>",),
    parameter_open=("<parameter=",),
    parameter_close=("</parameter>",),
    framed_values=False,
)


def write_call(call: CallSegment) -> str:
    """Strings raw, other values as their JSON text."""
    return write_inline(call, SYNTAX)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    form = "<seed:tool_call>\n<function=function name>\n<parameter=parameter name>value</parameter>\n</function>\n</seed:tool_call>"
    return offer(tools, form, "Repeat the block for every call.", UNTYPED)


TOOLS = ToolPart(
    name="seed_oss",
    frame=Frame(assistant_header="<seed:bos>assistant\n", end_of_turn="<seed:eos>", stop_tokens=("<seed:eos>",)),
    markers=("<seed:bos>", "<seed:eos>", *SYNTAX.openers, *SYNTAX.closers, "</function>", "<parameter=", "</parameter>"),
    calls=SYNTAX,
    call_format=inline_format(SYNTAX),
    write_call=write_call,
    write_tools=write_tools,
    detection=(
        DetectionRule(template_any=("<seed:tool_call>", "seed:tool_call"), confidence=0.97),
        DetectionRule(architectures=("SeedOssForCausalLM", "seed_oss"), confidence=0.85),
    ),
    source="chat template of Seed-OSS",
)
REASONING = ReasoningPart(
    name="seed_oss",
    markers=ReasoningMarkers("<seed:think>", "</seed:think>", lead=0, tail=0, behind=1),
    replay=ReplayPolicy(keep="all"),
    switches=TemplateSwitches(
        thinking_on={"thinking_budget": -1},
        thinking_off={"thinking_budget": 0},
        # Budgets of those the model was trained with; it has no words for levels. The system text names the budget.
        effort=levels("thinking_budget", minimal=512, low=1024, medium=4096, high=16384, max=-1),
        effort_at_head=True,
        budget="thinking_budget",
        allowed=frozenset(("thinking_budget",)),
    ),
    detection=(DetectionRule(template_any=("<seed:think>", "seed:think"), confidence=0.97),),
    source="chat template of Seed-OSS",
)
