"""Which form a turn's output must have, and the grammar for it: forced calls and structured output."""

from collections.abc import Callable

import msgspec

from antiphon.engines.base import Engine
from antiphon.model import Model
from antiphon_parsers.call_grammar import Forced, force_calls
from antiphon_parsers.output_grammar import force_output
from antiphon_turns import TurnRequest
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
    end = model.family.frame.end_of_turn
    choice, call_format, output = request.tool_choice, model.format.call_format, request.output
    if choice.mode in ("any", "named") and call_format is not None:
        return Constraint(force=lambda room: force_calls(call_format, request.tools, choice, budget_tokens=room, end_token=end))
    if output is not None:
        calls_allowed = bool(request.tools) and choice.mode == "auto"
        return Constraint(force=lambda room: force_output(output, budget_tokens=room, end_token=end), calls_allowed=calls_allowed)
    return None
