"""A simulated worker as a fleet sees it: jobs in, progress out, one step after the other. Two kinds: the engine of `batch.py` with real
token ids, and one that counts, for fleets."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from antiphon.simulation.prompts import Prompt


class WorkerJob(msgspec.Struct, frozen=True, kw_only=True):
    """One request at a worker. `key` names it; `whole` is its prompt with the answer."""

    key: int
    prompt: Prompt
    output_tokens: int
    priority: int = 0
    whole: Prompt | None = None


class Progress(msgspec.Struct, frozen=True):
    """So many more tokens of a job. `cached_tokens` of its prompt comes with the first."""

    key: int
    tokens: int
    ended: bool
    cached_tokens: int | None = None


class FleetWorker(Protocol):
    """`ends`: when the step under way ends, None while nothing is under way; a submitted job may bring it forward."""

    ends: float | None
    busy_seconds: float
    computed_tokens: int

    def submit(self, job: WorkerJob, now: float) -> None:
        """A job comes."""
        ...

    def finish(self, now: float) -> Sequence[Progress]:
        """The step has ended; the next one begins."""
        ...
