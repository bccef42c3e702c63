"""llama.cpp as the embedded engine sees it, without weights: slots that keep the beginning they share with a prompt, in batches."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from antiphon.engines.llama_http import Event, Progress
from antiphon.engines.llama_server import ServerShape
from antiphon_turns.errors import StreamInterrupted

BATCH = 64


class FakeStream:
    """One answer. A batch that is at work when it is closed is finished all the same."""

    def __init__(self, server: "FakeLlama", body: dict[str, Any]) -> None:
        self._server = server
        self._body = body
        self.closed = False

    def close(self) -> None:
        self.closed = True

    async def events(self) -> AsyncGenerator[list[Event], None]:
        prompt, slot = self._body["prompt"], self._server.slots[self._body["id_slot"]]
        held = 0
        while self._body["cache_prompt"] and held < min(len(slot), len(prompt) - 1) and slot[held] == prompt[held]:
            held += 1
        del slot[held:]
        yield [Event(prompt_progress=Progress(cache=held, processed=held))]
        for at in range(held, len(prompt), BATCH):
            slot += prompt[at : at + BATCH]
            await self._step()
            yield [Event(prompt_progress=Progress(cache=held, processed=len(slot)))]
        wanted = max(1, self._body["n_predict"])
        for number in range(wanted):
            token = (sum(slot) + number) % 50 + 1
            await self._step()
            yield [Event(tokens=[token], content="x", tokens_predicted=number + 1)]
            if number < wanted - 1:
                slot.append(token)
        yield [Event(stop=True, stop_type="limit", tokens_predicted=wanted)]

    async def _step(self) -> None:
        await asyncio.sleep(0)
        if self.closed:
            raise StreamInterrupted("closed")


class FakeLlama:
    """Stands in for `LlamaServer`. A request waits for its slot."""

    latest: "FakeLlama"

    def __init__(self, model_path: Path, shape: ServerShape) -> None:
        self.slots: list[list[int]] = [[] for _ in range(shape.slots)]
        self._locks = [asyncio.Lock() for _ in range(shape.slots)]
        self._ready = False
        self.copies = 0
        FakeLlama.latest = self

    async def start(self) -> None:
        self._ready = True

    async def close(self) -> None:
        self._ready = False

    def ready(self) -> bool:
        return self._ready

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[FakeStream]:
        request = msgspec.json.decode(body)
        async with self._locks[request["id_slot"]]:
            await asyncio.sleep(0)
            yield FakeStream(self, request)

    async def copy_slot(self, source: int, target: int) -> None:
        async with self._locks[source]:
            await asyncio.sleep(0)
            saved = list(self.slots[source])
        async with self._locks[target]:
            await asyncio.sleep(0)
            self.slots[target] = saved
        self.copies += 1
