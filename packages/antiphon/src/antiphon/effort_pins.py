"""The effort of a conversation, where it stands at the head of the prompt: another one there is another prompt from its first tokens on."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

import msgspec

from antiphon_turns import TemplateSwitches, Thinking
from antiphon_turns.effort import is_off, nearest


class Pinned(msgspec.Struct, frozen=True):
    """`thinking` is what the prompt shall be made with. `change` names a wish for another effort than before ("high -> max"):
    with `held` the old one stays, else it costs the cached prefix."""

    thinking: Thinking
    change: str = ""
    held: bool = False


class EffortPins:
    """First efforts by conversation, the `limit` latest. A request that names none, or wants no thinking, has its head made with the
    one before. `hold`: so has one that names another; otherwise that one is granted and takes its place."""

    def __init__(self, limit: int = 4096, *, hold: bool = False) -> None:
        self._limit = limit
        self._hold = hold
        self._levels: OrderedDict[Hashable, str] = OrderedDict()
        self._lock = Lock()

    def pin(self, key: Hashable, thinking: Thinking, switches: TemplateSwitches, *, remember: bool = True) -> Pinned:
        """The wish of one request of a conversation. `key` tells tenant and conversation; `remember` is False for what is only counted.
        Families whose effort stands elsewhere pass unchanged."""
        if not switches.effort_at_head:
            return Pinned(thinking)
        off = is_off(thinking)
        effort = (thinking.effort or "none").lower()
        wish = nearest(effort, switches.effort) if effort != "none" else None
        with self._lock:
            before = self._levels.get(key)
            change = f"{before} -> {wish}" if before and wish and wish != before else ""
            stays = before if wish is None or (change and self._hold) else wish
            if remember and stays is not None:
                self._levels[key] = stays
                self._levels.move_to_end(key)
                if len(self._levels) > self._limit:
                    self._levels.popitem(last=False)
        if stays is None:
            return Pinned(thinking)
        kept = msgspec.structs.replace(thinking, mode="off" if off else thinking.mode, effort=stays)
        return Pinned(kept, change, bool(change) and self._hold)
