"""Which form a turn's output must have, and the grammar for it: forced calls, structured output, calls of strict and freeform tools."""

from collections.abc import Callable

import msgspec

from antiphon.engines.base import Engine
from antiphon.model import Model
from antiphon_parsers.forcing import Forced, force_argument, force_calls, force_output
from antiphon_turns import Tool, TurnRequest
from antiphon_turns.errors import UnsupportedFeature


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """What follows the reasoning. `force` takes the tokens that are left and gives the start and the grammar of the rest.
    `calls_allowed`: the model may call a tool in place of the constrained text."""

    force: Callable[[int], Forced]
    calls_allowed: bool = False


def check_request(request: TurnRequest, engine: Engine, model: Model) -> None:
    """What would be obeyed with another engine or model is not dropped in silence: UnsupportedFeature."""
    if request.tool_choice.mode in ("any", "named") and engine.constrains and model.format.call_format is None:
        message = f"tool_choice: this model's call format ({model.family.name}) cannot be forced here; leave the choice to the model (auto)"
        raise UnsupportedFeature(message, param="tool_choice")
    if request.sampling.top_logprobs is not None and not engine.reports_logprobs:
        raise UnsupportedFeature("logprobs: the engine of this server does not tell them; leave the field out", param="logprobs")


def constraint_of(request: TurnRequest, engine: Engine, model: Model) -> Constraint | None:
    """The constraint that the engine can be held to, if the request asks for one. A call that must come goes before an output format."""
    if not engine.constrains:
        return None
    end, tokens = model.family.frame.end_of_turn, marker_tokens(request, model)
    choice, call_format, output = request.tool_choice, model.format.call_format, request.output
    if choice.mode in ("any", "named") and call_format is not None:
        # One call: what a small model adds to a call it had to make is rarely wanted.
        single = msgspec.structs.replace(choice, parallel=False)
        return Constraint(
            force=lambda room: force_calls(call_format, request.tools, single, budget_tokens=room, end_token=end, tokens=tokens)
        )
    if output is not None:
        calls_allowed = bool(request.tools) and choice.mode == "auto"
        return Constraint(
            force=lambda room: force_output(output, budget_tokens=room, end_token=end, tokens=tokens), calls_allowed=calls_allowed
        )
    return None


def marker_tokens(request: TurnRequest, model: Model) -> dict[str, int]:
    """The family's markers that are control tokens. One that a client's tool or schema spells is left out: there it is text (I13)."""
    control = model.tokenizer.control_tokens
    spelled = "\n".join([*(tool.name + tool.parameters for tool in request.tools), (request.output and request.output.schema) or ""])
    markers = (*model.family.markers, *model.family.frame.stop_tokens)
    return {marker: control[marker] for marker in markers if marker in control and marker not in spelled}


class HeldCalls:
    """Tools whose calls are held to their grammar although the model may choose freely: those the client calls strict, and those that
    take one text of a given form. Empty where the engine or the call format cannot do it."""

    def __init__(self, request: TurnRequest, engine: Engine, model: Model) -> None:
        self._model = model
        possible = engine.constrains and model.format.call_format is not None and request.tool_choice.mode == "auto"
        self._tools = {tool.name: tool for tool in request.tools if tool.strict or tool.freeform is not None} if possible else {}
        self._tokens = marker_tokens(request, model) if self._tools else {}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def rest_of(self, name: str | None, text: str, room: int) -> Forced | None:
        """The grammar for the rest of a call of tool `name` that has just begun at the end of the turn's `text`. None where the tool
        is not held, or too much has been said already to tell what must follow."""
        tool: Tool | None = self._tools.get(name or "")
        call_format, calls = self._model.format.call_format, self._model.format.grammar.calls
        if tool is None or call_format is None or calls is None:
            return None
        # A marker may stand within another's block; the one that begins what the format writes is the right one.
        starts = (text.rfind(opener) for opener in calls.openers)
        found = (
            force_argument(call_format, tool, written=text[start:], budget_tokens=room, tokens=self._tokens)
            for start in starts
            if start >= 0
        )
        return next((forced for forced in found if forced is not None), None)
