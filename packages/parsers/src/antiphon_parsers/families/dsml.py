"""deepseek_v3_2, deepseek_v4 and deepseek_v41: invoke and parameter tags that carry the DSML token, parameters that say
whether they are text or JSON, all calls of a turn in one block."""

from collections.abc import Sequence

import msgspec

from antiphon_parsers.arguments import pairs, string_value
from antiphon_parsers.engine.invoke_calls import InvokeCalls
from antiphon_parsers.families.parts import ReasoningPart, ToolPart, levels, offer
from antiphon_parsers.forcing.forms import CallFormat, TagArguments
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, DetectionRule, Frame, ReplayPolicy, TemplateSwitches, Tool

TOKEN = "\uff5cDSML\uff5c"
# Seen in text that did not come as the token: doubled bars, and bars of the other width.
SPELLINGS = (TOKEN, "|DSML|", "\uff5c\uff5cDSML\uff5c\uff5c", "||DSML||")
FRAME = Frame(
    assistant_header="<\uff5cAssistant\uff5c>",
    end_of_turn="<\uff5cend\u2581of\u2581sentence\uff5c>",
    stop_tokens=("<\uff5cend\u2581of\u2581sentence\uff5c>",),
    result_ends=("</function_results>\n\n",),
)
ROLES = (
    "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<\uff5cUser\uff5c>",
    "<\uff5cAssistant\uff5c>",
)


class _Tags:
    """The tags of one version: `space` stands behind the token, `blocks` are the block's names, the usual one first."""

    def __init__(self, blocks: tuple[str, ...], space: str = "") -> None:
        self._token = TOKEN + space
        self._block = blocks[0]
        self.syntax = InvokeCalls(
            block_open=tuple(f"<{token}{space}{block}>" for token in SPELLINGS for block in blocks),
            block_close=tuple(f"</{token}{space}{block}>" for token in SPELLINGS for block in blocks),
            call_open=tuple(f"<{token}{space}invoke name=" for token in SPELLINGS),
            call_close=tuple(f"</{token}{space}invoke>" for token in SPELLINGS),
            parameter_open=tuple(f"<{token}{space}parameter name=" for token in SPELLINGS),
            parameter_close=tuple(f"</{token}{space}parameter>" for token in SPELLINGS),
            typed=True,
            json_bodies=True,
            wrappers=("arguments", "input"),
            line_start_in_reasoning=False,
        )

    @property
    def call_format(self) -> CallFormat:
        """The calls in the usual spelling; every value says whether it is text or JSON."""
        token = self._token
        arguments = TagArguments(
            open=f'<{token}parameter name="',
            key_end='" string="false">',
            kinds=(("string", '" string="true">'),),
            close=f"</{token}parameter>\n",
            empty="\n",
            syntax=self.syntax,
        )
        return CallFormat(
            block_open=f"<{token}{self._block}>\n",
            before=f'<{token}invoke name="',
            behind='">\n',
            arguments=arguments,
            close=f"</{token}invoke>\n",
            block_close=f"</{token}{self._block}>",
        )

    def write_call(self, call: CallSegment) -> str:
        """One call as a block of its own."""
        return self.write_run([call], 0)

    def write_run(self, calls: Sequence[CallSegment], number: int) -> str:
        """Strings raw, other values as their JSON text."""
        return f"<{self._token}{self._block}>\n{''.join(map(self._invoke, calls))}</{self._token}{self._block}>"

    def _invoke(self, call: CallSegment) -> str:
        body = "\n".join(self._parameter(key, raw) for key, raw in pairs(call.arguments))
        return f'<{self._token}invoke name="{call.name}">\n{body}\n</{self._token}invoke>\n'

    def _parameter(self, key: str, raw: str) -> str:
        string = "true" if raw.startswith('"') else "false"
        return f'<{self._token}parameter name="{key}" string="{string}">{string_value(raw)}</{self._token}parameter>'

    def write_tools(self, tools: Sequence[Tool]) -> str:
        """Tools one a line, then how to call."""
        token = self._token
        parameter = f'<{token}parameter name="parameter name" string="true|false">value</{token}parameter>'
        form = f'<{token}{self._block}>\n<{token}invoke name="function name">\n{parameter}\n</{token}invoke>\n</{token}{self._block}>'
        return offer(
            tools,
            form,
            "Put several calls into one block, each in its own invoke tag.",
            'With string="true" the value is text as it is, without quotes or escapes; with string="false" it is JSON.',
        )


def _tools(name: str, tags: _Tags, detection: tuple[DetectionRule, ...], source: str, roles: tuple[str, ...] = ROLES) -> ToolPart:
    syntax = tags.syntax
    usual = (syntax.block_open, syntax.block_close, syntax.call_open, syntax.call_close, syntax.parameter_open)
    return ToolPart(
        name=name,
        frame=FRAME,
        markers=(*roles, *(spellings[0] for spellings in usual), syntax.parameter_close[0], TOKEN),
        calls=syntax,
        call_format=tags.call_format,
        write_call=tags.write_call,
        write_run=tags.write_run,
        write_tools=tags.write_tools,
        gap=2,
        template=name,
        detection=detection,
        source=source,
    )


def _rules(block: str, *architectures: str, vocab: tuple[str, ...]) -> tuple[DetectionRule, ...]:
    return (
        # Templates write the token out or hold it in a variable.
        DetectionRule(template_all=(TOKEN,), template_any=(f"{TOKEN}{block}>", f"}}}}{block}>"), confidence=0.95),
        DetectionRule(architectures=architectures, confidence=0.95),
        # Only the last of the three versions has a token of its own: the more tokens, the surer.
        DetectionRule(vocab_all=vocab, template_none=(TOKEN, "<\uff5cAssistant\uff5c>"), confidence=0.4 + 0.1 * len(vocab)),
    )


V32_TAGS = _Tags(("function_calls",))
V4_TAGS = _Tags(("tool_calls", "toolcalls", "tool"))
V41_TAGS = _Tags(("calls",), space=" ")

SYSTEM = "<\uff5cSystem\uff5c>"

V32 = _tools(
    "deepseek_v3_2", V32_TAGS, _rules("function_calls", "DeepseekV32ForCausalLM", vocab=(TOKEN,)), "message encoding of DeepSeek-V3.2"
)
V4 = _tools(
    "deepseek_v4",
    V4_TAGS,
    _rules("tool_calls", "DeepseekV4ForCausalLM", "DeepseekV4ForConditionalGeneration", vocab=(TOKEN,)),
    "message encoding of DeepSeek-V4",
)
V41 = _tools(
    "deepseek_v41",
    V41_TAGS,
    _rules(" calls", "DeepseekV41ForCausalLM", vocab=(TOKEN, SYSTEM)),
    "message encoding of DeepSeek-V4.1",
    (*ROLES, SYSTEM),
)

_SWITCHES = TemplateSwitches(
    thinking_on={"thinking": True, "enable_thinking": True},
    thinking_off={"thinking": False, "enable_thinking": False},
    allowed=frozenset(("thinking", "enable_thinking", "drop_thinking", "reasoning_effort")),
)
# The prompt begins with it, before the system text.
_EFFORT_SWITCHES = msgspec.structs.replace(_SWITCHES, effort=levels("reasoning_effort", "low", "high", "max"), effort_at_head=True)


def _reasoning(name: str, tools: ToolPart, replay: ReplayPolicy, switches: TemplateSwitches) -> ReasoningPart:
    return ReasoningPart(
        name=name,
        markers=ReasoningMarkers("<think>", "</think>", lead=0, tail=0, behind=0),
        replay=replay,
        switches=switches,
        detection=tools.detection,
        source=tools.source,
    )


V32_REASONING = _reasoning("deepseek_v3_2", V32, ReplayPolicy(keep="after_last_user", empty_block="</think>"), _SWITCHES)
# With tools in the request these models are trained to see all their reasoning.
_V4_REPLAY = ReplayPolicy(keep="all", empty_block="</think>", without_tools="after_last_user", switch=("drop_thinking", False))
V4_REASONING = _reasoning("deepseek_v4", V4, _V4_REPLAY, _EFFORT_SWITCHES)
V41_REASONING = _reasoning("deepseek_v41", V41, _V4_REPLAY, _EFFORT_SWITCHES)
