"""A worker in the test's own loop: HTTP and token stream on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from antiphon.config import WorkerSettings
from antiphon.engines.base import Chunk, Engine, Job
from antiphon.model import Model
from antiphon.serve import bind, build_engine, choice_of, listen, serve_http
from antiphon.workers.directory import WorkerAddress
from antiphon.workers.process import WorkerService, address_of, start_publisher
from antiphon_turns import Sampling


class Stage:
    """A running worker."""

    def __init__(self, service: WorkerService, model: Model, engine: Engine, url: str) -> None:
        self.service = service
        self.model = model
        self.engine = engine
        self.url = url
        self.address = WorkerAddress(name="w0", url=url)
        self.stop = asyncio.Event()

    def job(self, text: str, **fields: Any) -> Job:
        """A job whose prompt is one user message."""
        frame = self.model.family.frame
        user = frame.assistant_header.replace("assistant", "user")
        prompt = self.model.tokenizer.encode(f"{user}{text}{frame.end_of_turn}\n{frame.assistant_header}", added=True)
        common = Job(request_id="r", prompt_ids=prompt, max_tokens=1000, sampling=Sampling(), stop_ids=self.model.stop_ids)
        return msgspec.structs.replace(common, **fields)


@contextlib.asynccontextmanager
async def worker(engine: Engine | None = None, **settings: Any) -> AsyncIterator[Stage]:
    """A worker with the mock engine, or with the given one in its place."""
    chosen = WorkerSettings(**{"engine": "mock", "http_port": 0, "shutdown_grace_seconds": 1.0, **settings})
    listener, stream = bind(chosen), listen(chosen.http_host, 0, "--stream-port")
    model, own = build_engine(chosen, choice_of(chosen), kv_events=True)
    engine = engine or own
    await engine.start()
    publisher = start_publisher(chosen, engine)
    service = WorkerService(chosen, model, engine, stream_address=address_of(stream), publisher=publisher)
    await service.stream.start(stream)
    stage = Stage(service, model, engine, f"http://{address_of(listener)}")
    grace = chosen.shutdown_grace_seconds
    serving = asyncio.create_task(serve_http(service.app, listener, grace=grace, stop=stage.stop, drain=service.drain))
    try:
        yield stage
    finally:
        stage.stop.set()
        await serving
        service.close()
        if publisher is not None:
            publisher.close()
        await engine.close()
        listener.close()
        stream.close()


async def answer(engine: Engine, job: Job) -> tuple[list[int], list[Chunk]]:
    """All ids of a job, and its chunks."""
    chunks = [chunk async for chunk in engine.generate(job)]
    return [token_id for chunk in chunks for token_id in chunk.ids], chunks
