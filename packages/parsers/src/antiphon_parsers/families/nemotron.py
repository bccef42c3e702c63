"""nemotron_v3 reasoning (Nemotron 3 and 3.5); the calls are those of qwen3_coder."""

from antiphon_parsers.families.parts import ReasoningPart, ReplaySwitch
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import DetectionRule, ReplayPolicy, TemplateSwitches

REASONING = ReasoningPart(
    name="nemotron_v3",
    markers=ReasoningMarkers("<think>", "</think>", behind=1),
    replay=ReplayPolicy(keep="after_last_user", empty_block="<think></think>"),
    switches=TemplateSwitches(
        thinking_on={"enable_thinking": True},
        thinking_off={"enable_thinking": False},
        # A suffix of the last user message. Super has the low level, Ultra the medium one; high is what they do unasked.
        effort={"low": {"low_effort": True}, "medium": {"medium_effort": True}, "high": {}},
        allowed=frozenset(("enable_thinking", "truncate_history_thinking", "low_effort", "medium_effort")),
    ),
    replay_switches=(ReplaySwitch(variable="truncate_history_thinking", value=False),),
    detection=(DetectionRule(template_all=("<think>", "truncate_history_thinking"), confidence=0.95),),
    source="chat templates of Nemotron 3",
)
