"""Old reasoning is left out of a prompt at the one moment when that is free: when the cache holds nothing of what comes behind it.

Reasoning that is kept makes prompts append-only, and so they stay cached; but once a session's prefix has gone (an idle night, another
worker) it would be computed again for nothing but its own sake. A cut, once made, stays for the session: to put the reasoning back would
be a miss of its own.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from threading import Lock

import msgspec

from antiphon.explain.sent import common_prefix
from antiphon_turns import AssistantMessage, ReasoningSegment, TurnRequest, UserMessage


def cut_at_last_user(request: TurnRequest) -> TurnRequest | None:
    """The request without the reasoning before its last user message; None where there is none."""
    places = [index for index, message in enumerate(request.messages) if isinstance(message, UserMessage)]
    cut = places[-1] if places else 0
    newly = request.messages[request.replay.cold_before : cut]
    reasons = any(isinstance(s, ReasoningSegment) for m in newly if isinstance(m, AssistantMessage) for s in m.segments)
    return _cut(request, cut) if reasons else None


def is_cold(*, held: int | None, kept: Sequence[int], dropped: Sequence[int]) -> bool:
    """Whether a prompt may lose its old reasoning for nothing. `kept` and `dropped` are its ids with and without; `held`: tokens of `kept`
    that a cache may hold at most, None = nothing is known. Free it is where what is held ends before the two part."""
    return held is not None and len(dropped) < len(kept) and held <= common_prefix(kept, dropped)


class ColdCuts:
    """The cuts that were made, by conversation, the `limit` latest."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._cuts: OrderedDict[Hashable, tuple[int, bytes]] = OrderedDict()
        self._lock = Lock()

    def applied(self, key: Hashable, request: TurnRequest) -> TurnRequest:
        """The request with the cut of its conversation, as long as the history still has the message it was made at."""
        with self._lock:
            cut, mark = self._cuts.get(key, (0, b""))
        if not cut or cut >= len(request.messages) or _mark(request, cut) != mark:
            return request
        return _cut(request, cut)

    def remember(self, key: Hashable, request: TurnRequest) -> None:
        """Keeps the cut of this request for those that follow."""
        cut = request.replay.cold_before
        with self._lock:
            self._cuts[key] = cut, _mark(request, cut)
            self._cuts.move_to_end(key)
            if len(self._cuts) > self._limit:
                self._cuts.popitem(last=False)


def _cut(request: TurnRequest, cut: int) -> TurnRequest:
    wish = msgspec.structs.replace(request.replay, cold_before=max(cut, request.replay.cold_before))
    return msgspec.structs.replace(request, replay=wish)


def _mark(request: TurnRequest, index: int) -> bytes:
    """Tells the message of a cut from one that took its place."""
    message = request.messages[index]
    text = message.text if isinstance(message, UserMessage) else ""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
