"""kimi_k2: calls in a section, each with an id that names the tool. Kimi K2, K2-Thinking, K2.5 and K2.6."""

import re
from collections.abc import Sequence

from antiphon_parsers.engine.named_calls import NamedCalls
from antiphon_parsers.engine.tools import ToolTable
from antiphon_parsers.families.parts import TYPED, ReasoningPart, ReplaySwitch, ToolPart, argument_text, offer
from antiphon_parsers.forcing.forms import CallFormat
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGUMENTS, CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"

_EXACT = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?", re.DOTALL)
# Clients that allow no dots and colons in ids make underscores of them, and models imitate what they see.
_LOOSE = re.compile(r"(?:functions[._:])?(.+?)(?:[._:]\d+)?", re.DOTALL)


def read_name(identity: str, tools: ToolTable) -> str:
    """The tool of `functions.NAME:N`; NAME may hold dots and colons."""
    exact, loose = _EXACT.fullmatch(identity), _LOOSE.fullmatch(identity)
    name = exact[1] if exact else identity
    return loose[1] if loose and not tools.knows(name) and tools.knows(loose[1]) else name


SYNTAX = NamedCalls(
    sections=(SECTION, "<|tool_call_section_begin|>"),
    section_ends=(SECTION_END, "<|tool_call_section_end|>"),
    opener=CALL,
    header=rf'\s*+(?P<name>[^\s<>{{}}"]+)\s*+{re.escape(ARGUMENTS)}\s*+',
    growing=r'\s*+[^\s<>{}"]*\s*+(?:<[^\s>]*>?\s*+)?',
    separators=(ARGUMENTS,),
    strays=(ARGUMENTS,),
    closer=CALL_END,
    read_name=read_name,
)


CALL_FORMAT = CallFormat(
    block_open=SECTION, before=f"{CALL}functions.", behind=":", numbered=ARGUMENTS, close=CALL_END, block_close=SECTION_END
)


def write_id(name: str, number: int) -> str:
    """Ids count the calls of the conversation from 0."""
    return f"functions.{name}:{number}"


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """One section."""
    blocks = (f"{CALL}{write_id(call.name, place)}{ARGUMENTS}{argument_text(call)}{CALL_END}" for place, call in enumerate(calls, number))
    return f"{SECTION}{''.join(blocks)}{SECTION_END}"


def write_call(call: CallSegment) -> str:
    """A section of one call."""
    return write_run([call], 0)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    example = f'{CALL}functions.NAME:N{ARGUMENTS}{{"parameter": "value"}}{CALL_END}'
    notes = "NAME is the function's name. N counts the calls of the conversation from 0. A section may hold several calls."
    return offer(tools, f"{SECTION}{example}{SECTION_END}", notes, TYPED)


TOOLS = ToolPart(
    name="kimi_k2",
    frame=Frame(assistant_header="<|im_assistant|>assistant<|im_middle|>", end_of_turn="<|im_end|>", stop_tokens=("<|im_end|>", "[EOS]")),
    markers=(
        *("<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>", "[EOS]", "[BOS]"),
        *(*SYNTAX.sections, *SYNTAX.section_ends, CALL, ARGUMENTS, CALL_END),
    ),
    calls=SYNTAX,
    call_format=CALL_FORMAT,
    write_call=write_call,
    write_run=write_run,
    write_id=write_id,
    write_tools=write_tools,
    gap=0,
    detection=(
        DetectionRule(template_all=(SECTION,), confidence=0.95),
        DetectionRule(vocab_all=(SECTION, CALL), confidence=0.9),
        DetectionRule(architectures=("KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration"), confidence=0.85),
    ),
    source="chat templates of Kimi K2, K2-Thinking and K2.5",
)

REASONING = ReasoningPart(
    name="kimi_k2",
    markers=ReasoningMarkers("<think>", "</think>", lead=0, tail=0, behind=0),
    replay=ReplayPolicy(keep="after_last_plain_assistant", empty_block="<think></think>"),
    switches=TemplateSwitches(
        thinking_on={"thinking": True},
        thinking_off={"thinking": False},
        allowed=frozenset(("thinking", "preserve_thinking")),
    ),
    replay_switches=(ReplaySwitch(variable="preserve_thinking", value=True),),
    detection=(DetectionRule(template_all=("<|im_middle|>",), template_any=("<think>", "</think>"), confidence=0.95),),
    source="chat templates of K2-Thinking, K2.5 and K2.6",
)
