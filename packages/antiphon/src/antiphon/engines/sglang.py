"""An SGLang server as an `Engine`."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon.engines.http_stream import EngineRefusal, HttpEngine
from antiphon.engines.sglang_http import ABORT, GENERATE, GenerateReader, Manners, generate_body


class SglangEngine:
    """`constrains`: whether the server's grammar backend is llguidance, which reads our grammars. Request ids are ours and of one length:
    the server ends every request whose id begins with the one it is told to end."""

    reports_logprobs = True

    def __init__(self, http: HttpEngine, *, manners: Manners, constrains: bool = False) -> None:
        self.constrains = constrains
        self._http = http
        self._manners = manners

    async def start(self) -> None:
        """Gets ready; the engine is not asked anything."""
        await self._http.start()

    async def close(self) -> None:
        """Ends running jobs (they raise WorkerUnavailable). May be called twice."""
        await self._http.close()

    def ready(self) -> bool:
        """Whether the client is open."""
        return self._http.ready()

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Streams the job's chunks; see `antiphon.engines.base.Engine`."""
        rid = secrets.token_hex(16)
        ended = False
        try:
            async with aclosing(self._http.chunks(GENERATE, generate_body(job, rid, self._manners), GenerateReader(job))) as chunks:
                async for chunk in chunks:
                    ended = chunk.finish is not None
                    yield chunk
        except EngineRefusal:
            ended = True
            raise
        finally:
            # A closed connection is noticed with the next token; in a long prefill that is late.
            if not ended:
                self._http.send(ABORT, msgspec.json.encode({"rid": rid}))
