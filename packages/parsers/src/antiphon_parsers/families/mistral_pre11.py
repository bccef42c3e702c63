"""mistral_pre11: calls as one JSON list behind a marker. Mistral 7B v0.3, Nemo, Small 3.0 and 3.1; the newer form is read too."""

from collections.abc import Sequence

from antiphon_parsers.families.mistral import ARGUMENTS, CALL, FRAME, MARKERS, SYNTAX, write_id
from antiphon_parsers.families.parts import TYPED, ToolPart, json_call, offer
from antiphon_parsers.forcing.forms import json_envelope
from antiphon_turns import CallSegment, DetectionRule, Tool


def write_run(calls: Sequence[CallSegment], number: int) -> str:
    """One list of all calls."""
    return f"{CALL}[{', '.join(map(json_call, calls))}]"


def write_call(call: CallSegment) -> str:
    """A list of one call."""
    return write_run([call], 0)


def write_tools(tools: Sequence[Tool]) -> str:
    """Tools one a line, then how to call."""
    form = f'{CALL}[{{"name": "function name", "arguments": {{"parameter": "value"}}}}]'
    return offer(tools, form, "The list may hold several calls.", TYPED)


TOOLS = ToolPart(
    name="mistral_pre11",
    frame=FRAME,
    markers=MARKERS,
    calls=SYNTAX,
    call_format=json_envelope("", "", block_open=f"{CALL}[", between=", ", block_close="]"),
    write_call=write_call,
    write_run=write_run,
    write_id=write_id,
    write_tools=write_tools,
    gap=0,
    detection=(DetectionRule(template_all=(CALL,), template_none=(ARGUMENTS,), confidence=0.9),),
    source="chat templates of Mistral 7B v0.3, Nemo and Small 3.1",
)
