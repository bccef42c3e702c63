"""kimi_k3: channels and calls as tags of three control tokens (XTML). Kimi K3."""

from collections.abc import Sequence

from antiphon_parsers.arguments import members, string_value, tool_lines
from antiphon_parsers.engine.attribute_calls import AttributeCalls
from antiphon_parsers.families.parts import MessageFormat, ReasoningPart, ToolPart, levels
from antiphon_parsers.forcing.forms import CallFormat, TagArguments
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import (
    CallSegment,
    DetectionRule,
    Frame,
    ReasoningSegment,
    ReplayPolicy,
    Segment,
    TemplateSwitches,
    TextSegment,
    Tool,
)


def attribute(value: str) -> str:
    """A value as it stands in a tag."""
    return value.replace("&", "&amp;").replace('"', "&quot;")


def opening(tag: str, **attributes: str) -> str:
    """An opening tag."""
    return f"<|open|>{tag}" + "".join(f' {key}="{attribute(value)}"' for key, value in attributes.items()) + "<|sep|>"


def closing(tag: str) -> str:
    """A closing tag."""
    return f"<|close|>{tag}<|sep|>"


END = closing("message")
END_OF_MESSAGE = "<|end_of_msg|>"

SYNTAX = AttributeCalls(
    sep="<|sep|>",
    call_open="<|open|>call",
    call_close=closing("call"),
    argument_open="<|open|>argument",
    argument_close=closing("argument"),
    json_open="<|open|>json",
    json_close=closing("json"),
    after_call=(closing("tools"), END),
)
_TYPE_NAMES = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


CALL_FORMAT = CallFormat(
    lead=opening("response") + closing("response"),
    block_open=opening("tools"),
    before='<|open|>call tool="',
    behind='" index="',
    numbered='"<|sep|>',
    arguments=TagArguments(
        open='<|open|>argument key="',
        key_end='" type="string"<|sep|>',
        kinds=tuple((kind, f'" type="{kind}"<|sep|>') for kind in ("string", "number", "boolean", "null", "object", "array")),
        close=SYNTAX.argument_close,
        escape=attribute,
        syntax=SYNTAX,
    ),
    close=SYNTAX.call_close,
    block_close=closing("tools"),
)


def write_call(call: CallSegment) -> str:
    """A tools channel with one call."""
    return f"{opening('tools')}{_call(call, 1)}{closing('tools')}"


def write_turn(segments: Sequence[Segment]) -> str:
    """A channel a segment; calls that follow each other share one, and are counted through the turn. A response channel stands before
    calls, an empty one where nothing was said."""
    parts: list[str] = []
    shown = [s for s in segments if (s.status != "truncated" if isinstance(s, CallSegment) else s.text)]
    count = 0
    for number, segment in enumerate(shown):
        if not isinstance(segment, CallSegment):
            channel = "think" if isinstance(segment, ReasoningSegment) else "response"
            parts.append(opening(channel) + segment.text + closing(channel))
            continue
        count += 1
        begins = number == 0 or not isinstance(shown[number - 1], CallSegment)
        ends = number + 1 == len(shown) or not isinstance(shown[number + 1], CallSegment)
        if begins and not (number and isinstance(shown[number - 1], TextSegment)):
            parts.append(opening("response") + closing("response"))
        parts.append((opening("tools") if begins else "") + _call(segment, count) + (closing("tools") if ends else ""))
    return "".join(parts)


def _call(call: CallSegment, index: int) -> str:
    """Strings raw, other values as their JSON text. Arguments that are no JSON object become one string."""
    found = members(call.arguments)
    if found is None:
        written = _argument("arguments", "string", call.arguments)
    else:
        written = "".join(_argument(key, _TYPE_NAMES.get(raw[0], "number"), string_value(raw)) for key, raw in found)
    return f"{opening('call', tool=call.name, index=str(index))}{written}{closing('call')}"


def _argument(key: str, kind: str, value: str) -> str:
    return f"{opening('argument', key=key, type=kind)}{value}{closing('argument')}"


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    call = opening("call", tool="function_name", index="1") + _argument("parameter_name", "string", "value") + closing("call")
    return (
        "You can call these functions. Each line describes one, with its parameters as a JSON schema:\n"
        f"<tools>\n{tool_lines(tools)}\n</tools>\n\n"
        "To call functions, end the answer with a tools channel of exactly this form, one call tag for each call, counted from 1:\n"
        f"{opening('tools')}{call}{closing('tools')}\n"
        "The type is string, number, boolean, null, object or array; write strings as they are and all other values as JSON. "
        "When no function is needed, leave the tools channel out."
    )


MESSAGES = MessageFormat(
    calls=SYNTAX,
    breaks=(
        *(opening("response"), closing("response"), opening("tools"), closing("tools")),
        *(SYNTAX.call_close, SYNTAX.json_close, END, END_OF_MESSAGE),
    ),
    write=write_turn,
)
_RULES = (
    DetectionRule(template_all=("<|open|>", "<|close|>", "<|sep|>"), confidence=0.95),
    DetectionRule(vocab_all=("<|open|>", "<|close|>", "<|sep|>", END_OF_MESSAGE), confidence=0.8),
    DetectionRule(architectures=("KimiK3ForConditionalGeneration",), confidence=0.9),
)

TOOLS = ToolPart(
    name="kimi_k3",
    frame=Frame(assistant_header=opening("message", role="assistant"), end_of_turn=END + END_OF_MESSAGE, stop_tokens=(END_OF_MESSAGE,)),
    markers=("<|open|>", "<|close|>", "<|sep|>", END_OF_MESSAGE),
    calls=SYNTAX,
    call_format=CALL_FORMAT,
    write_call=write_call,
    write_tools=write_tools,
    messages=MESSAGES,
    template="kimi_k3",
    detection=_RULES,
    source="chat template of Kimi K3",
)

REASONING = ReasoningPart(
    name="kimi_k3",
    markers=ReasoningMarkers(opening("think"), closing("think"), lead=0, tail=0, behind=0),
    replay=ReplayPolicy(keep="all"),
    switches=TemplateSwitches(
        thinking_on={"thinking": True},
        thinking_off={"thinking": False},
        effort=levels("thinking_effort", "low", "medium", "high", "max"),
        effort_at_head=True,
        allowed=frozenset(("thinking", "thinking_effort")),
    ),
    messages=MESSAGES,
    detection=_RULES,
    source="chat template of Kimi K3",
)
