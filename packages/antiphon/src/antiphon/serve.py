"""`antiphon serve`: loads the model, starts the engine, serves HTTP, and ends cleanly."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from rich.console import Console
from rich.logging import RichHandler
from starlette.types import ASGIApp

from antiphon.access.keyring import keyring_of
from antiphon.activation import inherited_listener
from antiphon.app import build_app
from antiphon.banner import show_banner, workers_there
from antiphon.catalog import chosen_profile
from antiphon.config import Settings
from antiphon.engine_settings import EngineSettings
from antiphon.engines.base import Engine
from antiphon.engines.default_model import DEFAULT_MODEL_NAME, default_model_path
from antiphon.engines.embedded import EmbeddedEngine, EmbeddedOptions
from antiphon.engines.mock import MockEngine, MockOptions
from antiphon.engines.mock_faults import parse_fault
from antiphon.engines.mock_script import load_script
from antiphon.engines.slot_count import default_slots, memory_bytes
from antiphon.fleet.build import build_fleet, build_router_api, has_remote_workers, has_workers
from antiphon.fleet.fleet import Fleet
from antiphon.http_protocol import DEFAULT_LIMITS, ConnectionLimits, limited_http, limited_websocket
from antiphon.model import Model, ModelChoice, load_mock_model, load_model
from antiphon.observe.build import build_observers
from antiphon.pipeline import Pipeline, PipelineOptions
from antiphon.placing import PlacingOptions, scope_of
from antiphon.processes import Processes, reserve, sharing
from antiphon.prompts import PromptOptions
from antiphon.recording.recorded import is_recording
from antiphon.recording.replays import rules_of as recorded_rules
from antiphon.reload import Reloader
from antiphon.request_limits import ContentLimits
from antiphon.responses import Responses
from antiphon.seals import Seals
from antiphon.speculation import SpeculationOptions
from antiphon.stabilizer_rules import rules_of
from antiphon.state import open_seals, open_store
from antiphon.tls import tls_context
from antiphon.trace import TokenTrace
from antiphon_turns.errors import ConfigError

log = logging.getLogger("antiphon")

BACKLOG = 1024
# What the HTTP server calls a WebSocket that was answered with a status instead: for us an ordinary answer.
REFUSED_UPGRADE = "ASGI callable returned without completing handshake."
# Turns that a stop breaks off get this long to tell their clients and to write their trace.
BREAK_OFF_SECONDS = 1.0


def run_server(settings: Settings, *, file: Path | None = None) -> int:
    """Runs until a signal; returns the exit status. `file` is the configuration file that is looked at for changes. Raises ConfigError
    before anything is served."""
    console = Console(stderr=True)
    set_up_logging(settings, console)
    if settings.processes > 1:
        return run_several(settings, console, file)
    listener = bind(settings)
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(Server(settings, console, listener, file=file).run())
    finally:
        listener.close()


def run_frontend(settings: Settings, *, file: Path | None = None) -> int:
    """The same, for a server without an engine of its own."""
    if not has_remote_workers(settings):
        raise ConfigError("a frontend needs workers: --worker URL, or --workers FILE; `antiphon serve` brings an engine of its own")
    return run_server(settings, file=file)


def run_several(settings: Settings, console: Console, file: Path | None) -> int:
    """Several processes on one port, that share nothing but the workers and the state folder."""
    if settings.local_worker or not has_remote_workers(settings):
        raise ConfigError(
            "--processes needs workers (--worker, --workers) and no --local-worker: an engine cannot be shared by several processes"
        )
    # Made before there is a second process, so that all seal with the same keys.
    seals = open_seals(settings, random_bytes=os.urandom)
    reserved = reserve(settings.http_host, settings.http_port, "--http-host or --http-port")

    def work(number: int) -> int:
        listener = sharing(reserved)
        listener.listen(BACKLOG)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(Server(settings, console, listener, file=file, seals=seals, is_first=number == 0).run())

    try:
        return Processes(settings.processes, work).run()
    finally:
        reserved.close()


def set_up_logging(settings: EngineSettings, console: Console) -> None:
    """One line a record. Colours cost half a millisecond a line, so they are for terminals; files get a plain line, never wrapped."""
    rich = RichHandler(console=console, show_path=False) if console.is_terminal else None
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(message)s" if rich else "%(asctime)s %(levelname)s %(message)s",
        handlers=[rich or logging.StreamHandler()],
    )
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.msg != REFUSED_UPGRADE)
    if settings.log_level == "info":
        logging.getLogger("uvicorn").setLevel(logging.WARNING)  # it announces what the start-up text has said


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it exists, else the standard loop."""
    try:
        import uvloop  # not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def bind(settings: EngineSettings) -> socket.socket:
    """Takes the port before anything slow starts, where the service manager does not hold one for us. Raises ConfigError when it is
    taken."""
    return inherited_listener(os.environ, os.getpid()) or listen(settings.http_host, settings.http_port, "--http-host or --http-port")


def listen(host: str, port: int, flags: str) -> socket.socket:
    """A listening socket. Raises ConfigError, naming the flags that choose another address, when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because the event loop turns Nagle off only where it can see that this is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)  # a bound address alone can be bound again
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with {flags}") from error
    return listener


class Server:
    """One process: one model, one engine, one HTTP server. Only the first of several says on the console what it does."""

    def __init__(
        self,
        settings: Settings,
        console: Console,
        listener: socket.socket,
        *,
        file: Path | None = None,
        seals: Seals | None = None,
        is_first: bool = True,
    ) -> None:
        self._settings = settings
        self._file = file
        self._console = console if is_first else Console(quiet=True)
        self._listener = listener
        self._seals = seals

    async def run(self) -> int:
        """Loads, serves, drains."""
        settings = self._settings
        started = time.monotonic()
        trace = TokenTrace(settings.trace_tokens)
        keyring, tls = keyring_of(settings), tls_context(settings.tls_certificate, settings.tls_key)
        with self._console.status("Loading the model ..."):
            model, engine = build(settings)
            await engine.start()
        try:
            seals = self._seals or open_seals(settings, random_bytes=os.urandom)
            pipeline = Pipeline(model, engine, options=options_of(settings), trace=trace, random_bytes=os.urandom, seals=seals)
            responses = Responses(pipeline, store=open_store(settings))
            router_api = build_router_api(settings, new_id=pipeline.new_tag)
            observers = build_observers(settings, pipeline)
            about: dict[str, Any] = {"responses": responses, "router_api": router_api, "keyring": keyring, "observers": observers}
            app = build_app(pipeline, settings, created=int(time.time()), **about)
            # What is there now stays, and no collection while streams run need look through it.
            gc.collect()
            gc.freeze()
            host, port = self._listener.getsockname()[:2]
            stop = asyncio.Event()
            reloader = Reloader(settings, self._file, keyring=keyring, tls=tls, use_rules=pipeline.use_rules)
            with stop_signals(stop), reloading(reloader):
                show_banner(
                    self._console,
                    url=url_of(host, port, scheme="https" if tls is not None else "http"),
                    model=model,
                    engine=f"{settings.engine} engine" if not isinstance(engine, Fleet) else _workers_of(engine),
                    load_seconds=time.monotonic() - started,
                )
                left = 0.0
                try:
                    grace, drain = settings.shutdown_grace_seconds, responses.live.drain
                    left = await serve_http(app, self._listener, grace=grace, stop=stop, drain=drain, limits=limits_of(settings), tls=tls)
                finally:
                    await responses.close(grace=left)
                    await pipeline.close()
                    observers.close()
                    if router_api is not None:
                        await router_api.close()
        finally:
            await engine.close()
            trace.close()
        self._console.print("Antiphon has stopped.")
        return 0


async def serve_http(
    app: ASGIApp,
    listener: socket.socket,
    *,
    grace: float,
    stop: asyncio.Event,
    drain: Callable[[float], Awaitable[None]],
    limits: ConnectionLimits = DEFAULT_LIMITS,
    tls: ssl.SSLContext | None = None,
) -> float:
    """Serves until `stop` is set; then running turns get `grace` seconds, and those that are left are broken off with an error.
    `drain` waits, so many seconds, for what the HTTP server would not wait for. Returns what is left of the grace."""
    config = uvicorn.Config(
        app,
        http=limited_http(limits),
        ws=limited_websocket(limits),
        ws_max_size=limits.message_bytes,
        # A frame is a token or two: compressing it costs more than sending it.
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(grace)),
        backlog=BACKLOG,
    )
    config.load()
    config.ssl = tls
    server = QuietServer(config)
    loop = asyncio.get_running_loop()
    deadline = loop.time()

    async def watch() -> None:
        nonlocal deadline
        await stop.wait()
        deadline = loop.time() + grace
        log.info("stopping: running turns have %.0f s to finish", grace)
        for listening in server.servers:
            listening.close()
        await drain(grace)
        config.timeout_graceful_shutdown = max(1, round(deadline - loop.time()))
        server.should_exit = True

    watcher = asyncio.create_task(watch())
    try:
        await server.serve(sockets=[listener])
        if server.server_state.tasks:
            await asyncio.wait(server.server_state.tasks, timeout=BREAK_OFF_SECONDS)
    finally:
        watcher.cancel()
    return max(deadline - loop.time(), 0.0)


@contextlib.contextmanager
def stop_signals(stop: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set `stop`; a second one ends the process the default way."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def on_signal() -> None:
        stop.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def reloading(reloader: Reloader) -> Iterator[None]:
    """Reloads on SIGHUP and on changes while the context is open."""
    loop = asyncio.get_running_loop()
    looking = asyncio.create_task(reloader.run())
    loop.add_signal_handler(signal.SIGHUP, reloader.reload)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        looking.cancel()


class QuietServer(uvicorn.Server):
    """Leaves signals to us, so that a stop is an ordinary end with status 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures nothing."""
        yield


def url_of(host: str, port: int, *, scheme: str) -> str:
    """The address as clients write it."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def limits_of(settings: Settings) -> ConnectionLimits:
    """The connections' part of the settings."""
    return ConnectionLimits(
        message_bytes=settings.max_body_bytes,
        header_bytes=settings.max_header_bytes,
        header_seconds=settings.header_seconds,
        reader_seconds=settings.reader_seconds,
    )


def options_of(settings: Settings) -> PipelineOptions:
    """The pipeline's part of the settings."""
    return PipelineOptions(
        worker=None if has_workers(settings) else f"{settings.engine}-0",
        max_turns=settings.max_turns,
        limits=ContentLimits(messages=settings.max_messages, tools=settings.max_tools),
        ledger_bytes=settings.ledger_bytes,
        compared_bytes=settings.compared_bytes,
        prompts=PromptOptions(
            rules=rules_of(strip_anthropic_preamble=settings.strip_anthropic_preamble, file=settings.stabilizer_rules),
            pin_effort=settings.pin_effort,
            drop_cold_reasoning=settings.drop_cold_reasoning,
        ),
        argument_streaming=settings.argument_streaming,
        cut_calls=settings.cut_calls,
        placing=PlacingOptions(
            cache_scope=scope_of(settings.cache_scope, several_tenants=bool(settings.keys)), max_retain_seconds=settings.max_retain_seconds
        ),
        speculation=SpeculationOptions(mode=settings.speculative_prefill, jobs=settings.speculative_prefills),
    )


def build(settings: Settings) -> tuple[Model, Engine]:
    """Model and engine of the settings. Raises ConfigError."""
    chosen_profile(settings)  # a wrong name is told before a model is loaded
    choice = msgspec.structs.replace(
        choice_of(settings),
        aliases=tuple(settings.aliases),
        vendor_aliases=settings.vendor_aliases,
        replay=None if settings.replay == "family" else settings.replay,
    )
    if settings.local_worker:
        model, engine = build_engine(settings, choice)
        return model, build_fleet(settings, model, local=engine)
    if has_workers(settings):
        model = build_model(settings, choice)
        return model, build_fleet(settings, model)
    return build_engine(settings, choice)


def _workers_of(fleet: Fleet) -> str:
    reports = fleet.reports()
    return workers_there(sum(report.state == "ready" for report in reports), len(reports))


def choice_of(settings: EngineSettings) -> ModelChoice:
    """The model that the settings name. Raises ConfigError."""
    return ModelChoice(
        path=settings.model_path or default_model_path(),
        name=settings.model_name,
        context_length=settings.context_length,
        tool_call_parser=settings.tool_call_parser,
        reasoning_parser=settings.reasoning_parser,
    )


def build_engine(settings: EngineSettings, choice: ModelChoice, *, kv_events: bool = False) -> tuple[Model, Engine]:
    """A model and the engine that runs it; with `kv_events` the engine remembers what changes in its cache. Raises ConfigError."""
    if settings.engine == "embedded" and choice.path.exists() and not is_gguf(choice.path):
        raise ConfigError(f"the embedded engine needs a .gguf file, and {choice.path} is none; a folder works with --engine mock")
    model = build_model(settings, choice)
    if settings.engine == "mock":
        return model, build_mock(settings, model, kv_events=kv_events)
    slots = settings.slots or default_slots(model.kv_bytes_per_token, model.context_length, memory=memory_bytes())
    options = EmbeddedOptions(slots=slots, block_tokens=settings.block_size, kv_events=kv_events)
    return model, EmbeddedEngine(choice.path, context_length=model.context_length, threads=settings.threads, options=options)


def build_model(settings: EngineSettings, choice: ModelChoice) -> Model:
    """The model, without an engine; for the scripted one with the project's own template where none is given. Raises ConfigError."""
    if not choice.path.exists():
        raise ConfigError(f"{choice.path} does not exist; --model-path takes a .gguf file, or a folder with tokenizer.json")
    if settings.model_path is not None:
        return load_model(choice)
    if settings.engine == "mock":
        return load_mock_model(choice, (package_files("antiphon.engines") / "mock_template.jinja").read_text("utf-8"))
    return load_model(msgspec.structs.replace(choice, name=choice.name or DEFAULT_MODEL_NAME))


def build_mock(settings: EngineSettings, model: Model, *, kv_events: bool = False) -> MockEngine:
    """The scripted engine."""
    script = settings.mock_script
    rules = () if script is None else recorded_rules(script) if is_recording(script) else load_script(script)
    options = MockOptions(
        chunk_tokens=settings.mock_chunk_tokens,
        token_delay_ms=settings.mock_token_delay_ms,
        speed=settings.mock_speed,
        cache_blocks=settings.mock_cache_blocks,
        block_tokens=settings.mock_block_size,
        fault=parse_fault(settings.mock_fault) if settings.mock_fault is not None else None,
        kv_events=kv_events,
        seed=settings.mock_seed,
    )
    return MockEngine(model.tokenizer, model.family.frame, rules=rules, options=options)


def is_gguf(path: Path) -> bool:
    """Whether the path is one GGUF file."""
    return path.is_file() and path.suffix.lower() == ".gguf"
