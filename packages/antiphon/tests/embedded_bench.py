"""The embedded engine with the default model, for tests: an engine and the loop it lives in."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from antiphon.engines.base import Chunk, Job
from antiphon.engines.embedded import EmbeddedEngine
from antiphon_turns import Sampling

HELLO = "<|im_start|>user\nSay hello to the world.<|im_end|>\n<|im_start|>assistant\n"
END_OF_TURN = 2
ENDLESS = '%llguidance {}\nstart: /(?s:.){4000,}/ "."'
T = TypeVar("T")


class Bench:
    """The engine and the loop it lives in."""

    def __init__(self, runner: asyncio.Runner, engine: EmbeddedEngine) -> None:
        self._runner = runner
        self.engine = engine

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def ids(self, text: str) -> list[int]:
        return self.run(self.engine.tokenize(text))

    def generate(self, job: Job) -> list[Chunk]:
        return self.run(collect(self.engine, job))


async def collect(engine: EmbeddedEngine, job: Job) -> list[Chunk]:
    return [chunk async for chunk in engine.generate(job)]


async def idle(engine: EmbeddedEngine, *, within: float) -> None:
    """Returns when llama.cpp is at rest; TimeoutError if it is not in time. The server answers between two batches."""
    async with asyncio.timeout(within):
        while await engine.busy():
            pass


def job(ids: list[int], max_tokens: int, **fields: Any) -> Job:
    fields = {"sampling": Sampling(temperature=0), "stop_ids": frozenset({END_OF_TURN}), **fields}
    return Job(request_id="test", prompt_ids=ids, max_tokens=max_tokens, **fields)


def output(chunks: list[Chunk]) -> list[int]:
    return [token_id for chunk in chunks for token_id in chunk.ids]
