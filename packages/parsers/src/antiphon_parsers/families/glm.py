"""glm47 and glm45: a name, then pairs of key and value tags. GLM-4.7 and later write no white space between the tags,
GLM-4.5 and 4.6 a line feed behind each."""

from collections.abc import Sequence

from antiphon_parsers.arguments import pairs, string_value
from antiphon_parsers.engine.pair_calls import PairCalls
from antiphon_parsers.families.parts import RESULT_MARKERS, UNTYPED, ReasoningPart, ReplaySwitch, ToolPart, levels, offer
from antiphon_parsers.forcing.forms import CallFormat, TagArguments
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

SYNTAX = PairCalls(
    call_open=("<tool_call>",),
    call_close=("</tool_call>",),
    parameter_open=("<arg_key>",),
    key_close=("</arg_key>",),
    value_open=("<arg_value>",),
    parameter_close=("</arg_value>",),
    strays=("<|observation|>", "<|user|>", "<|endoftext|>"),
)
TAGS = (*SYNTAX.call_open, *SYNTAX.call_close, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
ROLES = ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|endoftext|>")
# A turn has no end of its own: the model says who speaks next.
FRAME = Frame(
    assistant_header="<|assistant|>",
    end_of_turn="<|user|>",
    stop_tokens=("<|user|>", "<|observation|>", "<|endoftext|>"),
)
GLM = ("[gMASK]", "<|observation|>")


def _call_format(gap: str) -> CallFormat:
    return CallFormat(
        before="<tool_call>",
        behind=gap,
        arguments=TagArguments(open="<arg_key>", key_end=f"</arg_key>{gap}<arg_value>", close=f"</arg_value>{gap}", syntax=SYNTAX),
        close="</tool_call>",
        between=gap,
    )


def write_call(call: CallSegment, gap: str = "") -> str:
    """Strings raw, other values as their JSON text, with `gap` behind the name and each tag that ends something."""
    body = "".join(f"<arg_key>{key}</arg_key>{gap}<arg_value>{string_value(raw)}</arg_value>{gap}" for key, raw in pairs(call.arguments))
    return f"<tool_call>{call.name}{gap}{body}</tool_call>"


def write_lines(call: CallSegment) -> str:
    """The same with a line feed behind the name and each tag."""
    return write_call(call, "\n")


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    return _offer(tools, "")


def write_tools_lines(tools: Sequence[Tool]) -> str:
    """The same for the form with line feeds."""
    return _offer(tools, "\n")


def _offer(tools: Sequence[Tool], gap: str) -> str:
    form = f"<tool_call>function name{gap}<arg_key>parameter name</arg_key>{gap}<arg_value>value</arg_value>{gap}</tool_call>"
    return offer(tools, form, "Repeat the pair for every parameter and the block for every call.", UNTYPED)


GLM47 = ToolPart(
    name="glm47",
    frame=FRAME,
    markers=(*ROLES, *TAGS, *RESULT_MARKERS),
    calls=SYNTAX,
    call_format=_call_format(""),
    write_call=write_call,
    write_tools=write_tools,
    gap=0,
    detection=(
        DetectionRule(template_all=("<arg_key>",), template_any=GLM, template_none=("/nothink", "<tool_sep>"), confidence=0.95),
        # GLM-4.7-Flash, GLM-5 and later; GLM-4.7 itself shares its architecture with 4.5.
        DetectionRule(architectures=("Glm4MoeLiteForCausalLM", "GlmMoeDsaForCausalLM", "Glm5NextForCausalLM", "glm-dsa"), confidence=0.8),
    ),
    source="chat templates of GLM-4.7 and GLM-5",
)
GLM45 = ToolPart(
    name="glm45",
    frame=FRAME,
    markers=GLM47.markers,
    calls=SYNTAX,
    call_format=_call_format("\n"),
    write_call=write_lines,
    write_tools=write_tools_lines,
    start=1,
    detection=(DetectionRule(template_all=("<arg_key>", "/nothink"), template_any=GLM, template_none=("<tool_sep>",), confidence=0.95),),
    source="chat templates of GLM-4.5 and GLM-4.6",
)

_SWITCHES = TemplateSwitches(
    thinking_on={"enable_thinking": True},
    thinking_off={"enable_thinking": False},
    # From GLM-5.2 on, as a header of the prompt.
    effort=levels("reasoning_effort", "low", "high", "max"),
    effort_at_head=True,
    allowed=frozenset(("enable_thinking", "clear_thinking", "reasoning_effort")),
)
GLM47_REASONING = ReasoningPart(
    name="glm47",
    markers=ReasoningMarkers("<think>", "</think>", lead=0, tail=0, behind=0),
    replay=ReplayPolicy(keep="after_last_user", empty_block="</think>"),
    switches=_SWITCHES,
    replay_switches=(ReplaySwitch(variable="clear_thinking", value=False),),
    detection=(DetectionRule(template_all=("<think>",), template_any=GLM, template_none=("/nothink",), confidence=0.95),),
    source="chat templates of GLM-4.7 and GLM-5",
)
GLM45_REASONING = ReasoningPart(
    name="glm45",
    markers=ReasoningMarkers("<think>", "</think>", lead=0, tail=0, behind=1),
    replay=ReplayPolicy(keep="after_last_user", empty_block="\n<think></think>"),
    switches=_SWITCHES,
    detection=(DetectionRule(template_all=("<think>", "/nothink"), template_any=GLM, confidence=0.95),),
    source="chat templates of GLM-4.5 and GLM-4.6",
)
