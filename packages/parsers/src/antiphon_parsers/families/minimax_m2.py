"""minimax_m2: invoke and parameter tags in one block. MiniMax M2, M2.1, M2.5, M2.7."""

from collections.abc import Sequence

from antiphon_parsers.arguments import pairs, string_value
from antiphon_parsers.engine.invoke_calls import InvokeCalls
from antiphon_parsers.families.parts import UNTYPED, ReasoningPart, ToolPart, offer
from antiphon_parsers.forcing.forms import CallFormat, TagArguments
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

OPEN = "<minimax:tool_call>"
CLOSE = "</minimax:tool_call>"


SYNTAX = InvokeCalls(
    block_open=(OPEN,),
    block_close=(CLOSE,),
    call_open=("<invoke name=",),
    call_close=("</invoke>",),
    parameter_open=("<parameter name=",),
    parameter_close=("</parameter>",),
)
CALL_FORMAT = CallFormat(
    block_open=f"{OPEN}\n",
    before='<invoke name="',
    behind='">\n',
    arguments=TagArguments(open='<parameter name="', key_end='">', close="</parameter>\n", syntax=SYNTAX),
    close="</invoke>\n",
    block_close=CLOSE,
)


def write_call(call: CallSegment) -> str:
    """One call as a block of its own."""
    return write_run([call], 0)


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """Strings raw, other values as their JSON text."""
    return f"{OPEN}\n{''.join(map(_invoke, calls))}{CLOSE}"


def _invoke(call: CallSegment) -> str:
    body = "".join(f'<parameter name="{key}">{string_value(raw)}</parameter>\n' for key, raw in pairs(call.arguments))
    return f'<invoke name="{call.name}">\n{body}</invoke>\n'


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    form = f'{OPEN}\n<invoke name="function name">\n<parameter name="parameter name">value</parameter>\n</invoke>\n{CLOSE}'
    return offer(tools, form, "Put several calls into one block, each in its own invoke tag.", UNTYPED)


TOOLS = ToolPart(
    name="minimax_m2",
    frame=Frame(assistant_header="]~b]ai\n", end_of_turn="[e~[", stop_tokens=("[e~[",)),
    markers=("]~!b[", "]~b]", "[e~[", OPEN, CLOSE, "<invoke name=", "</invoke>", "<parameter name=", "</parameter>"),
    calls=SYNTAX,
    call_format=CALL_FORMAT,
    write_call=write_call,
    write_run=write_run,
    write_tools=write_tools,
    detection=(
        DetectionRule(template_all=(OPEN,), confidence=0.95),
        DetectionRule(vocab_all=(OPEN, "]~b]"), confidence=0.6),
        DetectionRule(architectures=("MiniMaxM2ForCausalLM", "minimax-m2"), confidence=0.9),
    ),
    source="chat template of MiniMax M2",
)
REASONING = ReasoningPart(
    name="minimax_m2",
    markers=ReasoningMarkers("<think>", "</think>"),
    replay=ReplayPolicy(keep="after_last_user"),
    switches=TemplateSwitches(),
    detection=(DetectionRule(template_all=("<think>", OPEN), confidence=0.95),),
    source="chat template of MiniMax M2",
)
APPEND_THINK = ReasoningPart(
    name="minimax_append_think",
    markers=None,
    preface="<think>",
    replay=ReplayPolicy(keep="none"),
    switches=TemplateSwitches(),
    source="chat template of MiniMax M2; the prompt opens the block, the text keeps it",
)
