"""Failures of a mock worker, on order: what a frontend must survive."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Literal, get_args

import msgspec

from antiphon.engines.base import Chunk
from antiphon_turns.errors import ConfigError, StreamInterrupted, WorkerUnavailable

FaultKind = Literal["crash-after", "hang-after", "cut-after", "slow", "wrong-ids"]
SPELLINGS = "crash-after=N, hang-after=N, cut-after=N (tokens of a job), slow=FACTOR or wrong-ids"


class Fault(msgspec.Struct, frozen=True):
    """crash-after: the engine dies when a job has had `amount` tokens, and takes every job with it. hang-after: each job stands still
    there, for good. cut-after: its stream ends there, without a finish. slow: everything takes `amount` times as long. wrong-ids:
    each sampled id is beyond the vocabulary."""

    kind: FaultKind
    amount: float = 0.0

    @property
    def slowness(self) -> float:
        """The factor of every duration."""
        return self.amount if self.kind == "slow" else 1.0


def parse_fault(text: str) -> Fault:
    """Reads `KIND` or `KIND=NUMBER`. Raises ConfigError."""
    kind, given, number = text.partition("=")
    amount = _number(number) if given else 0.0
    for known in get_args(FaultKind):
        needs = known != "wrong-ids"
        if kind == known and bool(given) == needs and amount is not None and (known == "slow" or amount == int(amount)):
            return Fault(known, amount)
    raise ConfigError(f"--mock-fault takes {SPELLINGS}; {text!r} is none of them")


def _number(text: str) -> float | None:
    if not text.replace(".", "", 1).isdigit():
        return None
    return float(text)


class Crash:
    """Whether the engine has died. A new start brings it back."""

    def __init__(self) -> None:
        self.happened = False


async def troubled(
    fault: Fault, chunks: AsyncGenerator[Chunk, None], *, crash: Crash, vocab_size: int, on_crash: Callable[[], None]
) -> AsyncGenerator[Chunk, None]:
    """A job's chunks as a failing engine sends them. Raises WorkerError."""
    if crash.happened:
        raise WorkerUnavailable("the mock engine has crashed, as it was told to")
    left = int(fault.amount) if fault.kind.endswith("-after") else None
    async with aclosing(chunks):
        async for chunk in chunks:
            if crash.happened:
                raise StreamInterrupted("the mock engine has crashed, as it was told to")
            if fault.kind == "wrong-ids":
                chunk = msgspec.structs.replace(chunk, ids=[vocab_size + token_id for token_id in chunk.ids])
            if left is None or len(chunk.ids) < left:
                left = None if left is None else left - len(chunk.ids)
                yield chunk
                continue
            if left:
                yield msgspec.structs.replace(chunk, ids=chunk.ids[:left], logprobs=chunk.logprobs and chunk.logprobs[:left], finish=None)
            break
        else:
            return
        if fault.kind == "hang-after":
            await asyncio.Event().wait()
        if fault.kind == "crash-after":
            crash.happened = True
            on_crash()
            raise StreamInterrupted("the mock engine has crashed, as it was told to")
