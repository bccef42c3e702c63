"""deepseek_r1 reasoning: a <think> block at the start of every turn, usually opened by the prompt. DeepSeek R1 and its
distillations; it cannot be turned off, and past reasoning never returns to the prompt."""

from antiphon_parsers.families.parts import ReasoningPart
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import DetectionRule, ReplayPolicy, TemplateSwitches

REASONING = ReasoningPart(
    name="deepseek_r1",
    markers=ReasoningMarkers("<think>", "</think>"),
    replay=ReplayPolicy(keep="none"),
    switches=TemplateSwitches(),
    detection=(DetectionRule(template_all=("<｜Assistant｜>", "</think>"), template_none=("thinking",), confidence=0.95),),
    source="chat templates of DeepSeek R1 and R1-0528",
)
