"""A worker's `POST /inference/v1/generate` and `/inference/v1/abort_requests`, in vLLM's form (`engines/vllm_wire.py`)."""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec
from starlette.types import Receive, Scope, Send

from antiphon.engines.base import Chunk, Engine, Job
from antiphon.engines.vllm_wire import (
    DONE,
    AbortRequest,
    GenerateChoice,
    GenerateReply,
    GenerateRequest,
    Logprob,
    Logprobs,
    PromptDetails,
    Usage,
)
from antiphon.http import ClientGone, Disconnect, headers_of, read_body, send_response
from antiphon_turns import Sampling
from antiphon_turns.errors import (
    AntiphonError,
    BodyTooLarge,
    InternalError,
    InvalidRequest,
    RequestError,
    StreamInterrupted,
    WorkerError,
    WorkerRefusal,
    WorkerUnavailable,
)

log = logging.getLogger("antiphon")

# Ids of a million tokens, written out.
MAX_BODY_BYTES = 16 << 20
JSON = [("content-type", "application/json")]
EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
STATUS: tuple[tuple[type[AntiphonError], int], ...] = (
    (BodyTooLarge, 413),
    (RequestError, 400),
    (WorkerRefusal, 400),
    (WorkerUnavailable, 503),
    (WorkerError, 502),
)


class Running:
    """The requests that run, by id."""

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def abort(self, request_ids: list[str]) -> None:
        """Ends those that are there, by their whole ids."""
        for request_id in request_ids:
            task = self.tasks.get(request_id)
            if task is not None:
                task.cancel()

    def __len__(self) -> int:
        return len(self.tasks)


class GenerateRoute:
    """One job a request, over SSE or as one body. `room` gives the tokens that the context leaves a prompt of so many; `admit` raises
    WorkerError for a job that is not to be run."""

    def __init__(
        self, engine: Engine, *, stop_ids: frozenset[int], model: str, room: Callable[[int], int], admit: Callable[[Job], None]
    ) -> None:
        self._engine = engine
        self._stop_ids = stop_ids
        self._model = model
        self._room = room
        self._admit = admit
        self.running = Running()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        try:
            body = msgspec.json.decode(await read_body(headers_of(scope), receive, limit=MAX_BODY_BYTES), type=GenerateRequest)
            job = self._job(body)
            self._admit(job)
        except ClientGone:
            return
        except msgspec.MsgspecError as error:
            await refuse(send, InvalidRequest(f"the body is no request for tokens: {error}"))
            return
        except AntiphonError as error:
            await refuse(send, error)
            return
        await self._run(body, job, receive, send)

    async def _run(self, body: GenerateRequest, job: Job, receive: Receive, send: Send) -> None:
        answer = Answer(send, request_id=job.request_id, model=self._model, prompt_tokens=len(job.prompt_ids))
        task = asyncio.current_task()
        assert task is not None
        self.running.tasks[job.request_id] = task
        try:
            async with Disconnect(receive):
                chunks = self._engine.generate(job)
                await (answer.stream(chunks, body) if body.stream else answer.whole(chunks))
        except asyncio.CancelledError:
            # An abort: the one who waits for the answer is told. Anybody else's cancellation finds nobody who listens.
            with contextlib.suppress(OSError):
                await answer.fail(StreamInterrupted("the request was aborted"))
        except WorkerError as error:
            await answer.fail(error)
        except Exception:  # the worker seam: whatever an engine does, its request ends with an answer
            log.exception("request %s failed", job.request_id)
            await answer.fail(InternalError("the worker failed; its log has the details"))
        finally:
            self.running.tasks.pop(job.request_id, None)

    def _job(self, body: GenerateRequest) -> Job:
        wish = body.sampling_params
        request_id = body.request_id or f"generate-tokens-{secrets.token_hex(16)}"
        if request_id in self.running.tasks:
            raise InvalidRequest(f"a request called {request_id[:100]!r} is running already")
        if wish.n != 1:
            raise InvalidRequest("n: one answer a request")
        if wish.logprobs:
            raise InvalidRequest("logprobs: this route tells those of the sampled tokens only (0)")
        outputs = wish.structured_outputs
        if outputs is not None and outputs.grammar is None:
            raise InvalidRequest("structured_outputs: this worker takes `grammar`, an llguidance Lark text")
        if outputs is not None and not self._engine.constrains:
            raise InvalidRequest("structured_outputs: this worker's engine cannot be held to a grammar")
        room = self._room(len(body.token_ids))
        return Job(
            request_id=request_id,
            prompt_ids=body.token_ids,
            max_tokens=room if wish.max_tokens is None else wish.max_tokens,
            sampling=Sampling(
                temperature=wish.temperature,
                top_p=wish.top_p,
                top_k=wish.top_k,
                min_p=wish.min_p,
                seed=wish.seed,
                presence_penalty=wish.presence_penalty,
                frequency_penalty=wish.frequency_penalty,
                top_logprobs=wish.logprobs,
            ),
            stop_ids=frozenset(wish.stop_token_ids) | (frozenset() if wish.ignore_eos else self._stop_ids),
            grammar=None if outputs is None else outputs.grammar,
            priority=-body.priority,
            cache_salt=body.cache_salt or "",
        )


class Answer:
    """One answer on its way out. Counts are of tokens."""

    def __init__(self, send: Send, *, request_id: str, model: str, prompt_tokens: int) -> None:
        self._send = send
        self._request_id = request_id
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._sampled = 0
        self._cached: int | None = None
        self._opened = False

    async def stream(self, chunks: AsyncGenerator[Chunk, None], body: GenerateRequest) -> None:
        """Events as the chunks come. Raises WorkerError."""
        options = body.stream_options
        every = options is not None and options.continuous_usage_stats
        async with aclosing(chunks):
            async for chunk in chunks:
                self._count(chunk)
                if chunk.ids or chunk.finish is not None:
                    await self._event(GenerateReply(self._request_id, usage=self._usage() if every else None, choices=[_choice(chunk)]))
                if chunk.finish is not None:
                    break
            else:
                raise StreamInterrupted("the engine ended its answer early")
        if options is not None and options.include_usage:
            await self._event(GenerateReply(self._request_id, usage=self._usage()))
        await self._write(DONE)
        await self._send({"type": "http.response.body", "body": b""})

    async def whole(self, chunks: AsyncGenerator[Chunk, None]) -> None:
        """One body. Raises WorkerError."""
        ids: list[int] = []
        logprobs: list[Logprob] | None = None
        async with aclosing(chunks):
            async for chunk in chunks:
                self._count(chunk)
                ids += chunk.ids
                if chunk.logprobs is not None:
                    logprobs = [*(logprobs or []), *_logprobs(chunk)]
                if chunk.finish is not None:
                    break
            else:
                raise StreamInterrupted("the engine ended its answer early")
        known = None if logprobs is None else Logprobs(logprobs)
        choice = GenerateChoice(token_ids=ids, finish_reason=chunk.finish, logprobs=known)
        reply = GenerateReply(self._request_id, self._model, int(time.time()), self._usage(), choices=[choice])
        await send_response(self._send, 200, JSON, msgspec.json.encode(reply))

    async def fail(self, error: AntiphonError) -> None:
        """An error response, or an error event in a stream that is open."""
        if not self._opened:
            await refuse(self._send, error)
            return
        await self._write(b"data: " + error_body(error, _status(error)) + b"\n\n")
        await self._write(DONE)
        await self._send({"type": "http.response.body", "body": b""})

    def _count(self, chunk: Chunk) -> None:
        self._sampled += len(chunk.ids)
        if self._cached is None:
            self._cached = chunk.cached_tokens

    def _usage(self) -> Usage:
        total = self._prompt_tokens + self._sampled
        return Usage(self._prompt_tokens, self._sampled, total, PromptDetails(self._cached or 0))

    async def _event(self, reply: GenerateReply) -> None:
        await self._write(b"data: " + msgspec.json.encode(reply) + b"\n\n")

    async def _write(self, data: bytes) -> None:
        if not self._opened:
            self._opened = True
            await self._send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        await self._send({"type": "http.response.body", "body": data, "more_body": True})


class AbortRoute:
    """Ends requests by their whole ids; unknown ones are no error."""

    def __init__(self, running: Running) -> None:
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        try:
            body = msgspec.json.decode(await read_body(headers_of(scope), receive, limit=MAX_BODY_BYTES), type=AbortRequest)
        except ClientGone:
            return
        except msgspec.MsgspecError as error:
            await refuse(send, InvalidRequest(f"the body names no requests: {error}"))
            return
        except BodyTooLarge as error:
            await refuse(send, error)
            return
        self._running.abort(body.request_ids)
        await send_response(send, 200, JSON, b"{}")


async def refuse(send: Send, error: AntiphonError) -> None:
    """An error response in vLLM's form."""
    status = _status(error)
    await send_response(send, status, JSON, error_body(error, status))


def _status(error: AntiphonError) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def error_body(error: AntiphonError, status: int) -> bytes:
    """An error as vLLM writes it."""
    return msgspec.json.encode({"error": {"message": error.message, "type": error.code, "param": error.param, "code": status}})


def _choice(chunk: Chunk) -> GenerateChoice:
    logprobs = None if chunk.logprobs is None else Logprobs(_logprobs(chunk))
    return GenerateChoice(token_ids=chunk.ids, finish_reason=chunk.finish, logprobs=logprobs)


def _logprobs(chunk: Chunk) -> list[Logprob]:
    known = chunk.logprobs or [None] * len(chunk.ids)
    return [Logprob(token_id, None if one is None else one.sampled.logprob) for token_id, one in zip(chunk.ids, known, strict=True)]
