"""How much a model shall think: the wish of a surface as the template variables of a family. Pure data to pure data."""

from typing import Any

import msgspec

from antiphon_turns.family import TemplateSwitches
from antiphon_turns.request import Surface, Thinking, TurnRequest

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""All levels that surfaces name, the least first."""

_EFFORT_FIELD: dict[Surface, str] = {"messages": "output_config.effort", "chat": "reasoning_effort", "responses": "reasoning.effort"}
_OFF_FIELD: dict[Surface, str] = {**_EFFORT_FIELD, "messages": "thinking"}


def nearest(effort: str, known: dict[str, Any]) -> str | None:
    """The level of `known` that is nearest to the wish, the higher one of two at the same distance; a word that is no level only counts
    where the family knows it. None: there is none."""
    effort = effort.lower()
    if effort in known:
        return effort
    levels = [level for level in LEVELS if level in known and level != "none"]
    if effort not in LEVELS or not levels:
        return None
    wanted = LEVELS.index(effort)
    return min(levels, key=lambda level: (abs(LEVELS.index(level) - wanted), -LEVELS.index(level)))


def thinking_variables(thinking: Thinking, switches: TemplateSwitches) -> dict[str, Any]:
    """What the template is told. A level above none asks for thinking where nothing else decides. Where the level stands at the head of the
    prompt it is told also to a turn that shall not think, so that the head stays the same."""
    effort = _wish(thinking)
    if is_off(thinking):
        off = switches.thinking_off or switches.effort.get("none", {})
        if off and (effort is None or not switches.effort_at_head):
            return off
        return {**_level(effort or LEVELS[0], switches), **off}
    on = switches.thinking_on
    adaptive = switches.thinking_adaptive or on
    modes = {"on": on, "adaptive": adaptive, "default": on if effort else {}}
    budget = {switches.budget: thinking.budget_tokens} if switches.budget and thinking.budget_tokens else {}
    return {**modes[thinking.mode], **(_level(effort, switches) if effort else {}), **budget}


def is_off(thinking: Thinking) -> bool:
    """Whether the client wants no thinking."""
    return thinking.mode == "off" or (thinking.effort or "").lower() == "none"


def unheeded(request: TurnRequest, switches: TemplateSwitches, *, reasons: bool) -> tuple[str, ...]:
    """The request's fields, in its surface's spelling, that the model has no switch for. `reasons`: whether the format has reasoning;
    without it there is nothing to turn off. Only what a client says in words counts: `effort` "none" stands for that."""
    thinking, surface = request.thinking, request.surface
    if surface not in _EFFORT_FIELD:
        return ()
    if (thinking.effort or "").lower() == "none":
        can_stop = bool(switches.thinking_off) or "none" in switches.effort
        return (_OFF_FIELD[surface],) if reasons and not can_stop else ()
    if thinking.mode == "off" or thinking.effort is None:
        return ()
    return (_EFFORT_FIELD[surface],) if nearest(thinking.effort, switches.effort) is None else ()


def named(request: TurnRequest, switches: TemplateSwitches, *, reasons: bool) -> TurnRequest:
    """The request with what is not heeded among its ignored fields."""
    fields = tuple(field for field in unheeded(request, switches, reasons=reasons) if field not in request.ignored)
    return msgspec.structs.replace(request, ignored=(*request.ignored, *fields)) if fields else request


def _wish(thinking: Thinking) -> str | None:
    effort = (thinking.effort or "").lower()
    return effort if effort and effort != "none" else None


def _level(effort: str, switches: TemplateSwitches) -> dict[str, Any]:
    level = nearest(effort, switches.effort)
    return switches.effort[level] if level is not None else {}
