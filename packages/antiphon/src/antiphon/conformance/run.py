"""One run of the kit against one server: find the model and the way to steer it, ask everything, decide."""

import time
from collections.abc import Callable, Mapping, Sequence

import aiohttp
import msgspec

from antiphon.conformance import catalog, sayings
from antiphon.conformance.asks import ANTHROPIC, OPENAI, Ask, Request, Scene
from antiphon.conformance.driver import Transport, perform
from antiphon.conformance.exchange import Exchange
from antiphon.conformance.pieces import joined
from antiphon.conformance.registry import asks_of, decide
from antiphon.conformance.report import Run
from antiphon.conformance.steering import Mode
from antiphon.conformance.transport import HttpTransport
from antiphon.conformance.verdict import Broken, Check

# One turn must outlast the allowed silence by half, and takes longer still where words are many tokens.
PATIENCE = 6.0
LEAST_TIMEOUT = 60.0


class Unreachable(Exception):
    """The server could not be asked at all."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The server to check. Without `model` the first of its catalog is taken; without `mode` the way to steer is found out."""

    url: str
    model: str | None = None
    mode: Mode | None = None
    silence: float = 20.0
    context: int | None = None
    api_key: str | None = None


async def check_server(target: Target, checks: Sequence[Check]) -> tuple[Run, Mapping[str, Exchange]]:
    """The verdicts and the recorded exchanges. Raises Unreachable."""
    started = time.perf_counter()
    headers = {"authorization": f"Bearer {target.api_key}", "x-api-key": target.api_key} if target.api_key else {}
    timeout = max(LEAST_TIMEOUT, PATIENCE * target.silence)
    async with aiohttp.ClientSession() as session:
        transport = HttpTransport(session, target.url, timeout=timeout, headers=headers)
        scene = await look_around(target, transport)
        exchanges = await perform(asks_of(checks), scene, transport)
    decided = decide(checks, exchanges)
    return Run(url=target.url, model=scene.model, mode=scene.mode, decided=decided, seconds=time.perf_counter() - started), exchanges


async def look_around(target: Target, transport: Transport) -> Scene:
    """Model, context length and steering. Raises Unreachable."""
    listed = await transport(Request(method="GET", path=catalog.PATH, headers=OPENAI))
    if listed.status == 0:
        raise Unreachable(f"{target.url} cannot be reached: {listed.failure}")
    try:
        found = {str(entry["id"]): entry for entry in catalog.entries(listed)}
    except (Broken, LookupError, TypeError) as reason:
        if target.model is None:
            raise Unreachable(f"{target.url} has no catalog to take a model from ({reason}); name one with --model") from reason
        found = {}
    model = target.model or next(iter(found))
    context = target.context or catalog.context_length(found.get(model, {}))
    mode = target.mode or await _steering(model, transport)
    return Scene(model=model, mode=mode, silence=target.silence, context=context)


async def _steering(model: str, transport: Transport) -> Mode:
    """The first way that makes the model say what it is told."""
    expected = joined(sayings.TEXT.pieces(), "text")
    modes: tuple[Mode, ...] = ("script", "b64")
    for mode in modes:
        scene = Scene(model=model, mode=mode)
        for ask in _PROBES:
            said = await transport(ask.make(scene))
            if expected in "".join(said.body().decode("utf-8", "replace").split()):
                return mode
    return "none"


def _probe(path: str, headers: Mapping[str, str], fields: Callable[[str], dict[str, object]]) -> Ask:
    def make(scene: Scene) -> Request:
        return Request(path=path, headers=headers, body={"model": scene.model, **fields(scene.say("text"))})

    return Ask(name="probe", make=make)


_PROBES = (
    _probe("/v1/chat/completions", OPENAI, lambda text: {"max_tokens": 64, "messages": [{"role": "user", "content": text}]}),
    _probe("/v1/messages", ANTHROPIC, lambda text: {"max_tokens": 64, "messages": [{"role": "user", "content": text}]}),
    _probe("/v1/responses", OPENAI, lambda text: {"max_output_tokens": 64, "input": text}),
)
