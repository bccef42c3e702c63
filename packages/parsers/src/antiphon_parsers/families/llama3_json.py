"""llama3_json: calls as JSON objects, behind a tag or as all of the turn. Llama 3.1 to 3.3."""

from collections.abc import Sequence

from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.families.parts import LLAMA3, LLAMA3_MARKERS, TYPED, ToolPart, json_call, offer
from antiphon_parsers.forcing.forms import json_envelope
from antiphon_turns import CallSegment, DetectionRule, Tool

OPEN = "<|python_tag|>"


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """All calls behind one tag."""
    return OPEN + "; ".join(json_call(call, "parameters") for call in calls)


def write_call(call: CallSegment) -> str:
    """One call behind a tag."""
    return write_run([call], 0)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    form = f'{OPEN}{{"name": "function name", "parameters": {{"parameter": "value"}}}}'
    return offer(tools, form, "Put a semicolon between several calls.", TYPED)


TOOLS = ToolPart(
    name="llama3_json",
    frame=LLAMA3,
    markers=(*LLAMA3_MARKERS, OPEN),
    calls=JsonCalls(opener=OPEN, closer="", separator=";", bare=True, argument_keys=("parameters", "arguments")),
    call_format=json_envelope("", "", key="parameters", block_open=OPEN, between="; "),
    write_call=write_call,
    write_run=write_run,
    write_tools=write_tools,
    gap=0,
    detection=(
        DetectionRule(
            template_all=("<|start_header_id|>",),
            template_any=('"parameters": ', OPEN),
            template_none=("<tool_call>", "<TOOLCALL>", "<function=", "[func_name"),
            confidence=0.9,
        ),
    ),
    source="chat templates of Llama 3.1, 3.2 and 3.3",
)
