"""How much the model shall think, as the OpenAI surfaces ask for it: an effort, and budgets in tokens from several servers' dialects."""

from collections.abc import Mapping

from antiphon_protocols.body import invalid
from antiphon_protocols.nvext import BUDGET_FIELD, Nvext
from antiphon_turns.request import Thinking


def openai_thinking(effort: str | None, budgets: Mapping[str, int | None], nvext: Nvext | None = None) -> Thinking:
    """The wish of one request. `budgets`: fields of the body by name, the first that is set counts, before `nvext`. An effort "none", or a
    budget of 0, is the wish for no thinking. Raises InvalidRequest for a negative budget."""
    budgets = {**budgets, BUDGET_FIELD: nvext.max_thinking_tokens if nvext else None}
    for field, value in budgets.items():
        if value is not None and value < 0:
            raise invalid(field, f"must not be negative, not {value}")
    budget = next((value for value in budgets.values() if value is not None), None)
    if (effort or "").lower() == "none" or budget == 0:
        return Thinking(mode="off", effort="none")
    return Thinking(effort=effort, budget_tokens=budget)
