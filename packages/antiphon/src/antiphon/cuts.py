"""Calls cut by the limit, counted in a row for each conversation: clients have no limit of their own for what follows a cut call."""

from collections import OrderedDict

# Clients have no loop limit of their own for recovered calls; after this many cut turns in a row they get the honest form.
RECOVERIES_IN_A_ROW = 2
CONVERSATIONS_REMEMBERED = 4096


class CutCounts:
    """How many turns in a row of a conversation ended in a cut call. Least recently cut first out."""

    def __init__(self) -> None:
        self._cuts: OrderedDict[str, int] = OrderedDict()

    def spent(self, conversation: str) -> bool:
        """Whether the conversation has been asked to go on as often as it may be."""
        return self._cuts.get(conversation, 0) >= RECOVERIES_IN_A_ROW

    def count(self, conversation: str, *, cut: bool) -> None:
        """A turn has ended."""
        if not cut:
            self._cuts.pop(conversation, None)
            return
        self._cuts[conversation] = self._cuts.pop(conversation, 0) + 1
        if len(self._cuts) > CONVERSATIONS_REMEMBERED:
            self._cuts.popitem(last=False)
