"""granite4: the calls of hermes in Granite's own frame. Granite 4.0."""

from antiphon_parsers.families import hermes
from antiphon_parsers.families.parts import RESULT_MARKERS, ToolPart
from antiphon_turns import DetectionRule, Frame

TOOLS = ToolPart(
    name="granite4",
    frame=Frame(
        assistant_header="<|start_of_role|>assistant<|end_of_role|>", end_of_turn="<|end_of_text|>", stop_tokens=("<|end_of_text|>",)
    ),
    markers=("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", hermes.OPEN, hermes.CLOSE, *RESULT_MARKERS),
    calls=hermes.TOOLS.calls,
    call_format=hermes.TOOLS.call_format,
    write_call=hermes.write_call,
    write_tools=hermes.write_tools,
    detection=(DetectionRule(template_all=("<|start_of_role|>", hermes.OPEN), template_none=("<function=",), confidence=0.95),),
    source="chat template of Granite 4.0",
)
