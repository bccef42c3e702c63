"""hermes: one JSON object between <tool_call> and </tool_call>. Qwen2.5, QwQ, Qwen3, Hermes 2 Pro and later, and the
best guess for a ChatML model that says nothing about tools."""

from collections.abc import Sequence

from antiphon_parsers.arguments import as_object, json_text, tool_lines
from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.families.parts import CHATML, CHATML_MARKERS, RESULT_MARKERS, ToolPart
from antiphon_parsers.forcing.forms import json_envelope
from antiphon_turns import CallSegment, DetectionRule, Tool

OPEN = "<tool_call>"
CLOSE = "</tool_call>"
# Templates with these have another call format, or its own frame.
OTHERS = ("<function=", "<arg_key>", "<invoke ", "<|start_of_role|>")


CALL_FORMAT = json_envelope(f"{OPEN}\n", f"\n{CLOSE}", between="\n")


def write_call(call: CallSegment) -> str:
    """The arguments stay as they are; text that is no JSON object is passed as a JSON string."""
    arguments = as_object(call.arguments)
    return f'{OPEN}\n{{"name": {json_text(call.name)}, "arguments": {arguments or json_text(call.arguments)}}}\n{CLOSE}'


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    return (
        "You can call these functions. Each line describes one, with its parameters as a JSON schema:\n"
        f"<tools>\n{tool_lines(tools)}\n</tools>\n\n"
        "To call a function, answer with a block of exactly this form, one block for each call:\n"
        f'{OPEN}\n{{"name": "function name", "arguments": {{"parameter": "value"}}}}\n{CLOSE}\n'
        "The arguments must be one JSON object that fits the function's schema. "
        "The result comes back inside <tool_response></tool_response>. When no function is needed, answer in plain text."
    )


TOOLS = ToolPart(
    name="hermes",
    frame=CHATML,
    markers=(*CHATML_MARKERS, OPEN, CLOSE, *RESULT_MARKERS),
    calls=JsonCalls(opener=OPEN, closer=CLOSE),
    call_format=CALL_FORMAT,
    write_call=write_call,
    write_tools=write_tools,
    detection=(
        DetectionRule(template_all=(OPEN, CLOSE), template_none=OTHERS, confidence=0.9),
        DetectionRule(
            template_all=(OPEN,),
            template_any=('"arguments":', '\\"arguments\\":'),
            template_none=("<|start_of_role|>",),
            confidence=0.85,
        ),
        DetectionRule(vocab_all=("<|im_start|>", OPEN), template_none=OTHERS, confidence=0.45),
        DetectionRule(template_all=("<|im_start|>",), template_none=(*OTHERS, OPEN), confidence=0.4),
    ),
    source="chat templates of Qwen2.5 and Qwen3",
)
