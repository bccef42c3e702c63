"""Whether llama.cpp obeys a grammar: it answers one that it cannot compile by generating without any, and tells its log only."""

import contextlib
import hashlib

from antiphon.engines.base import Job
from antiphon.engines.llama_http import Seat, probe_body, read_error
from antiphon.engines.llama_server import LlamaServer
from antiphon_turns.errors import WorkerProtocolError

_PROVED_GRAMMARS = 1024


class GrammarProofs:
    """Each grammar is proved once."""

    def __init__(self, server: LlamaServer) -> None:
        self._server = server
        self._proved: dict[bytes, None] = {}

    async def prove(self, job: Job, seat: Seat) -> int | None:
        """Raises WorkerProtocolError unless the server obeys the job's grammar. The proof evaluates the job's prompt, so the tokens that
        were cached before it are returned; None when nothing was run."""
        digest = hashlib.sha256((job.grammar or "").encode()).digest()
        if digest in self._proved:
            return None
        eos_id = await self._server.end_token()
        ids: list[int] = []
        cached: int | None = None
        async with self._server.stream(probe_body(job, eos_id, seat)) as stream, contextlib.aclosing(stream.events()) as batches:
            async for events in batches:
                for event in events:
                    read_error(event)
                    if event.prompt_progress is not None:
                        cached = event.prompt_progress.cache if cached is None else cached
                    else:
                        ids += event.tokens
        if ids[:1] == [eos_id]:
            raise WorkerProtocolError("The embedded engine could not compile the grammar for this output (or it accepts an empty one).")
        if len(self._proved) >= _PROVED_GRAMMARS:
            del self._proved[next(iter(self._proved))]
        self._proved[digest] = None
        return cached
