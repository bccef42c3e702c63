"""nemotron_deci: calls as one JSON list between two markers. Llama-Nemotron Super and Ultra; and their <think>
blocks, which the system text turns on or off. Nemotron Nano v2 writes the same in another frame."""

from collections.abc import Sequence

from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.families.parts import LLAMA3, LLAMA3_MARKERS, TYPED, ReasoningPart, ReplaySwitch, ToolPart, json_call, offer
from antiphon_parsers.forcing.forms import json_envelope
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, ReplayPolicy, TemplateSwitches, Tool

OPEN, CLOSE = "<TOOLCALL>", "</TOOLCALL>"


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """One list of all calls."""
    return f"{OPEN}[{', '.join(map(json_call, calls))}]{CLOSE}"


def write_call(call: CallSegment) -> str:
    """A list of one call."""
    return write_run([call], 0)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    form = f'{OPEN}[{{"name": "function name", "arguments": {{"parameter": "value"}}}}]{CLOSE}'
    return offer(tools, form, "The list may hold several calls.", TYPED)


TOOLS = ToolPart(
    name="nemotron_deci",
    frame=LLAMA3,
    markers=(*LLAMA3_MARKERS, OPEN, CLOSE, "<AVAILABLE_TOOLS>", "</AVAILABLE_TOOLS>", "<TOOL_RESPONSE>", "</TOOL_RESPONSE>"),
    calls=JsonCalls(opener=OPEN, closer=CLOSE, listed=True, separator=","),
    call_format=json_envelope("", "", block_open=f"{OPEN}[", between=", ", block_close=f"]{CLOSE}"),
    write_call=write_call,
    write_run=write_run,
    write_tools=write_tools,
    detection=(DetectionRule(template_all=(OPEN,), confidence=0.95),),
    source="chat templates of Llama-Nemotron Super v1.5 and Nemotron Nano v2",
)

REASONING = ReasoningPart(
    name="nemotron_deci",
    markers=ReasoningMarkers("<think>", "</think>"),
    replay=ReplayPolicy(keep="none"),
    # The name is also used for Nemotron 3, with the calls of qwen3_coder: its template has these variables, others ignore them.
    switches=TemplateSwitches(
        thinking_on={"enable_thinking": True}, thinking_off={"enable_thinking": False}, allowed=frozenset(("enable_thinking",))
    ),
    replay_switches=(ReplaySwitch(variable="truncate_history_thinking", value=False),),
    detection=(
        DetectionRule(template_all=("detailed thinking",), confidence=0.95),
        DetectionRule(template_all=(OPEN,), template_any=("<think>", "</think>"), confidence=0.95),
    ),
    source="chat templates of Llama-Nemotron Super v1.5",
)
