"""Plain text: no calls, no reasoning. Every byte is visible text."""

from collections.abc import Sequence

from antiphon_parsers.families.parts import CHATML, CHATML_MARKERS, ToolPart
from antiphon_turns import CallSegment, Tool


def write_call(call: CallSegment) -> str:
    """A past call as text a model without call format can read."""
    return f"Called {call.name} with {call.arguments}"


def write_tools(tools: Sequence[Tool]) -> str:
    """Nothing: the model cannot call."""
    return ""


TOOLS = ToolPart(
    name="plain",
    frame=CHATML,
    markers=CHATML_MARKERS,
    calls=None,
    call_format=None,
    write_call=write_call,
    write_tools=write_tools,
    source="own: no markers",
)
