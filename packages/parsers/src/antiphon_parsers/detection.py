"""Which format a model speaks, from its chat template, added tokens and architecture."""

from collections.abc import Collection, Sequence

import msgspec

from antiphon_parsers.registry import REASONING_PARTS, TOOL_PARTS, ModelFormat
from antiphon_turns import DetectionRule, ReplayPolicy


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """The names for `resolve`. `reason` is a sentence for the start-up text; `confidence` is between 0 and 1."""

    tool_parser: str | None
    reasoning_parser: str | None
    reason: str
    confidence: float


def detect(template: str, added_tokens: Collection[str], architectures: Sequence[str]) -> Detection:
    """The best format the evidence allows; plain text when nothing fits."""
    tools = _ranked({part.name: part.detection for part in TOOL_PARTS.values()}, template, added_tokens, architectures)
    reasoning = _ranked({part.name: part.detection for part in REASONING_PARTS.values()}, template, added_tokens, architectures)
    sentences = [_tool_sentence(tools), _reasoning_sentence(reasoning)]
    confidence = tools[0][0] if tools else 0.2
    if len(tools) > 1:
        confidence = min(confidence, 0.5)
    return Detection(
        tool_parser=tools[0][1] if tools else None,
        reasoning_parser=reasoning[0][1] if reasoning else None,
        reason=" ".join(sentences),
        confidence=confidence,
    )


def adapt(model: ModelFormat, template: str) -> ModelFormat:
    """The format for one chat template: where the template has a variable that keeps the reasoning of past turns, it
    is set for every request and the replay policy follows it."""
    part = REASONING_PARTS.get(model.names[1] or "")
    for switch in part.replay_switches if part else ():
        if switch.variable in template:
            family = model.family
            switches = msgspec.structs.replace(family.switches, agent={**family.switches.agent, switch.variable: switch.value})
            family = msgspec.structs.replace(family, switches=switches, replay=ReplayPolicy(keep=switch.keep))
            return msgspec.structs.replace(model, family=family)
    return model


Ranked = list[tuple[float, str, DetectionRule]]


def _ranked(
    rules: dict[str, tuple[DetectionRule, ...]], template: str, added_tokens: Collection[str], architectures: Sequence[str]
) -> Ranked:
    """The families whose rules hold, the surest first, each with its surest rule."""
    found: Ranked = []
    for name, candidates in rules.items():
        holding = [rule for rule in candidates if _holds(rule, template, added_tokens, architectures)]
        if holding:
            best = max(holding, key=lambda rule: rule.confidence)
            found.append((best.confidence, name, best))
    return sorted(found, key=lambda entry: -entry[0])


def _holds(rule: DetectionRule, template: str, added_tokens: Collection[str], architectures: Sequence[str]) -> bool:
    return (
        all(text in template for text in rule.template_all)
        and (not rule.template_any or any(text in template for text in rule.template_any))
        and not any(text in template for text in rule.template_none)
        and all(token in added_tokens for token in rule.vocab_all)
        and (not rule.architectures or any(name in rule.architectures for name in architectures))
    )


def _tool_sentence(ranked: Ranked) -> str:
    if not ranked:
        return "No known tool-call format was found in the chat template, so the output is read as plain text."
    confidence, name, rule = ranked[0]
    texts = " and ".join(rule.template_all or rule.template_any)
    seen = texts or " and ".join(rule.vocab_all or rule.architectures)
    if confidence < 0.5:
        sentence = f"The chat template uses {seen} but renders no tools; {name} is the usual call format of such models."
    elif texts:
        sentence = f"The chat template contains {seen}, the call format of {name}."
    else:
        sentence = f"The model's {'vocabulary has' if rule.vocab_all else 'architecture is'} {seen}, as in models that call like {name}."
    others = ", ".join(other for _, other, _ in ranked[1:])
    return sentence if not others else f"{sentence} It would also fit {others}; name the parser by hand if calls are not recognised."


def _reasoning_sentence(ranked: Ranked) -> str:
    if not ranked:
        return "It has no reasoning markers."
    _, name, rule = ranked[0]
    texts = rule.template_any or rule.template_all
    return f"It contains {' or '.join(texts)}, the reasoning markers of {name}." if texts else f"Its reasoning is read as {name}."
