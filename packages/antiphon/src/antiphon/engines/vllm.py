"""A vLLM server as an `Engine`."""

import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon.engines.http_stream import EngineRefusal, HttpEngine
from antiphon.engines.vllm_http import COMPLETIONS, GenerateReader, SpellToken, completions_body, generate_body, rank_header
from antiphon.engines.vllm_wire import ABORT, GENERATE, AbortRequest

log = logging.getLogger("antiphon")

ABORTED_PREFIX = "generate-tokens-"
"""What the server puts before the ids it is given."""


class VllmEngine:
    """Speaks `/inference/v1/generate`, or `/v1/completions` where the first is not open (`--enable-scale-out`). `model` is the name that
    the server knows the model by; `constrains`: whether it takes our grammars; `spell` gives text and bytes of a token id, without it no
    probabilities are told. A server without priority scheduling is told none."""

    def __init__(
        self,
        http: HttpEngine,
        *,
        model: str,
        constrains: bool = False,
        spell: SpellToken | None = None,
        completions: bool = False,
    ) -> None:
        self.constrains = constrains
        self.reports_logprobs = spell is not None
        self._http = http
        self._model = model
        self._spell = spell
        self._completions = completions
        self._priorities = True

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
        while True:
            completions, priorities = self._completions, self._priorities
            try:
                async with aclosing(self._stream(job, completions=completions, priorities=priorities)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except EngineRefusal as error:
                if not self._learns(error, completions=completions, priorities=priorities):
                    raise

    async def _stream(self, job: Job, *, completions: bool, priorities: bool) -> AsyncGenerator[Chunk, None]:
        request_id = secrets.token_hex(16)
        wanted = self._spell if job.sampling.top_logprobs is not None else None
        reader = GenerateReader(job, wanted, completions=completions)
        if completions:
            body = completions_body(job, request_id, model=self._model, priorities=priorities)
        else:
            body = generate_body(job, request_id, priorities=priorities)
        ended = False
        try:
            async with aclosing(self._http.chunks(COMPLETIONS if completions else GENERATE, body, reader, rank_header(job))) as chunks:
                async for chunk in chunks:
                    ended = chunk.finish is not None
                    yield chunk
        except EngineRefusal:
            ended = True
            raise
        finally:
            # The closed connection tells the server too, unless a proxy between us keeps it.
            if not ended and not completions:
                self._http.send(ABORT, msgspec.json.encode(AbortRequest([ABORTED_PREFIX + request_id])))

    def _learns(self, error: EngineRefusal, *, completions: bool, priorities: bool) -> bool:
        """Whether the request can be asked in another way, which is then the way from now on."""
        if error.status in (403, 404, 405) and not completions:
            log.warning("%s does not open %s (--enable-scale-out would); %s is used", self._http.url, GENERATE, COMPLETIONS)
            self._completions = True
            return True
        if error.status == 400 and priorities and "priority" in error.message.lower():
            log.warning("%s takes no priorities; --scheduling-policy priority would let urgent jobs go first", self._http.url)
            self._priorities = False
            return True
        return False
