"""What a job asks of the next worker when one has failed it: the same prompt, with what was sampled so far behind it."""

from array import array

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon_turns import RoutingWish


class MigrationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often a job may move, and up to how many tokens of prompt and output together (0: any number)."""

    moves: int = 3
    tokens: int = 0


class Journey:
    """One job on its way over workers. Pure."""

    def __init__(self, job: Job, limits: MigrationLimits) -> None:
        self._job = job
        self._limits = limits
        self.output: list[int] = []
        self.moves = 0
        self.failed_on: frozenset[str] = frozenset()

    def took(self, chunk: Chunk) -> None:
        """What a worker sampled, and was passed on."""
        self.output += chunk.ids

    def missing(self) -> Chunk | None:
        """The end that a worker owed when it failed, where nothing but the end was missing."""
        if self.output and self.output[-1] in self._job.stop_ids:
            return Chunk([], "stop")
        if len(self.output) >= self._job.max_tokens:
            return Chunk([], "length")
        return None

    def job(self) -> Job:
        """What to ask of the next worker: the tokens so far belong to the prompt, and count against the limit. A wish for a worker that
        has failed was fulfilled as far as it could be."""
        job = self._job
        if job.placement.wish.worker in self.failed_on:
            wish = RoutingWish(mode=job.placement.wish.mode)
            job = msgspec.structs.replace(job, placement=msgspec.structs.replace(job.placement, wish=wish))
        if not self.output:
            return job
        # The router hashes arrays as they are.
        prompt = array("I", job.prompt_ids)
        prompt.extend(self.output)
        return msgspec.structs.replace(job, prompt_ids=prompt, max_tokens=job.max_tokens - len(self.output))

    def why_not(self) -> str | None:
        """Why the job cannot go on elsewhere, as the end of a sentence; None when it can."""
        limits = self._limits
        if self._job.prefill_only:
            return "it was to fill that worker's cache"
        if self._job.grammar is not None and self.output:
            # The engine's grammar begins at its root; where the output stands in it only the lost worker knew.
            return "output that must keep to a grammar cannot be continued elsewhere once it has begun"
        if self.moves >= limits.moves:
            return f"it has moved {self.moves} times already" if self.moves else "jobs do not move here"
        length = len(self._job.prompt_ids) + len(self.output)
        if limits.tokens and length > limits.tokens:
            return f"it has {length} tokens, and jobs of more than {limits.tokens} do not move"
        return None

    def move(self, failed: str) -> None:
        """The job goes on; the worker that failed it is not asked again if there is another."""
        self.moves += 1
        self.failed_on |= {failed}
