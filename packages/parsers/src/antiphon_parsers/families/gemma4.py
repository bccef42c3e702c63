"""gemma4: `call:name{key:value}` between tool call tokens, strings between quote tokens; reasoning in a thought channel. Gemma 4."""

import re
from collections.abc import Sequence

from antiphon_parsers.arguments import elements, json_text, members, string_value, tool_lines
from antiphon_parsers.engine.noted_body import Notation
from antiphon_parsers.engine.noted_calls import NotedCalls
from antiphon_parsers.families.parts import ReasoningPart, ToolPart
from antiphon_parsers.forcing.forms import CallFormat, ObjectArguments, ValueNotation
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

QUOTE = '<|"|>'
OPEN, CLOSE = "<|tool_call>", "<tool_call|>"
RESPONSE, RESPONSE_END = "<|tool_response>", "<tool_response|>"
THOUGHT = "<|channel>thought"

SYNTAX = NotedCalls(opener=OPEN, prefix="call:", open="{", notation=Notation(close="}", assign=":", quote=QUOTE, words=True, end=CLOSE))
_PLAIN_KEY = re.compile(r"[\w.$-]+")


def write_call(call: CallSegment) -> str:
    """Strings between quote tokens, keys in the order they came. Arguments that are no JSON object become one string."""
    body = _written(call.arguments) if members(call.arguments) is not None else f"{{arguments:{QUOTE}{call.arguments}{QUOTE}}}"
    return f"{OPEN}call:{call.name}{body}{CLOSE}"


def _written(raw: str) -> str:
    """A JSON value in the family's notation."""
    return written(raw, QUOTE)


def written(raw: str, quote: str) -> str:
    """A JSON value with bare keys, and strings as they are between two `quote`."""
    if raw.startswith('"'):
        return f"{quote}{string_value(raw)}{quote}"
    if raw.startswith("["):
        return f"[{','.join(written(item, quote) for item in elements(raw))}]"
    found = members(raw)
    return raw if found is None else f"{{{','.join(f'{_key(key, quote)}:{written(value, quote)}' for key, value in found)}}}"


def _key(key: str, quote: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else f"{quote}{string_value(json_text(key))}{quote}"


CALL_FORMAT = CallFormat(
    before=f"{OPEN}call:",
    behind="",
    arguments=ObjectArguments(
        notation=ValueNotation(quote=QUOTE, item=",", assign=":", bare_keys=True, ends=(",", "}", "]", CLOSE), spell=_written)
    ),
    close=CLOSE,
)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    return (
        "You can call these functions. Each line describes one, with its parameters as a JSON schema:\n"
        f"<tools>\n{tool_lines(tools)}\n</tools>\n\n"
        "To call a function, write a block of exactly this form, one block for each call:\n"
        f"{OPEN}call:function_name{{text:{QUOTE}value{QUOTE},number:1}}{CLOSE}\n"
        f"Text values stand between {QUOTE} marks as they are, without escapes. Give every required parameter. "
        "When no function is needed, answer in plain text."
    )


TOOLS = ToolPart(
    name="gemma4",
    # The model goes on behind results without a new header.
    frame=Frame(
        assistant_header="<|turn>model\n",
        end_of_turn="<turn|>",
        stop_tokens=("<turn|>", RESPONSE, "<eos>"),
        result_ends=(RESPONSE_END,),
    ),
    markers=("<|turn>", "<turn|>", "<|channel>", OPEN, CLOSE, QUOTE, RESPONSE, RESPONSE_END, "<|tool>", "<tool|>", "<|think|>"),
    calls=SYNTAX,
    call_format=CALL_FORMAT,
    write_call=write_call,
    write_tools=write_tools,
    gap=0,
    breaks=(RESPONSE,),
    detection=(
        DetectionRule(template_all=(OPEN, QUOTE), confidence=0.95),
        DetectionRule(template_all=("<|turn>",), vocab_all=(OPEN, CLOSE), confidence=0.9),
        DetectionRule(architectures=("Gemma4ForConditionalGeneration", "Gemma4ForCausalLM", "gemma4"), confidence=0.7),
    ),
    source="chat template of Gemma 4",
)

REASONING = ReasoningPart(
    name="gemma4",
    markers=ReasoningMarkers(THOUGHT, "<channel|>", lead=1, tail=0, behind=0),
    replay=ReplayPolicy(keep="after_last_user"),
    switches=TemplateSwitches(
        thinking_on={"enable_thinking": True}, thinking_off={"enable_thinking": False}, allowed=frozenset(("enable_thinking",))
    ),
    detection=(DetectionRule(template_any=("<|channel>", "<channel|>"), confidence=0.95),),
    source="chat template of Gemma 4",
)
