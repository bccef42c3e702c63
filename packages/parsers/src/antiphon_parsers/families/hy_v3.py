"""hy_v3: names behind a separator, pairs of key and value tags, all calls of a turn in one block. Tencent Hy3. All tokens of
a checkpoint may carry one suffix."""

from collections.abc import Sequence

from antiphon_parsers.arguments import pairs, string_value
from antiphon_parsers.engine.pair_calls import PairCalls
from antiphon_parsers.families.parts import UNTYPED, ReasoningPart, ReplaySwitch, ToolPart, levels, offer
from antiphon_parsers.forcing.forms import CallFormat, TagArguments
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

SUFFIXES = ("", ":opensource")


def _spelled(tag: str) -> tuple[str, ...]:
    return tuple(f"<{tag}{suffix}>" for suffix in SUFFIXES)


SYNTAX = PairCalls(
    block_open=_spelled("tool_calls"),
    block_close=_spelled("/tool_calls"),
    call_open=_spelled("tool_call"),
    call_close=_spelled("/tool_call"),
    separator=_spelled("tool_sep"),
    parameter_open=_spelled("arg_key"),
    key_close=_spelled("/arg_key"),
    value_open=_spelled("arg_value"),
    parameter_close=_spelled("/arg_value"),
)


CALL_FORMAT = CallFormat(
    block_open="<tool_calls>\n",
    before="<tool_call>",
    behind="<tool_sep>\n",
    arguments=TagArguments(open="<arg_key>", key_end="</arg_key>\n<arg_value>", close="</arg_value>\n", syntax=SYNTAX),
    close="</tool_call>\n",
    block_close="</tool_calls>",
)


def write_call(call: CallSegment) -> str:
    """One call as a block of its own."""
    return write_run([call], 0)


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """Strings raw, other values as their JSON text."""
    return f"<tool_calls>\n{''.join(map(_call, calls))}</tool_calls>"


def _call(call: CallSegment) -> str:
    body = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{string_value(raw)}</arg_value>\n" for key, raw in pairs(call.arguments))
    return f"<tool_call>{call.name}<tool_sep>\n{body}</tool_call>\n"


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    pair = "<arg_key>parameter name</arg_key>\n<arg_value>value</arg_value>"
    form = f"<tool_calls>\n<tool_call>function name<tool_sep>\n{pair}\n</tool_call>\n</tool_calls>"
    return offer(tools, form, "Repeat the pair for every parameter, and tool_call for every call.", UNTYPED)


TOOLS = ToolPart(
    name="hy_v3",
    frame=Frame(
        assistant_header="<\uff5chy_Assistant\uff5c>",
        end_of_turn="<\uff5chy_place\u2581holder\u2581no\u25812\uff5c>",
        stop_tokens=("<\uff5chy_place\u2581holder\u2581no\u25812\uff5c>",),
    ),
    markers=(
        *("<\uff5chy_User\uff5c>", "<\uff5chy_Assistant\uff5c>"),
        *(*SYNTAX.openers, *SYNTAX.closers, *SYNTAX.separator, *SYNTAX.parameter_open, *SYNTAX.key_close),
        *(*SYNTAX.value_open, *SYNTAX.parameter_close),
    ),
    calls=SYNTAX,
    call_format=CALL_FORMAT,
    write_call=write_call,
    write_run=write_run,
    write_tools=write_tools,
    detection=(
        DetectionRule(template_all=("tool_calls", "tool_sep", "arg_key"), confidence=0.95),
        DetectionRule(vocab_all=("<tool_sep>", "<arg_key>"), confidence=0.6),
        DetectionRule(architectures=("HYV3ForCausalLM",), confidence=0.85),
    ),
    source="chat template of Hy3 (calls); chat templates of Hunyuan dense models (frame)",
)
REASONING = ReasoningPart(
    name="hy_v3",
    markers=ReasoningMarkers("<think>", "</think>", lead=0, tail=0, behind=0),
    replay=ReplayPolicy(keep="after_last_user"),
    switches=TemplateSwitches(
        thinking_on={"reasoning_effort": "high"},
        thinking_off={"reasoning_effort": "no_think"},
        effort=levels("reasoning_effort", "low", "high"),
        allowed=frozenset(("preserved_thinking", "reasoning_effort")),
    ),
    replay_switches=(ReplaySwitch(variable="preserved_thinking", value=True),),
    detection=(DetectionRule(template_all=("think", "tool_sep", "arg_key"), confidence=0.95),),
    source="chat template of Hy3",
)
