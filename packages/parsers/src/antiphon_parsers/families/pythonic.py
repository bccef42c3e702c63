"""pythonic: calls as Python calls with keyword arguments in a list. Llama 3.2 and ToolACE write the bare list, Llama 4 and LFM2 put
markers around it, OLMo 3 writes one call a line between markers."""

from collections.abc import Sequence

from antiphon_parsers.arguments import elements, json_text, members, pairs, string_value
from antiphon_parsers.engine.json_calls import JsonCalls
from antiphon_parsers.engine.listed_calls import ListedCalls
from antiphon_parsers.engine.noted_body import Notation
from antiphon_parsers.families.parts import CHATML, CHATML_MARKERS, ReasoningPart, ToolPart, offer
from antiphon_parsers.forcing.forms import CallFormat, KeywordArguments, ValueNotation
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

_WORDS = {"true": "True", "false": "False", "null": "None"}
_RULES = (
    "Write several calls the same way, side by side.",
    "Write values as Python literals: text in quotes, True, False, None, numbers, lists and dicts.",
)


def written(raw: str) -> str:
    """A JSON value as a Python literal; numbers keep their spelling, text the escapes that JSON knows."""
    if raw.startswith('"'):
        return "'" + json_text(string_value(raw))[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    if raw.startswith("["):
        return f"[{', '.join(map(written, elements(raw)))}]"
    if raw.startswith("{"):
        return f"{{{', '.join(f'{written(json_text(key))}: {written(value)}' for key, value in members(raw) or ())}}}"
    return _WORDS.get(raw, raw)


_ARGUMENTS = KeywordArguments(notation=ValueNotation(quote="'", spell=written), assign="=")


def call_text(call: CallSegment) -> str:
    """One call, without list or markers."""
    return f"{call.name}({', '.join(f'{key}={written(raw)}' for key, raw in pairs(call.arguments))})"


def part(
    name: str,
    syntax: ListedCalls,
    frame: Frame,
    markers: tuple[str, ...],
    *,
    around: tuple[str, str, str],
    gap: int,
    detection: tuple[DetectionRule, ...],
) -> ToolPart:
    """One of the wrappings. `around`: what stands before the calls, between them and behind them."""
    before, between, behind = around

    def write_run(calls: Sequence[CallSegment], number: int) -> str:
        return before + between.join(map(call_text, calls)) + behind

    def write_call(call: CallSegment) -> str:
        return write_run([call], 0)

    def write_tools(tools: Sequence[Tool]) -> str:
        return offer(tools, f"{before}function_name(parameter='value'){behind}", *_RULES)

    return ToolPart(
        name=name,
        frame=frame,
        markers=(*markers, syntax.wrapper_open, syntax.wrapper_close),
        calls=syntax,
        call_format=CallFormat(
            block_open=before, before="", behind="(", arguments=_ARGUMENTS, close=")", between=between, block_close=behind
        ),
        write_call=write_call,
        write_run=write_run,
        write_tools=write_tools,
        gap=gap,
        detection=detection,
        source="chat templates of Llama 3.2, Llama 4, OLMo 3 and LFM2",
    )


LLAMA3 = Frame(
    assistant_header="<|start_header_id|>assistant<|end_header_id|>\n\n",
    end_of_turn="<|eot_id|>",
    stop_tokens=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
)
LLAMA4 = Frame(
    assistant_header="<|header_start|>assistant<|header_end|>\n\n",
    end_of_turn="<|eot|>",
    stop_tokens=("<|eot|>", "<|eom|>", "<|end_of_text|>"),
)
_PYTHON = ("<|python_start|>", "<|python_end|>")
_LFM2 = ("<|tool_call_start|>", "<|tool_call_end|>")

PYTHONIC = part(
    "pythonic",
    ListedCalls(wrapper_open=_PYTHON[0], wrapper_close=_PYTHON[1], bare=True),
    LLAMA3,
    ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", *LLAMA3.stop_tokens),
    around=("[", ", ", "]"),
    gap=1,
    detection=(DetectionRule(template_all=("[func_name1(",), template_none=("<|header_start|>",), confidence=0.9),),
)
LLAMA4_PYTHONIC = part(
    "llama4_pythonic",
    ListedCalls(wrapper_open=_PYTHON[0], wrapper_close=_PYTHON[1], bare=True, json=JsonCalls(opener="{", closer=_PYTHON[1])),
    LLAMA4,
    ("<|begin_of_text|>", "<|header_start|>", "<|header_end|>", *LLAMA4.stop_tokens),
    around=(_PYTHON[0] + "[", ", ", "]" + _PYTHON[1]),
    gap=0,
    detection=(
        DetectionRule(template_all=("<|header_start|>",), confidence=0.9),
        DetectionRule(architectures=("Llama4ForConditionalGeneration", "Llama4ForCausalLM", "llama4"), confidence=0.8),
    ),
)
OLMO3 = part(
    "olmo3",
    ListedCalls(wrapper_open="<function_calls>", wrapper_close="</function_calls>", bare=False),
    CHATML,
    CHATML_MARKERS,
    around=("<function_calls>\n", "\n", "\n</function_calls>"),
    gap=1,
    detection=(DetectionRule(template_all=("<function_calls>",), template_none=("<invoke",), confidence=0.8),),
)
OLMO3_REASONING = ReasoningPart(
    name="olmo3",
    markers=ReasoningMarkers("<think>", "</think>"),
    replay=ReplayPolicy(keep="none"),
    switches=TemplateSwitches(),
    detection=(DetectionRule(template_all=("<function_calls>",), template_any=("<think>", "</think>"), confidence=0.9),),
    source="documentation of OLMo 3; the prompt opens the block",
)
LFM2 = part(
    "lfm2",
    ListedCalls(
        wrapper_open=_LFM2[0],
        wrapper_close=_LFM2[1],
        bare=False,
        json=JsonCalls(opener=_LFM2[0], closer=_LFM2[1], listed=True, separator=","),
        notation=Notation(close=")", assign="=", quote="", words=False, end="]", loose=True),
        line_start_in_reasoning=False,
    ),
    CHATML,
    CHATML_MARKERS,
    around=(_LFM2[0] + "[", ", ", "]" + _LFM2[1]),
    gap=0,
    detection=(
        DetectionRule(template_all=_LFM2[:1], confidence=0.95),
        DetectionRule(vocab_all=_LFM2, confidence=0.8),
        DetectionRule(architectures=("Lfm2ForCausalLM", "Lfm2MoeForCausalLM", "lfm2", "lfm2moe"), confidence=0.7),
    ),
)
