"""minimax_m3: elements named after their parameters, every tag behind one marker token. MiniMax M3."""

from collections.abc import Sequence

from antiphon_parsers.arguments import elements, members, pairs, string_value
from antiphon_parsers.engine.element_calls import ElementCalls
from antiphon_parsers.families.parts import ReasoningPart, ToolPart, offer
from antiphon_parsers.forcing.forms import CallFormat, ElementArguments
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

MARK = "]<]minimax[>["

SYNTAX = ElementCalls(
    marker=MARK,
    block_open="<tool_call>",
    block_close="</tool_call>",
    call_open='<invoke name="',
    call_close="</invoke>",
)


CALL_FORMAT = CallFormat(
    block_open=f"{MARK}<tool_call>\n",
    before=f'{MARK}<invoke name="',
    behind='">',
    arguments=ElementArguments(syntax=SYNTAX),
    close=f"{MARK}</invoke>\n",
    block_close=f"{MARK}</tool_call>",
)


def write_call(call: CallSegment) -> str:
    """One call as a block of its own."""
    return write_run([call], 0)


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """Members of objects as elements of their name, elements of lists as items, all else as text."""
    return f"{MARK}<tool_call>\n{''.join(map(_invoke, calls))}{MARK}</tool_call>"


def _invoke(call: CallSegment) -> str:
    body = "".join(_element(key, raw) for key, raw in pairs(call.arguments))
    return f'{MARK}<invoke name="{call.name}">{body}{MARK}</invoke>\n'


def _element(key: str, raw: str) -> str:
    if raw.startswith("{"):
        inner = "".join(_element(name, value) for name, value in members(raw) or ())
    elif raw.startswith("["):
        inner = "".join(_element("item", value) for value in elements(raw))
    else:
        inner = string_value(raw)
    return f"{MARK}<{key}>{inner}{MARK}</{key}>"


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    form = (
        f'{MARK}<tool_call>\n{MARK}<invoke name="function name">{MARK}<parameter_name>value{MARK}</parameter_name>{MARK}</invoke>\n'
        f"{MARK}</tool_call>"
    )
    return offer(
        tools,
        form,
        "Put several calls into one block, each in its own invoke tag.",
        f"Write the members of an object as tags of their name, the elements of a list as {MARK}<item> tags, "
        "and text as it is, without quotes or escapes.",
    )


TOOLS = ToolPart(
    name="minimax_m3",
    frame=Frame(assistant_header="]~b]ai\n", end_of_turn="[e~[", stop_tokens=("[e~[",)),
    markers=("]~!b[", "]~b]", "[e~[", MARK),
    calls=SYNTAX,
    call_format=CALL_FORMAT,
    write_call=write_call,
    write_run=write_run,
    write_tools=write_tools,
    detection=(
        DetectionRule(template_all=(MARK,), confidence=0.95),
        DetectionRule(vocab_all=(MARK,), confidence=0.9),
        DetectionRule(architectures=("MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"), confidence=0.85),
    ),
    source="chat template of MiniMax M3",
)
REASONING = ReasoningPart(
    name="minimax_m3",
    markers=ReasoningMarkers("<mm:think>", "</mm:think>", lead=0, tail=0, behind=0),
    replay=ReplayPolicy(keep="after_last_user", empty_block="</mm:think>"),
    switches=TemplateSwitches(
        thinking_on={"thinking_mode": "enabled"},
        thinking_off={"thinking_mode": "disabled"},
        thinking_adaptive={"thinking_mode": "adaptive"},
        allowed=frozenset(("thinking_mode",)),
    ),
    detection=(DetectionRule(template_any=("<mm:think>", "</mm:think>"), confidence=0.95),),
    source="chat template of MiniMax M3",
)
