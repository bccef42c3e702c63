"""kimi reasoning: the older markers of Kimi. Models from K2-Thinking on use <think>: see kimi_k2."""

from antiphon_parsers.families.parts import ReasoningPart
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import DetectionRule, ReplayPolicy, TemplateSwitches

REASONING = ReasoningPart(
    name="kimi",
    markers=ReasoningMarkers("◁think▷", "◁/think▷", lead=0, tail=0, behind=0),
    replay=ReplayPolicy(keep="none"),
    switches=TemplateSwitches(),
    detection=(
        DetectionRule(template_any=("◁think▷", "◁/think▷"), confidence=0.95),
        DetectionRule(vocab_all=("◁think▷", "◁/think▷"), confidence=0.9),
    ),
    source="public documentation of the Kimi reasoning markers",
)
