"""qwen3_coder: function and parameter tags inside <tool_call>. Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step 3.5."""

from collections.abc import Sequence

from antiphon_parsers.arguments import pairs, string_value, tool_lines
from antiphon_parsers.engine.xml_calls import XmlCalls
from antiphon_parsers.families.parts import CHATML, CHATML_MARKERS, RESULT_MARKERS, ToolPart
from antiphon_parsers.forcing.forms import CallFormat, TagArguments
from antiphon_turns import CallSegment, DetectionRule, Tool

SYNTAX = XmlCalls(
    block_open=("<tool_call>",),
    block_close=("</tool_call>",),
    call_open=("<function=",),
    call_close=("</function>",),
    parameter_open=("<parameter=",),
    parameter_close=("</parameter>",),
)


CALL_FORMAT = CallFormat(
    before="<tool_call>\n<function=",
    behind=">\n",
    arguments=TagArguments(open="<parameter=", key_end=">\n", close="\n</parameter>\n", syntax=SYNTAX),
    close="</function>\n</tool_call>",
    between="\n",
)


def write_call(call: CallSegment) -> str:
    """Strings raw, other values as their JSON text. Arguments that are no JSON object become one raw parameter."""
    body = "".join(f"<parameter={key}>\n{string_value(raw)}\n</parameter>\n" for key, raw in pairs(call.arguments))
    return f"<tool_call>\n<function={call.name}>\n{body}</function>\n</tool_call>"


def write_inline(call: CallSegment, tags: XmlCalls) -> str:
    """The same in the tags of a variant that sets no line feeds around values."""
    body = "".join(f"<parameter={key}>{string_value(raw)}</parameter>\n" for key, raw in pairs(call.arguments))
    return f"{tags.block_open[0]}\n<function={call.name}>\n{body}</function>\n{tags.block_close[0]}"


def inline_format(tags: XmlCalls) -> CallFormat:
    """The call format of such a variant."""
    return CallFormat(
        before=f"{tags.block_open[0]}\n<function=",
        behind=">\n",
        arguments=TagArguments(open="<parameter=", key_end=">", close="</parameter>\n", syntax=tags),
        close=f"</function>\n{tags.block_close[0]}",
        between="\n",
    )


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    return (
        "You can call these functions. Each line describes one, with its parameters as a JSON schema:\n"
        f"<tools>\n{tool_lines(tools)}\n</tools>\n\n"
        "To call a function, answer with a block of exactly this form, one block for each call:\n"
        "<tool_call>\n<function=function_name>\n<parameter=parameter_name>\nvalue\n</parameter>\n</function>\n</tool_call>\n"
        "Write text values as they are, without quotes or escapes, over several lines if need be; write all other values as JSON. "
        "Give every required parameter. The result comes back inside <tool_response></tool_response>. "
        "When no function is needed, answer in plain text."
    )


TOOLS = ToolPart(
    name="qwen3_coder",
    frame=CHATML,
    markers=(
        *CHATML_MARKERS,
        *(*SYNTAX.block_open, *SYNTAX.block_close, *SYNTAX.call_open, *SYNTAX.call_close),
        *(*SYNTAX.parameter_open, *SYNTAX.parameter_close),
        *RESULT_MARKERS,
    ),
    calls=SYNTAX,
    call_format=CALL_FORMAT,
    write_call=write_call,
    write_tools=write_tools,
    detection=(DetectionRule(template_all=("<function=", "<parameter="), template_none=("seed:tool_call",), confidence=0.95),),
    source="chat templates of Qwen3-Coder, Qwen3.5 and Nemotron 3",
)
