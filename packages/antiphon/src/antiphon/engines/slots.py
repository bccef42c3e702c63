"""Which slot of the embedded engine serves a job, and what each slot holds. Pure: states change by calls, time is passed in.

A slot is one sequence in the engine's cache. It goes on from any beginning that its tokens share with a prompt, and what stood behind
that is gone; another slot can be filled with a copy first. The choice is the one that costs fewest tokens, to be computed now or,
for what is lost, later.
"""

from array import array
from typing import Literal

import msgspec

from antiphon.engines.slot_blocks import SlotBlocks
from antiphon.engines.tokens import Tokens, shared

# A copy costs time too: about that of computing one token for so many copied ones, and a few for the two requests (measured).
COPIED_TOKENS_PER_TOKEN = 200
COPY_TOKENS = 16
# How soon what is not used is taken for useless: after so many seconds its loss counts half.
HALF_WORTH_SECONDS = 300.0
# What was promised to be kept is given up only when there is nothing else.
PROMISED_WORTH = 1000.0

State = Literal["idle", "prefill", "decode"]


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks of a slot. A `speculative` one takes nothing that was promised to be kept."""

    prompt: Tokens
    salt: str = ""
    session: str | None = None
    speculative: bool = False


class Choice(msgspec.Struct, frozen=True):
    """A slot, and how many tokens of the prompt it begins with, once it is a copy of `source` where there is one."""

    slot: int
    keep: int
    source: int | None = None


class Slot(msgspec.Struct, kw_only=True):
    """`promised` tokens are to be kept until `promised_until`. A slot of a session that has `ended` is worth nothing. Times in seconds."""

    tokens: Tokens = msgspec.field(default_factory=lambda: array("I"))
    salt: str = ""
    session: str | None = None
    state: State = "idle"
    used: float = 0.0
    promised: int = 0
    promised_until: float = 0.0
    ended: bool = False

    def reach(self, need: Need) -> int:
        """How many tokens of the prompt are here. The last one is always computed: what follows is sampled from it."""
        return min(shared(self.tokens, need.prompt), len(need.prompt) - 1) if self.salt == need.salt else 0

    def promise(self, now: float) -> int:
        """How many tokens are promised."""
        return self.promised if now < self.promised_until else 0


class Slots:
    """`count` slots, all empty. `blocks` is told what they hold. At most `count` - 1 are promised at a time, so that there is one for
    everybody else."""

    def __init__(self, count: int, *, blocks: SlotBlocks | None = None) -> None:
        self._slots = [Slot() for _ in range(count)]
        self._blocks = blocks

    def __getitem__(self, index: int) -> Slot:
        return self._slots[index]

    def __len__(self) -> int:
        return len(self._slots)

    def best_reach(self, need: Need) -> int:
        """The most that any slot has of a prompt."""
        return max(slot.reach(need) for slot in self._slots)

    def choose(self, need: Need, now: float) -> Choice | None:
        """The cheapest slot; None when all are taken, or for a speculative job when only promised ones are left. Slots that sample
        cannot be copied."""
        reach = [slot.reach(need) for slot in self._slots]
        source = max((i for i, slot in enumerate(self._slots) if slot.state != "decode"), key=lambda i: reach[i], default=None)
        best: tuple[tuple[float, bool, float], Choice] | None = None
        for index, slot in enumerate(self._slots):
            if slot.state != "idle":
                continue
            for origin in (None, source):
                if origin == index or (origin is not None and reach[origin] <= reach[index]):
                    continue
                choice = Choice(index, reach[index if origin is None else origin], origin)
                if need.speculative and self._kept(index, need) < slot.promise(now):
                    continue
                rank = (self._cost(choice, need, now), slot.session != need.session, slot.used)
                if best is None or rank < best[0]:
                    best = rank, choice
        return best[1] if best is not None else None

    def better_source(self, index: int, need: Need, gain: int) -> int | None:
        """A slot that has at least `gain` tokens more of the prompt than the job's own, and can be copied."""
        own = self._slots[index].reach(need)
        others = [i for i, slot in enumerate(self._slots) if i != index and slot.state != "decode"]
        found = max(others, key=lambda i: self._slots[i].reach(need), default=None)
        return found if found is not None and self._slots[found].reach(need) >= own + gain else None

    def take(self, index: int, need: Need) -> None:
        """The slot is the job's until `release`, in prefill at first."""
        slot = self._slots[index]
        slot.state, slot.session, slot.ended = "prefill", need.session, False

    def decode(self, index: int) -> None:
        """The slot samples from now on."""
        self._slots[index].state = "decode"

    def hold(self, index: int, tokens: Tokens, salt: str = "") -> None:
        """What the slot holds now."""
        slot = self._slots[index]
        if self._blocks is not None:
            same = shared(slot.tokens, tokens) if slot.salt == salt else 0
            self._blocks.hold(index, tokens, salt, same=same)
        slot.tokens, slot.salt = tokens, salt
        if len(tokens) < slot.promised:
            slot.promised = 0

    def release(self, index: int, now: float) -> None:
        """The job is gone; what the slot holds stays."""
        slot = self._slots[index]
        slot.state, slot.used = "idle", now

    def promise(self, index: int, tokens: int, *, until: float, now: float) -> None:
        """The first tokens of a slot are to be kept until a time. A longer promise that was made before stands."""
        slot = self._slots[index]
        # A promise that was given up leaves its time behind.
        before = slot.promised_until if slot.promise(now) else now
        if tokens <= 0 or until <= max(now, before):
            return
        slot.promised, slot.promised_until = tokens, until
        kept = [one for one in self._slots if one.promise(now)]
        if len(kept) >= len(self._slots):
            min(kept, key=lambda one: one.promised_until).promised = 0

    def forget(self) -> None:
        """Slots that no job has are empty."""
        for index, slot in enumerate(self._slots):
            if slot.state == "idle":
                self.hold(index, array("I"))

    def end_session(self, session: str) -> None:
        """Nothing of the session need be kept any longer."""
        for slot in self._slots:
            if slot.session == session:
                slot.ended, slot.promised = True, 0

    def _cost(self, choice: Choice, need: Need, now: float) -> float:
        """Tokens to compute now, and those lost, by how likely they are to be computed again."""
        slot = self._slots[choice.slot]
        copying = 0.0 if choice.source is None else COPY_TOKENS + choice.keep / COPIED_TOKENS_PER_TOKEN
        kept = self._kept(choice.slot, need)
        lost = max(0, len(slot.tokens) - kept)
        worth = 0.0 if slot.ended else HALF_WORTH_SECONDS / (HALF_WORTH_SECONDS + max(0.0, now - slot.used))
        broken = max(0, slot.promise(now) - kept)
        return len(need.prompt) - choice.keep + copying + lost * worth + broken * PROMISED_WORTH

    def _kept(self, index: int, need: Need) -> int:
        """How many of a slot's tokens will still be found somewhere once the prompt is in its place."""
        slot = self._slots[index]
        others = [one.tokens for i, one in enumerate(self._slots) if i != index and one.salt == slot.salt]
        if slot.salt == need.salt:
            others.append(need.prompt)
        return max((shared(slot.tokens, other) for other in others), default=0)
