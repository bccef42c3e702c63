"""qwen3 reasoning: <think> blocks, opened by the model or by the prompt."""

from antiphon_parsers.families.parts import ReasoningPart, ReplaySwitch, levels
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import DetectionRule, ReplayPolicy, TemplateSwitches

REASONING = ReasoningPart(
    name="qwen3",
    markers=ReasoningMarkers("<think>", "</think>"),
    replay=ReplayPolicy(keep="after_last_user"),
    switches=TemplateSwitches(
        thinking_on={"enable_thinking": True},
        thinking_off={"enable_thinking": False},
        # Qwen3.8: a sentence of the system text.
        effort=levels("reasoning_effort", "low", "medium", "xhigh"),
        effort_at_head=True,
        allowed=frozenset(("enable_thinking", "preserve_thinking", "reasoning_effort")),
    ),
    replay_switches=(
        ReplaySwitch(variable="preserve_thinking", value=True),
        ReplaySwitch(variable="truncate_history_thinking", value=False),
    ),
    detection=(DetectionRule(template_any=("<think>", "</think>"), confidence=0.8),),
    source="chat templates of Qwen3, Qwen3.6, Qwen3.8 and Nemotron 3",
)
