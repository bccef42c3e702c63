"""step3p5 reasoning (Step 3.5 and 3.7 Flash); the calls are those of qwen3_coder."""

from antiphon_parsers.families.parts import ReasoningPart, ReplaySwitch, levels
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import DetectionRule, ReplayPolicy, TemplateSwitches

REASONING = ReasoningPart(
    name="step3p5",
    markers=ReasoningMarkers("<think>", "</think>", behind=1),
    replay=ReplayPolicy(keep="after_last_user"),
    switches=TemplateSwitches(
        effort=levels("reasoning_effort", "low", "medium", "high"),
        effort_at_head=True,
        allowed=frozenset(("preserve_thinking", "reasoning_effort")),
    ),
    replay_switches=(ReplaySwitch(variable="preserve_thinking", value=True),),
    detection=(
        DetectionRule(
            template_any=("<think>",), architectures=("Step3p5ForCausalLM", "Step3p7ForConditionalGeneration", "step35"), confidence=0.97
        ),
        DetectionRule(template_all=("<think>", "<|im_start|>tool_response"), confidence=0.95),
    ),
    source="chat templates of Step-3.5-Flash and Step-3.7-Flash",
)
