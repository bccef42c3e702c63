"""One worker of a fleet: its address, what it said of itself, and how it does."""

from typing import Literal

import msgspec

from antiphon.engines.base import Engine
from antiphon.router.ask import WorkerInfo
from antiphon.workers.breaker import Breaker
from antiphon.workers.card import WorkerCard
from antiphon.workers.directory import WorkerAddress
from antiphon.workers.probe import Health

MemberState = Literal["connecting", "ready", "unwell", "resting", "draining", "refused", "gone"]
"""connecting: not reached yet. unwell: does not answer probes, or its connection is lost. resting: failed job after job, and gets none for
a while. draining: finishes what it has. refused: cannot be used, for the reason given. gone: no longer in the directory."""

UNKNOWN_BLOCK_TOKENS = 16


class MemberReport(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as /health shows it."""

    name: str
    url: str
    state: MemberState
    kind: str | None
    jobs: int
    detail: str | None


class Member:
    """Mutable; `card` and `engine` are there once it was reached. `jobs` counts those that run on it now."""

    def __init__(self, address: WorkerAddress, *, health: Health, breaker: Breaker) -> None:
        self.address = address
        self.health = health
        self.breaker = breaker
        self.card: WorkerCard | None = None
        self.engine: Engine | None = None
        self.state: MemberState = "connecting"
        self.detail: str | None = None
        self.jobs = 0

    @property
    def name(self) -> str:
        """Its name, everywhere."""
        return self.address.name

    def stands(self, now: float) -> MemberState:
        """What its parts say of it."""
        if self.state in ("refused", "gone"):
            return self.state
        if self.engine is None or self.card is None:
            return "connecting"
        if not self.health.is_well or not self.engine.ready():
            return "unwell"
        if not self.breaker.allows(now):
            return "resting"
        return "draining" if self.address.draining else "ready"

    def info(self) -> WorkerInfo:
        """What the router must know. Only for one that was reached."""
        assert self.card is not None, "a worker is described once it was reached"
        card = self.card
        info = WorkerInfo(
            name=self.name,
            block_tokens=card.block_tokens or UNKNOWN_BLOCK_TOKENS,
            cache_blocks=card.cache_blocks,
            ranks=max(card.ranks, 1),
            constrains=card.constrains,
            prioritizes=card.prioritizes,
        )
        return msgspec.structs.replace(info, batch_tokens=card.batch_tokens) if card.batch_tokens else info

    def report(self) -> MemberReport:
        """For others to read."""
        return MemberReport(
            name=self.name,
            url=self.address.url,
            state=self.state,
            kind=self.card.kind if self.card is not None else self.address.kind,
            jobs=self.jobs,
            detail=self.detail,
        )
