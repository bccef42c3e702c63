"""A real server on loopback in this process, with the scripted engine behind it."""

import asyncio
import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from antiphon.app import build_app
from antiphon.config import Settings
from antiphon.model import load_mock_model
from antiphon.observe.build import build_observers
from antiphon.pipeline import Pipeline
from antiphon.responses import Responses
from antiphon.seals import SealKey, Seals
from antiphon.serve import bind, build, limits_of, new_loop, options_of, serve_http, url_of
from antiphon.state import open_store
from antiphon.store_sqlite import MEMORY
from antiphon.tls import tls_context
from antiphon.trace import TokenTrace

sys.path.insert(0, str(Path(__file__).parent))  # makes report_harness importable by name


class Running:
    """A started server: its address, its pipeline, and an HTTP client."""

    def __init__(self, url: str, pipeline: Pipeline, trace_path: Path | None, stop: Callable[[], None]) -> None:
        self.url = url
        self.stop = stop
        self.pipeline = pipeline
        self.trace_path = trace_path
        self.http = httpx.Client(base_url=url, timeout=60, verify=url.startswith("http:"))

    def traced(self) -> list[dict]:
        """The token trace so far."""
        return [msgspec.json.decode(line) for line in self.trace_path.read_bytes().splitlines()]

    def running_turns(self) -> int:
        """What /health says of turns in flight."""
        return self.http.get("/health").json()["running_turns"]


@contextlib.contextmanager
def run(settings: Settings) -> Iterator[Running]:
    listener = bind(settings)
    model, engine = build(settings)
    trace = TokenTrace(settings.trace_tokens)
    seals = Seals([SealKey(b"k" * 32)], random_bytes=os.urandom)
    pipeline = Pipeline(model, engine, options=options_of(settings), trace=trace, random_bytes=os.urandom, seals=seals)
    if settings.store is None:
        settings = msgspec.structs.replace(settings, store=Path(MEMORY))
    responses = Responses(pipeline, store=open_store(settings))
    observers = build_observers(settings, pipeline)
    app = build_app(pipeline, settings, created=1_700_000_000, responses=responses, observers=observers)
    # Bigger frames than the application takes, so that its own refusal shows.
    limits = msgspec.structs.replace(limits_of(settings), message_bytes=1 << 25)
    tls = tls_context(settings.tls_certificate, settings.tls_key)
    loop = new_loop()
    up = threading.Event()
    holder: dict = {}

    async def main() -> None:
        await engine.start()
        stop = asyncio.Event()
        holder["stop"] = lambda: loop.call_soon_threadsafe(stop.set)
        up.set()
        await serve_http(app, listener, grace=1, stop=stop, drain=responses.live.drain, limits=limits, tls=tls)
        await responses.close()
        observers.close()
        await engine.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()))
    thread.start()
    assert up.wait(20)
    url = url_of("127.0.0.1", listener.getsockname()[1], scheme="https" if tls is not None else "http")
    running = Running(url, pipeline, settings.trace_tokens, holder["stop"])
    try:
        yield running
    finally:
        running.http.close()
        holder["stop"]()
        thread.join(20)
        loop.close()
        listener.close()
        trace.close()


@pytest.fixture(scope="session", autouse=True)
def own_state_folder(tmp_path_factory):
    """Servers of the tests, in this process or another, leave nothing in the user's own folder."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        # A model never changes, and most servers here have the same one.
        patched.setattr("antiphon.serve.load_mock_model", functools.cache(load_mock_model))
        yield


@pytest.fixture(scope="module")
def run_server():
    """run_server(settings) as a context manager, for servers that several tests share."""
    return run


@pytest.fixture
def serve_mock(tmp_path):
    """serve_mock(rules, **settings) -> Running; everything is stopped at the end of the test."""
    with contextlib.ExitStack() as stack:

        def start(rules=(), **settings):
            script = None
            if rules:
                script = tmp_path / f"script{len(list(tmp_path.iterdir()))}.jsonl"
                script.write_bytes(b"\n".join(msgspec.json.encode(rule) for rule in rules))
            settings.setdefault("trace_tokens", tmp_path / "tokens.jsonl")
            return stack.enter_context(run(Settings(engine="mock", http_port=0, mock_script=script, **settings)))

        yield start
