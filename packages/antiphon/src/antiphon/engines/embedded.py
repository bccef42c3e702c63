"""The embedded engine: llama.cpp inside this process (xllamacpp), spoken to through its own loopback listener.

The listener exists whatever we do, so it gets a random key and no origins; asyncio talks to it without threads of our own.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from msgspec import structs

from antiphon.engines.base import Chunk, Job
from antiphon.engines.llama_http import Event, EventReader, Gaps, completion_body, error_message, logprobs_of, probe_body
from antiphon_turns import SampledLogprob
from antiphon_turns.errors import (
    ConfigError,
    StreamInterrupted,
    WorkerError,
    WorkerProtocolError,
    WorkerRefusal,
    WorkerTimeout,
    WorkerUnavailable,
)

_log = logging.getLogger(__name__)
_NO_ENGINE = "The embedded engine needs the package xllamacpp (`pip install xllamacpp`); without it, use --engine mock."
_SILENCE_LIMIT_S = 300.0  # the server pings every 30 s, also in a long prefill
_PROVED_GRAMMARS = 1024


def default_threads() -> int:
    """Threads for decoding and prefill: the cores this process may use, at most 8."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, usable))


class EmbeddedEngine:
    """An `antiphon.engines.base.Engine` over a GGUF file.

    `context_length` is the context of one job in tokens; `parallel` jobs run at once, further ones wait in order. `threads` None
    takes the usable cores, at most 8, for prompts and one fewer for decoding. `batch` is how many prompt tokens are evaluated
    between two looks at a cancelled request: 64 is as fast as more on CPUs and takes about a second on one core deep in a long
    prompt.
    """

    constrains = True
    reports_logprobs = True

    def __init__(
        self,
        model_path: str | Path,
        *,
        context_length: int,
        threads: int | None = None,
        parallel: int = 1,
        batch: int = 64,
    ) -> None:
        self._model_path = Path(model_path)
        self._context_length = context_length
        self._prefill_threads = threads or default_threads()
        # Decoding synchronises its threads hundreds of times a token; the last core is worth more to everything else.
        self._decode_threads = threads or max(1, default_threads() - 1)
        self._parallel = parallel
        self._batch = batch
        self._key = secrets.token_urlsafe(32)
        self._server: Any = None
        self._session: aiohttp.ClientSession | None = None
        self._gate = asyncio.Semaphore(parallel)
        self._responses: set[aiohttp.ClientResponse] = set()
        self._eos_id: int | None = None
        self._proved: dict[bytes, None] = {}

    async def start(self) -> None:
        """Loads the model in a thread. Raises ConfigError when the package, the file or the model is unusable."""
        try:
            self._server = await asyncio.to_thread(self._load)
        except (RuntimeError, ValueError, OSError) as error:
            raise ConfigError(f"The engine could not load {self._model_path.name}: {error}") from error
        # The server closes a connection after a stream although it announces keep-alive, so none is reused.
        self._session = aiohttp.ClientSession(
            base_url=self._server.listening_address,
            connector=aiohttp.TCPConnector(force_close=True, limit=0),
            headers={"Authorization": f"Bearer {self._key}"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=_SILENCE_LIMIT_S),
            read_bufsize=1 << 20,
        )

    def _load(self) -> Any:
        # The compute threads spin while they wait for each other; with any other process on the cores (an agent's tools, say)
        # that cost a factor of 3 to 7 (measured). Read once, when the library is loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ.setdefault("GOMP_SPINCOUNT", "0")
        try:
            import xllamacpp
        except ImportError as error:
            raise ConfigError(_NO_ENGINE) from error
        if not self._model_path.is_file():
            raise ConfigError(f"There is no model file at {self._model_path}.")
        params = xllamacpp.CommonParams()
        params.model.path = str(self._model_path)
        params.n_ctx = self._context_length * self._parallel  # the server divides it among its slots
        params.n_parallel = self._parallel
        params.n_batch = params.n_ubatch = self._batch
        params.cpuparams.n_threads = self._decode_threads
        params.cpuparams_batch.n_threads = self._prefill_threads
        params.fit_params = False  # the context is the caller's decision
        params.cache_ram_mib = 0  # keeps evicted prompts in RAM, with no measured gain
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [self._key]
        params.cors_origins = ""
        params.ui = False
        params.verbosity = -1
        return xllamacpp.Server(params)

    async def close(self) -> None:
        """Ends running jobs (they raise WorkerUnavailable) and frees model and listener. May be called twice."""
        session, self._session = self._session, None
        for response in tuple(self._responses):
            response.close()
        if session is not None:
            await session.close()
        servers, self._server = [self._server], None
        # the destructor joins the server's threads, so the last reference must die off the loop
        await asyncio.to_thread(servers.clear)

    def ready(self) -> bool:
        """Whether a job would be taken now (it may still have to wait for a slot)."""
        return self._session is not None and not self._session.closed

    async def busy(self) -> bool:
        """Whether llama.cpp itself is at work on any slot; this sees a cancelled job until it is really gone.
        Raises WorkerError."""
        async with self._answer("GET", "/slots", b"") as response:
            slots = msgspec.json.decode(await response.read(), type=list[dict[str, Any]])
        return any(slot.get("is_processing") for slot in slots)

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of a text by llama.cpp's own tokenizer; `special` reads control tokens in it. Raises WorkerError."""
        body = msgspec.json.encode({"content": text, "add_special": False, "parse_special": special})
        async with self._answer("POST", "/tokenize", body) as response:
            return msgspec.json.decode(await response.read(), type=dict[str, list[int]])["tokens"]

    async def detokenize(self, ids: list[int]) -> str:
        """Text of ids, control tokens visible. Raises WorkerError."""
        async with self._answer("POST", "/detokenize", msgspec.json.encode({"tokens": ids})) as response:
            return msgspec.json.decode(await response.read(), type=dict[str, str])["content"]

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Streams the job's chunks; see `antiphon.engines.base.Engine`. Closing the generator closes the socket, which
        llama.cpp notices after the token or prompt batch it is at."""
        loop = asyncio.get_running_loop()
        submitted = loop.time()
        async with self._gate:
            queued: float | None = loop.time() - submitted
            cached = await self._prove(job) if job.grammar is not None else None
            if cached is not None:
                yield Chunk([], None, cached, None, queued)
                queued = None
            async with contextlib.aclosing(self._events(completion_body(job))) as batches:
                told_cache = cached is not None
                gaps = Gaps()
                async for events in batches:
                    for event in events:
                        if missing := gaps.before(event):
                            event.tokens = await self._withheld(event, missing)
                    chunk = _chunk(events, job, told_cache=told_cache)
                    if chunk is None:
                        continue
                    told_cache = told_cache or chunk.cached_tokens is not None
                    if queued is not None:
                        chunk, queued = structs.replace(chunk, queue_seconds=queued), None
                    yield chunk
                    if chunk.finish is not None:
                        return
        raise StreamInterrupted("The embedded engine ended its answer early.")

    async def _withheld(self, event: Event, missing: int) -> list[int]:
        """All ids of an event that completes a character, when only the last was sent: those of the tokenizer for its text.

        The model nearly always samples just these. Where the count says otherwise the text is still right, but the ids are not
        the sampled ones, so the cached prefix ends here.
        """
        ids = await self.tokenize(event.content, special=False)
        if len(ids) != missing + len(event.tokens) or ids[-1:] != event.tokens[-1:]:
            _log.debug("ids of %r are not known for certain: %d sampled, %d written", event.content, missing + len(event.tokens), len(ids))
        return ids

    async def _events(self, body: bytes) -> AsyncGenerator[list[Event], None]:
        """Event lists, one for what has arrived together."""
        reader = EventReader()
        async with self._answer("POST", "/completion", body) as response:
            async for data in response.content.iter_any():
                events = reader.feed(data)
                if events:
                    yield events

    @contextlib.asynccontextmanager
    async def _answer(self, method: str, path: str, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """A good response, closed (not drained) on the way out; every failure inside becomes a WorkerError."""
        session = self._session
        if session is None:
            raise WorkerUnavailable("The embedded engine is not running.")
        response: aiohttp.ClientResponse | None = None
        try:
            response = await session.request(method, path, data=body, headers={"Content-Type": "application/json"})
            self._responses.add(response)
            if response.status != 200:
                raise _refusal(response.status, error_message(await response.read()))
            yield response
        except TimeoutError as error:
            raise WorkerTimeout("The embedded engine has been silent for too long.") from error
        except (aiohttp.ClientError, OSError) as error:
            if self._session is None:
                raise WorkerUnavailable("The embedded engine is shutting down.") from error
            if response is None:
                raise WorkerUnavailable("The embedded engine does not answer; restart the server.") from error
            raise StreamInterrupted("The connection to the embedded engine broke off.") from error
        finally:
            if response is not None:
                self._responses.discard(response)
                response.close()

    async def _prove(self, job: Job) -> int | None:
        """Raises WorkerProtocolError unless the server obeys the job's grammar. Each grammar is proved once.

        The proof evaluates the job's prompt, so the prompt's cached tokens before it are returned, None when nothing was run."""
        digest = hashlib.sha256((job.grammar or "").encode()).digest()
        if digest in self._proved:
            return None
        eos_id = await self._end_token()
        ids: list[int] = []
        cached: int | None = None
        async with contextlib.aclosing(self._events(probe_body(job, eos_id))) as batches:
            async for events in batches:
                chunk = _chunk(events, structs.replace(job, stop_ids=frozenset()), told_cache=cached is not None)
                if chunk is not None:
                    ids += chunk.ids
                    cached = chunk.cached_tokens if cached is None else cached
        if ids[:1] == [eos_id]:
            raise WorkerProtocolError("The embedded engine could not compile the grammar for this output (or it accepts an empty one).")
        if len(self._proved) >= _PROVED_GRAMMARS:
            del self._proved[next(iter(self._proved))]
        self._proved[digest] = None
        return cached

    async def _end_token(self) -> int:
        """A token the server takes as the end of generation, asked for once."""
        if self._eos_id is None:
            async with self._answer("GET", "/props", b"") as response:
                props = msgspec.json.decode(await response.read(), type=dict[str, Any])
            ids = await self.tokenize(str(props.get("eos_token", "")))
            if len(ids) != 1:
                raise WorkerProtocolError("The embedded model names no end token, so no grammar can be proved on it.")
            self._eos_id = ids[0]
        return self._eos_id


def _chunk(events: list[Event], job: Job, *, told_cache: bool) -> Chunk | None:
    """What arrived together, as one chunk, cut behind the first stop id; None when there is nothing to tell."""
    ids: list[int] = []
    top = job.sampling.top_logprobs
    logprobs: list[SampledLogprob | None] | None = None if top is None else []
    cached: int | None = None
    for event in events:
        if event.error is not None:
            raise WorkerProtocolError(f"The embedded engine failed: {event.error.message}")
        if event.prompt_progress is not None:
            if not told_cache:
                cached = event.prompt_progress.cache
                told_cache = True
            continue
        if logprobs is not None and top is not None:
            logprobs += logprobs_of(event, top)
        for token_id in event.tokens:
            ids.append(token_id)
            if token_id in job.stop_ids:
                return Chunk(ids, "stop", cached, logprobs and logprobs[: len(ids)])
        if event.stop:
            return Chunk(ids, "length" if event.stop_type == "limit" else "stop", cached, logprobs)
    return Chunk(ids, None, cached, logprobs) if ids or cached is not None else None


def _refusal(status: int, message: str) -> WorkerError:
    if status == 503:
        return WorkerUnavailable(f"The embedded engine is not ready: {message}")
    kind = WorkerRefusal if status == 400 else WorkerProtocolError
    return kind(f"The embedded engine refused the request ({status}): {message}")
