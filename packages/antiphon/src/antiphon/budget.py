"""When a thinking budget is spent."""


class ThinkingBudget:
    """Counts the reasoning tokens of one turn, all its blocks together. Told after each batch whether the next token would be reasoning and
    how many tokens were sampled so far, it says whether the reasoning that runs has to end."""

    def __init__(self, tokens: int, *, in_reasoning: bool) -> None:
        self._left = tokens
        self._since = 0 if in_reasoning else None

    def spent(self, *, in_reasoning: bool, sampled: int) -> bool:
        """Whether the budget has come to its end inside a block of reasoning."""
        if self._since is not None:
            self._left -= sampled - self._since
        self._since = sampled if in_reasoning else None
        return in_reasoning and self._left <= 0
