"""harmony: messages on channels. gpt-oss. A call is a commentary message to a recipient, reasoning the analysis channel."""

from collections.abc import Sequence

from antiphon_parsers.arguments import as_object, json_text, tool_lines
from antiphon_parsers.engine.message_calls import MessageCalls
from antiphon_parsers.families.parts import MessageFormat, ReasoningPart, ToolPart, levels
from antiphon_parsers.forcing.forms import CallFormat
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

HEADER = "<|start|>assistant"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"

SYNTAX = MessageCalls(
    start="<|start|>",
    channel="<|channel|>",
    constrain="<|constrain|>",
    body="<|message|>",
    ends=(CALL, END, RETURN),
    reasoning_channels=("analysis",),
    recipient_prefix="functions.",
    no_recipients=("assistant", "user", "all"),
)


CALL_FORMAT = CallFormat(
    before="<|channel|>commentary to=functions.", behind=" <|constrain|>json<|message|>", close=CALL, between=HEADER, single=True
)


def write_call(call: CallSegment) -> str:
    """A message to the function; the arguments stay as they are. Text that is no JSON object becomes one member."""
    arguments = as_object(call.arguments) or f'{{"arguments": {json_text(call.arguments)}}}'
    return f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>{arguments}{CALL}"


def write_turn(segments: Sequence[Segment]) -> str:
    """A message a segment. Text before a call is a preamble, other text is final. The frame ends a last message of text."""
    shown = [s for s in segments if (s.status != "truncated" if isinstance(s, CallSegment) else s.text)]
    calls = [number for number, segment in enumerate(shown) if isinstance(segment, CallSegment)]
    messages = [_message(segment, final=number > max(calls, default=-1)) for number, segment in enumerate(shown)]
    turn = HEADER.join(messages)
    return turn.removesuffix(END) if shown and isinstance(shown[-1], TextSegment) else turn


def _message(segment: Segment, *, final: bool) -> str:
    if isinstance(segment, CallSegment):
        return write_call(segment)
    channel = "analysis" if isinstance(segment, ReasoningSegment) else "final" if final else "commentary"
    return f"<|channel|>{channel}<|message|>{segment.text}{END}"


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    return (
        "You can call these functions, in the namespace functions. Each line describes one, with its parameters as a JSON schema:\n"
        f"<tools>\n{tool_lines(tools)}\n</tools>\n\n"
        "To call one, send a message of exactly this form, whose body is one JSON object that fits the function's schema:\n"
        f'<|channel|>commentary to=functions.function_name <|constrain|>json<|message|>{{"parameter": "value"}}{CALL}\n'
        "When no function is needed, answer on the final channel."
    )


MESSAGES = MessageFormat(calls=SYNTAX, breaks=SYNTAX.ends, write=write_turn)
_RULES = (
    DetectionRule(template_all=("<|channel|>", "<|message|>", "<|start|>"), confidence=0.95),
    DetectionRule(vocab_all=("<|channel|>", "<|constrain|>", "<|message|>"), confidence=0.6),
    DetectionRule(architectures=("GptOssForCausalLM", "gpt-oss"), confidence=0.9),
)

TOOLS = ToolPart(
    name="harmony",
    frame=Frame(assistant_header=HEADER, end_of_turn=END, stop_tokens=(RETURN, CALL)),
    markers=SYNTAX.tokens,
    calls=SYNTAX,
    call_format=CALL_FORMAT,
    write_call=write_call,
    write_tools=write_tools,
    messages=MESSAGES,
    template="harmony",
    detection=_RULES,
    source="the harmony response format as published for gpt-oss",
)

REASONING = ReasoningPart(
    name="gpt_oss",
    markers=ReasoningMarkers(opener="", closer=END, lead=0, tail=0, behind=0, then=HEADER),
    replay=ReplayPolicy(keep="after_last_final"),
    # Part of the system message; thinking has no off.
    switches=TemplateSwitches(
        effort=levels("reasoning_effort", "low", "medium", "high"),
        effort_at_head=True,
        allowed=frozenset(("reasoning_effort", "builtin_tools", "model_identity")),
    ),
    messages=MESSAGES,
    detection=_RULES,
    source="the harmony response format as published for gpt-oss",
)
