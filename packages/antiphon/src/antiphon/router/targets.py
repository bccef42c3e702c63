"""Targets: what a job can be sent to, each with its load. A worker is one target for each of its data-parallel ranks."""

import msgspec

from antiphon.router.ask import TargetLoad, WorkerInfo

# Tokens of an answer after which its weight is counted anew.
_PORTION = 32


def target_name(worker: str, rank: int, ranks: int) -> str:
    """The name that indexes know a rank by: the worker's own where it is the only one."""
    return worker if ranks == 1 else f"{worker}/{rank}"


class Target(msgspec.Struct, kw_only=True, eq=False):
    """Mutable. `prefill`: prompt tokens sent and not computed yet; `urgent`: those with a priority above 0, by it. `decode`: tokens of
    sequences it has. `last_chosen` grows with every choice; ties go to the one that waited longest. `full_at`: with more prefill
    than this it gets nothing that can wait."""

    name: str
    info: WorkerInfo
    rank: int
    full_at: float
    available: bool = True
    prefill: int = 0
    urgent: dict[int, int] = {}
    decode: float = 0.0
    active: int = 0
    last_chosen: int = 0

    def ahead_of(self, priority: int) -> int:
        """The prompt tokens that it computes before those of a job of this priority."""
        if priority <= 0 or not self.info.prioritizes:
            return self.prefill
        return sum(tokens for other, tokens in self.urgent.items() if other >= priority)

    def has_room(self, priority: int = 0) -> bool:
        """Whether it is within its threshold, as a job of this priority sees it."""
        return self.ahead_of(priority) <= self.full_at

    def load(self) -> TargetLoad:
        """For others to read."""
        return TargetLoad(
            worker=self.info.name,
            rank=self.rank,
            available=self.available,
            active=self.active,
            prefill_tokens=self.prefill,
            decode_tokens=round(self.decode),
        )


class Running(msgspec.Struct, kw_only=True, eq=False):
    """One job on its target, so that exactly what it added can be taken away again. `osl`: expected output length."""

    target: Target
    prompt_tokens: int
    prefill: int
    osl: int | None
    priority: int = 0
    output: int = 0
    decode: float = 0.0

    def begin(self) -> None:
        """Counts the job."""
        self.target.active += 1
        self._count(self.prefill)
        self._weigh()

    def prefilled(self) -> None:
        """Its prompt is computed. Twice changes nothing."""
        self._count(-self.prefill)
        self.prefill = 0

    def progressed(self, tokens: int) -> bool:
        """So many more tokens are sampled. Whether the target's load has changed: it does in portions, since this is called for every
        token and nobody's choice hangs on a few."""
        before = self.output // _PORTION
        self.output += tokens
        if self.output // _PORTION == before:
            return False
        self._weigh()
        return True

    def end(self) -> None:
        """Takes the job off. To be called once."""
        self.prefilled()
        self.target.active -= 1
        self.target.decode -= self.decode
        if not self.target.active:
            # Sums of fractions do not come back to nothing by themselves.
            self.target.decode = 0.0

    def _count(self, tokens: int) -> None:
        self.target.prefill += tokens
        if self.priority > 0 and tokens:
            urgent = self.target.urgent
            left = urgent.get(self.priority, 0) + tokens
            if left:
                urgent[self.priority] = left
            else:
                del urgent[self.priority]

    def _weigh(self) -> None:
        # A job whose length is known weighs what it will need, and less the nearer its end is: its place is free soon.
        weight = float(self.prompt_tokens + self.output)
        if self.osl:
            left = max(1 - self.output / self.osl, 0.0)
            weight = (self.prompt_tokens + max(self.osl, self.output)) * left
        self.target.decode += weight - self.decode
        self.decode = weight
