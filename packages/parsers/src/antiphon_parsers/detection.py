"""Which format a model speaks, from its chat template, added tokens and architecture."""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from antiphon_parsers.families.hf import Declared
from antiphon_parsers.registry import REASONING_PARTS, TOOL_PARTS, ModelFormat
from antiphon_turns import DetectionRule, Keep, TemplateSwitches

NEAR = 0.1
"""A family whose confidence is at most this far from the best one's would fit as well."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A name that would fit as well as the one that was taken. `reason` is a clause: what speaks for it."""

    kind: Literal["tool", "reasoning"]
    name: str
    reason: str
    confidence: float


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """The names for `resolve`. `reason` is for the start-up text, in whole sentences; `confidence` is between 0 and 1. `others`
    would fit nearly as well: the evidence is ambiguous, and the operator should name the parser. `declared` goes to `resolve`
    with the names."""

    tool_parser: str | None
    reasoning_parser: str | None
    reason: str
    confidence: float
    others: tuple[Candidate, ...] = ()
    declared: Declared | None = None


def detect(template: str, added_tokens: Collection[str], architectures: Sequence[str]) -> Detection:
    """The best format the evidence allows; plain text when nothing fits."""
    evidence = Evidence(template, added_tokens, architectures)
    tools = evidence.ranked((part.name, part.detection) for part in TOOL_PARTS.values())
    reasoning = evidence.ranked((part.name, part.detection) for part in REASONING_PARTS.values())
    others = (*_others("tool", tools), *_others("reasoning", reasoning))
    sentences = [_tool_sentence(tools), _reasoning_sentence(reasoning), *_doubts(others)]
    confidence = tools[0].rule.confidence if tools else 0.2
    return Detection(
        tool_parser=tools[0].name if tools else None,
        reasoning_parser=reasoning[0].name if reasoning else None,
        reason=" ".join(sentences),
        confidence=min(confidence, 0.5) if others else confidence,
        others=others,
    )


def adapt(model: ModelFormat, template: str, *, replay: Keep | None = None) -> ModelFormat:
    """The format for one chat template: where the template has a variable that keeps the reasoning of past turns, it
    is set for every request and the replay policy follows it; efforts that the template does not read are none. `replay` is the
    operator's own policy: requests may narrow it, not widen it."""
    family, part = model.family, REASONING_PARTS.get(model.names[1] or "")
    switches, policy = _known_efforts(family.switches, template), family.replay
    for switch in part.replay_switches if part else ():
        if switch.variable in template:
            kept = switch.variable, switch.value
            switches = msgspec.structs.replace(switches, agent={**switches.agent, switch.variable: switch.value})
            policy = msgspec.structs.replace(policy, keep=switch.keep, switch=kept, switched_off=policy.keep, without_tools=None)
            break
    if replay is not None:
        if policy.switch is not None:
            variable, keeps = policy.switch
            switches = msgspec.structs.replace(switches, agent={**switches.agent, variable: keeps if replay == "all" else not keeps})
        policy = msgspec.structs.replace(policy, keep=replay, without_tools=None, fixed=True)
    family = msgspec.structs.replace(family, switches=switches, replay=policy)
    return msgspec.structs.replace(model, family=family)


def _known_efforts(switches: TemplateSwitches, template: str) -> TemplateSwitches:
    """Models of one family differ in their levels; without a template to look at, all are taken for known."""
    if not template:
        return switches
    known = {level: told for level, told in switches.effort.items() if all(name in template for name in told)}
    if not any(known.values()):
        known = {}
    budget = switches.budget if switches.budget and switches.budget in template else None
    return msgspec.structs.replace(switches, effort=known, effort_at_head=switches.effort_at_head and bool(known), budget=budget)


class Holding(msgspec.Struct, frozen=True):
    """A family, the surest of its rules that hold, and the model's architectures that the rule names."""

    name: str
    rule: DetectionRule
    architectures: tuple[str, ...] = ()

    @property
    def clause(self) -> str:
        """What the rule saw."""
        rule = self.rule
        texts = " and ".join(rule.template_all) or " or ".join(rule.template_any)
        seen = [f"the chat template contains {texts}"] if texts else []
        seen += [f"the vocabulary has {' and '.join(rule.vocab_all)}"] if rule.vocab_all else []
        seen += [f"the architecture is {' and '.join(self.architectures)}"] if self.architectures else []
        return " and ".join(seen)


Ranked = list[Holding]


class Evidence(msgspec.Struct, frozen=True):
    """What a model says about itself."""

    template: str
    added_tokens: Collection[str]
    architectures: Sequence[str]

    def ranked(self, rules: Iterable[tuple[str, tuple[DetectionRule, ...]]]) -> Ranked:
        """The families whose rules hold, the surest first."""
        found: Ranked = []
        for name, candidates in rules:
            holding = [rule for rule in candidates if self.holds(rule)]
            if holding:
                best = max(holding, key=lambda rule: rule.confidence)
                found.append(Holding(name, best, tuple(item for item in self.architectures if item in best.architectures)))
        return sorted(found, key=lambda held: -held.rule.confidence)

    def holds(self, rule: DetectionRule) -> bool:
        """Whether every condition of the rule is met."""
        return (
            all(text in self.template for text in rule.template_all)
            and (not rule.template_any or any(text in self.template for text in rule.template_any))
            and not any(text in self.template for text in rule.template_none)
            and all(token in self.added_tokens for token in rule.vocab_all)
            and (not rule.architectures or any(name in rule.architectures for name in self.architectures))
        )


def refines(rule: DetectionRule, other: DetectionRule) -> bool:
    """Whether `rule` demands all that `other` does, and more: a variant's rule beside that of the format it is a variant of."""
    texts = set(rule.template_all)
    narrower = (
        set(other.template_all) <= texts
        and (not other.template_any or bool(set(other.template_any) & texts) or 0 < len(rule.template_any) == len(_common(rule, other)))
        and set(other.vocab_all) <= set(rule.vocab_all)
        and (not other.architectures or (bool(rule.architectures) and set(rule.architectures) <= set(other.architectures)))
    )
    return narrower and _conditions(rule) != _conditions(other)


def _common(rule: DetectionRule, other: DetectionRule) -> set[str]:
    return set(rule.template_any) & set(other.template_any)


def _conditions(rule: DetectionRule) -> tuple[object, ...]:
    return rule.template_all, rule.template_any, rule.vocab_all, rule.architectures


def _others(kind: Literal["tool", "reasoning"], ranked: Ranked) -> tuple[Candidate, ...]:
    """The families that fit nearly as well as the first, of which that is no variant."""
    return tuple(
        Candidate(kind=kind, name=held.name, reason=held.clause, confidence=held.rule.confidence)
        for held in ranked[1:]
        if ranked[0].rule.confidence - held.rule.confidence <= NEAR + 1e-9 and not refines(ranked[0].rule, held.rule)
    )


def _doubts(others: tuple[Candidate, ...]) -> list[str]:
    if not others:
        return []
    named = "; ".join(f"{other.name} for {'calls' if other.kind == 'tool' else 'reasoning'}, as {other.reason}" for other in others)
    return [f"It would also fit {named}. Name the parser by hand if the output is read wrongly."]


def _tool_sentence(ranked: Ranked) -> str:
    if not ranked:
        return "No known tool-call format was found in the chat template, so the output is read as plain text."
    name, rule = ranked[0].name, ranked[0].rule
    texts = " and ".join(rule.template_all or rule.template_any)
    seen = texts or " and ".join(rule.vocab_all or ranked[0].architectures)
    if rule.confidence < 0.5:
        return f"The chat template uses {seen} but renders no tools; {name} is the usual call format of such models."
    if texts:
        return f"The chat template contains {seen}, the call format of {name}."
    if rule.vocab_all:
        return f"The model's vocabulary has {seen}, as in models that call like {name}."
    return f"The model's architecture is {seen}; such models call like {name}."


def _reasoning_sentence(ranked: Ranked) -> str:
    if not ranked:
        return "It has no reasoning markers."
    name, rule = ranked[0].name, ranked[0].rule
    texts = rule.template_any or rule.template_all
    return f"It contains {' or '.join(texts)}, the reasoning markers of {name}." if texts else f"Its reasoning is read as {name}."
