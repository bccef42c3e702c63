"""llama.cpp inside this process (xllamacpp): started, stopped, and spoken to through its own loopback listener.

The listener exists whatever we do, so it gets a random key and no origins; asyncio talks to it without threads of our own.
"""

import asyncio
import contextlib
import os
import secrets
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from antiphon.engines.llama_http import Event, EventReader, error_message
from antiphon_turns.errors import (
    ConfigError,
    StreamInterrupted,
    WorkerError,
    WorkerProtocolError,
    WorkerRefusal,
    WorkerTimeout,
    WorkerUnavailable,
)

_NO_ENGINE = "The embedded engine needs the package xllamacpp (`pip install xllamacpp`); without it, use --engine mock."
_SILENCE_LIMIT_S = 300.0  # the server pings every 30 s, also in a long prefill


def usable_cores() -> int:
    """The cores this process may use, at most 8."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, usable))


class ServerShape(msgspec.Struct, frozen=True, kw_only=True):
    """`slots` sequences of `context_length` tokens each. `threads` None takes the usable cores, at most 8, for prompts and one fewer for
    decoding. `batch`: prompt tokens evaluated between two looks at a cancelled request."""

    context_length: int
    slots: int
    threads: int | None
    batch: int


class Stream:
    """One streamed answer. `close` may be called by anybody; the reader then gets a StreamInterrupted."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def close(self) -> None:
        """The server stops after the token or prompt batch it is at."""
        self._response.close()

    async def events(self) -> AsyncGenerator[list[Event], None]:
        """Event lists, one for what has arrived together."""
        reader = EventReader()
        async for data in self._response.content.iter_any():
            events = reader.feed(data)
            if events:
                yield events


class LlamaServer:
    """A model in llama.cpp. Between `start` and `close` every call raises only WorkerErrors."""

    def __init__(self, model_path: Path, shape: ServerShape) -> None:
        self._model_path = model_path
        self._shape = shape
        self._key = secrets.token_urlsafe(32)
        self._server: Any = None
        self._session: aiohttp.ClientSession | None = None
        self._responses: set[aiohttp.ClientResponse] = set()
        self._files: tempfile.TemporaryDirectory[str] | None = None
        self._copies = 0
        self._eos_id: int | None = None

    async def start(self) -> None:
        """Loads the model in a thread. Raises ConfigError when the package, the file or the model is unusable."""
        try:
            # Saved slots are readable prompts: the folder is its owner's alone, and each file goes once it is read.
            self._files = tempfile.TemporaryDirectory(prefix="antiphon-slots-")
            self._server = await asyncio.to_thread(self._load, self._files.name)
        except (RuntimeError, ValueError, OSError) as error:
            raise ConfigError(f"The engine could not load {self._model_path.name}: {error}") from error
        finally:
            if self._server is None:
                self._drop_files()
        # The server closes a connection after a stream although it announces keep-alive, so none is reused.
        self._session = aiohttp.ClientSession(
            base_url=self._server.listening_address,
            connector=aiohttp.TCPConnector(force_close=True, limit=0),
            headers={"Authorization": f"Bearer {self._key}"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=_SILENCE_LIMIT_S),
            read_bufsize=1 << 20,
        )

    def _load(self, folder: str) -> Any:
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
        shape = self._shape
        params = xllamacpp.CommonParams()
        params.model.path = str(self._model_path)
        params.n_ctx = shape.context_length * shape.slots  # the server divides it among its slots
        params.n_parallel = shape.slots
        params.n_batch = params.n_ubatch = shape.batch
        # Decoding synchronises its threads hundreds of times a token; the last core is worth more to everything else.
        params.cpuparams.n_threads = shape.threads or max(1, usable_cores() - 1)
        params.cpuparams_batch.n_threads = shape.threads or usable_cores()
        params.fit_params = False  # the context is the caller's decision
        params.cache_ram_mib = 0  # keeps evicted prompts in RAM, with no measured gain
        params.slot_save_path = folder + os.sep
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.api_keys = [self._key]
        params.cors_origins = ""
        params.ui = False
        params.verbosity = -1
        return xllamacpp.Server(params)

    async def close(self) -> None:
        """Ends running requests (they raise WorkerUnavailable) and frees model, listener and files. May be called twice."""
        session, self._session = self._session, None
        for response in tuple(self._responses):
            response.close()
        if session is not None:
            await session.close()
        servers, self._server = [self._server], None
        # the destructor joins the server's threads, so the last reference must die off the loop
        await asyncio.to_thread(servers.clear)
        self._drop_files()

    def ready(self) -> bool:
        """Whether there is a server to talk to."""
        return self._session is not None and not self._session.closed

    async def busy(self) -> bool:
        """Whether llama.cpp is at work on any slot; this sees a cancelled request until it is really gone."""
        slots = msgspec.json.decode(await self._ask("GET", "/slots", b""), type=list[dict[str, Any]])
        return any(slot.get("is_processing") for slot in slots)

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of a text by llama.cpp's own tokenizer; `special` reads control tokens in it."""
        body = msgspec.json.encode({"content": text, "add_special": False, "parse_special": special})
        return msgspec.json.decode(await self._ask("POST", "/tokenize", body), type=dict[str, list[int]])["tokens"]

    async def detokenize(self, ids: list[int]) -> str:
        """Text of ids, control tokens visible."""
        body = msgspec.json.encode({"tokens": ids})
        return msgspec.json.decode(await self._ask("POST", "/detokenize", body), type=dict[str, str])["content"]

    async def end_token(self) -> int:
        """A token the server takes as the end of generation, asked for once."""
        if self._eos_id is None:
            props = msgspec.json.decode(await self._ask("GET", "/props", b""), type=dict[str, Any])
            ids = await self.tokenize(str(props.get("eos_token", "")))
            if len(ids) != 1:
                raise WorkerProtocolError("The embedded model names no end token, so no grammar can be proved on it.")
            self._eos_id = ids[0]
        return self._eos_id

    async def copy_slot(self, source: int, target: int) -> None:
        """`target` holds what `source` holds. Both wait for what runs on them."""
        if self._files is None:
            raise WorkerUnavailable("The embedded engine is not running.")
        self._copies += 1
        name = f"{self._copies}.bin"
        path = Path(self._files.name, name)
        body = msgspec.json.encode({"filename": name})
        try:
            await self._ask("POST", f"/slots/{source}?action=save", body)
            await self._ask("POST", f"/slots/{target}?action=restore", body)
        finally:
            path.unlink(missing_ok=True)

    @contextlib.asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Stream]:
        """A streamed completion, closed (not drained) on the way out."""
        async with self._answer("POST", "/completion", body) as response:
            yield Stream(response)

    async def _ask(self, method: str, path: str, body: bytes) -> bytes:
        async with self._answer(method, path, body) as response:
            return await response.read()

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

    def _drop_files(self) -> None:
        files, self._files = self._files, None
        if files is not None:
            files.cleanup()


def _refusal(status: int, message: str) -> WorkerError:
    if status == 503:
        return WorkerUnavailable(f"The embedded engine is not ready: {message}")
    kind = WorkerRefusal if status == 400 else WorkerProtocolError
    return kind(f"The embedded engine refused the request ({status}): {message}")
