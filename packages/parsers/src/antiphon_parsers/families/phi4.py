"""phi4: calls as one JSON list behind a word. Phi-4-mini."""

from collections.abc import Sequence

from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.families.parts import TYPED, ToolPart, json_call, offer
from antiphon_parsers.forcing.forms import json_envelope
from antiphon_turns import CallSegment, DetectionRule, Frame, Tool

# The word alone stands in ordinary text.
OPEN = "functools["


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """One list of all calls."""
    return f"{OPEN}{', '.join(map(json_call, calls))}]"


def write_call(call: CallSegment) -> str:
    """A list of one call."""
    return write_run([call], 0)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    form = f'{OPEN}{{"name": "function name", "arguments": {{"parameter": "value"}}}}]'
    return offer(tools, form, "The list may hold several calls.", TYPED)


TOOLS = ToolPart(
    name="phi4",
    frame=Frame(assistant_header="<|assistant|>", end_of_turn="<|end|>", stop_tokens=("<|end|>", "<|endoftext|>")),
    # The word is none of them: it is no token, and ordinary text holds it.
    markers=("<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|endoftext|>", "<|tool|>", "<|/tool|>", "<|tool_response|>"),
    calls=JsonCalls(opener=OPEN, closer="", listed=True, separator=","),
    call_format=json_envelope("", "", block_open=OPEN, between=", ", block_close="]"),
    write_call=write_call,
    write_run=write_run,
    write_tools=write_tools,
    detection=(DetectionRule(template_all=("<|tool|>", "<|/tool|>", "<|assistant|>"), template_none=("<|tool_call|>",), confidence=0.9),),
    source="chat template and model card of Phi-4-mini",
)
