"""`antiphon worker`: one engine, without any of the surfaces. It answers tokens over HTTP in vLLM's form, and over the token stream."""

import asyncio
import secrets
import socket
import time
from collections.abc import Mapping

import msgspec
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from rich.console import Console
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from antiphon.access.keyring import single
from antiphon.auth import guarded
from antiphon.config import WorkerSettings
from antiphon.engines.base import Engine, Job
from antiphon.engines.vllm_wire import ABORT, GENERATE
from antiphon.model import Model
from antiphon.serve import bind, build_engine, choice_of, listen, new_loop, serve_http, set_up_logging, stop_signals
from antiphon.workers.cache_publisher import CachePublisher, HasCache
from antiphon.workers.card import KvFeed, WorkerCard
from antiphon.workers.generate_route import AbortRoute, GenerateRoute, error_body
from antiphon.workers.kv_publisher import KvPublisher, PublishAt
from antiphon.workers.stream_server import StreamServer, admit_within
from antiphon_protocols import ErrorResponse
from antiphon_turns.errors import AntiphonError, WorkerUnavailable

JSON = {"content-type": "application/json"}
WILDCARDS = ("0.0.0.0", "::")


def run_worker(settings: WorkerSettings) -> int:
    """Runs until a signal; returns the exit status. Raises ConfigError before anything is served."""
    console = Console(stderr=True)
    set_up_logging(settings, console)
    listener = bind(settings)
    try:
        stream = listen(settings.http_host, settings.stream_port, "--stream-port")
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                return runner.run(Worker(settings, console, listener, stream).run())
        finally:
            stream.close()
    finally:
        listener.close()


class Worker:
    """One process: one engine, one HTTP server, one token stream."""

    def __init__(self, settings: WorkerSettings, console: Console, listener: socket.socket, stream: socket.socket) -> None:
        self._settings = settings
        self._console = console
        self._listener = listener
        self._stream = stream

    async def run(self) -> int:
        """Loads, serves, drains."""
        settings = self._settings
        started = time.monotonic()
        with self._console.status("Loading the model ..."):
            model, engine = build_engine(settings, choice_of(settings), kv_events=settings.enable_kv_events)
            await engine.start()
        publisher = start_publisher(settings, engine)
        try:
            service = WorkerService(settings, model, engine, stream_address=address_of(self._stream), publisher=publisher)
            await service.stream.start(self._stream)
            stop = asyncio.Event()
            with stop_signals(stop):
                self._tell(model, service.card, time.monotonic() - started)
                try:
                    await serve_http(service.app, self._listener, grace=settings.shutdown_grace_seconds, stop=stop, drain=service.drain)
                finally:
                    service.close()
        finally:
            if publisher is not None:
                publisher.close()
            await engine.close()
        self._console.print("The worker has stopped.")
        return 0

    def _tell(self, model: Model, card: WorkerCard, load_seconds: float) -> None:
        url = f"http://{address_of(self._listener)}"
        self._console.print(f"Worker is ready: {url}", soft_wrap=True)
        self._console.print(f"  Model     {model.name}  ({card.kind} engine, loaded in {load_seconds:.1f} s)", soft_wrap=True)
        self._console.print(f"  Stream    {card.stream}", soft_wrap=True)


class WorkerService:
    """What a worker answers. `stream_address` is where its token stream is, as frontends reach it; `publisher` tells of its cache, and
    is started."""

    def __init__(
        self, settings: WorkerSettings, model: Model, engine: Engine, *, stream_address: str, publisher: KvPublisher | None = None
    ) -> None:
        self._model = model
        self._engine = engine
        self._draining = False
        self._within = admit_within(context_length=model.context_length, vocab_size=model.tokenizer.vocab_size)
        feeds = (publisher.feed(),) if publisher is not None else ()
        self.card = card_of(settings, model, engine, stream_address=stream_address, feeds=feeds)
        self._cache: CachePublisher | None = None
        if publisher is not None and isinstance(engine, HasCache):
            self._cache = CachePublisher(engine.cache, publisher, running=lambda: self.running)
        self.stream = StreamServer(engine, admit=self._admit, incarnation=self.card.incarnation, key=settings.worker_key)
        self._generate = GenerateRoute(
            engine,
            stop_ids=model.stop_ids,
            model=model.name,
            room=lambda tokens: model.context_length - tokens,
            admit=self._admit,
        )
        self._registry = CollectorRegistry()
        running = Gauge("antiphon_worker_running_jobs", "Jobs that have not ended.", registry=self._registry)
        running.set_function(lambda: self.running)
        ready = Gauge("antiphon_worker_ready", "Whether a job would be taken now.", registry=self._registry)
        ready.set_function(self._ready)
        self.app = self._build(settings.worker_key)

    @property
    def running(self) -> int:
        """Jobs that have not ended, of the stream and over HTTP."""
        return self.stream.running + len(self._generate.running)

    async def drain(self, seconds: float) -> None:
        """Takes no new jobs and waits for those of the stream, at most so long; the HTTP server waits for its own."""
        self._draining = True
        await self.stream.drain(seconds)

    def close(self) -> None:
        """Ends the token stream, and what is told of the cache."""
        self.stream.close()
        if self._cache is not None:
            self._cache.close()

    def _ready(self) -> bool:
        return self._engine.ready() and not self._draining

    def _admit(self, job: Job) -> None:
        if self._draining:
            raise WorkerUnavailable("this worker is stopping; send the job to another")
        if not self._engine.ready():
            raise WorkerUnavailable("the worker's engine is not running; see its log")
        self._within(job)
        if self._cache is not None:
            self._cache.stir()

    def _build(self, key: str | None) -> ASGIApp:
        routes = [
            Route("/health", self._health, methods=["GET"]),
            Route("/live", self._live, methods=["GET"]),
            Route("/card", self._card, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/tokenize", self._tokenize, methods=["POST"]),
            Route(GENERATE, self._generate, methods=["POST"]),
            Route(ABORT, AbortRoute(self._generate.running), methods=["POST"]),
        ]
        return guarded(Starlette(routes=routes), single(key), refuse=_spell)

    async def _health(self, request: Request) -> Response:
        """200 only when a job would be taken now."""
        ready = self._ready()
        status = "ready" if ready else "draining" if self._draining else "no engine"
        body = {"status": status, "model": self._model.name, "running_jobs": self.running}
        return Response(msgspec.json.encode(body), status_code=200 if ready else 503, headers=JSON)

    async def _live(self, request: Request) -> Response:
        """200 as long as the event loop runs, also while the worker drains."""
        return Response(b'{"status":"alive"}', headers=JSON)

    async def _card(self, request: Request) -> Response:
        return Response(msgspec.json.encode(self.card), headers=JSON)

    async def _metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})

    async def _tokenize(self, request: Request) -> Response:
        """In vLLM's form; control tokens in the text are read as such."""
        try:
            text = msgspec.json.decode(await request.body(), type=TokenizeRequest).prompt
        except msgspec.MsgspecError as error:
            body = {"error": {"message": f"the body must be {{prompt: text}}: {error}", "type": "invalid_request", "code": 400}}
            return Response(msgspec.json.encode(body), status_code=400, headers=JSON)
        ids = self._model.tokenizer.encode(text, added=True)
        answer = {"count": len(ids), "max_model_len": self._model.context_length, "tokens": ids}
        return Response(msgspec.json.encode(answer), headers=JSON)


class TokenizeRequest(msgspec.Struct):
    """A text."""

    prompt: str


def start_publisher(settings: WorkerSettings, engine: Engine) -> KvPublisher | None:
    """Publishes the engine's KV events; None where it has none, or nobody is to be told. Raises ConfigError when a port is taken."""
    if not settings.enable_kv_events or not isinstance(engine, HasCache):
        return None
    where = PublishAt(host=settings.http_host, port=settings.kv_events_port, replay_port=settings.kv_replay_port)
    publisher = KvPublisher(engine.cache.block_tokens, where)
    publisher.start()
    return publisher


def card_of(settings: WorkerSettings, model: Model, engine: Engine, *, stream_address: str, feeds: tuple[KvFeed, ...]) -> WorkerCard:
    """What a frontend must know of this worker."""
    return WorkerCard(
        kind=settings.engine,
        model=model.name,
        family=model.label,
        context_length=model.context_length,
        block_tokens=engine.cache.block_tokens if isinstance(engine, HasCache) else None,
        cache_blocks=engine.cache.total_blocks if isinstance(engine, HasCache) else None,
        feeds=feeds,
        stream=stream_address,
        constrains=engine.constrains,
        reports_logprobs=engine.reports_logprobs,
        vocabulary=model.tokenizer.fingerprint,
        incarnation=secrets.token_hex(8),
        prioritizes=True,
    )


def address_of(listener: socket.socket) -> str:
    """`host:port` as others reach it; without a host where every address of the machine is listened to: it is that of the URL."""
    host, port = listener.getsockname()[:2]
    if host in WILDCARDS:
        return f":{port}"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _spell(path: str, headers: Mapping[str, str], error: AntiphonError) -> ErrorResponse:
    return ErrorResponse(401, JSON, error_body(error, 401))
