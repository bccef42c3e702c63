"""granite reasoning: sentences instead of markers in Granite 3.2, <think> blocks in Granite 4.2 (granite_thinking_parser)."""

from antiphon_parsers.families.parts import ReasoningPart
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import DetectionRule, ReplayPolicy, TemplateSwitches

REASONING = ReasoningPart(
    name="granite",
    markers=ReasoningMarkers(
        opener="Here is my thought process:",
        closer="Here is my response:",
        lead=1,
        tail=1,
        behind=1,
        spellings=(("Here's my thought process:",), ("Here's my response:",)),
        words=True,
    ),
    replay=ReplayPolicy(keep="none"),
    switches=TemplateSwitches(thinking_on={"thinking": True}, thinking_off={"thinking": False}, allowed=frozenset(("thinking",))),
    detection=(DetectionRule(template_all=("Here is my thought process:", "Here is my response:"), confidence=0.9),),
    source="chat template of Granite 3.2",
)

THINKING = ReasoningPart(
    name="granite_thinking_parser",
    markers=ReasoningMarkers("<think>", "</think>"),
    replay=ReplayPolicy(keep="after_last_user"),
    switches=TemplateSwitches(
        thinking_on={"enable_thinking": True}, thinking_off={"enable_thinking": False}, allowed=frozenset(("enable_thinking",))
    ),
    detection=(DetectionRule(template_all=("<|start_of_role|>",), template_any=("<think>", "</think>"), confidence=0.95),),
    source="documentation of Granite 4.2",
)
