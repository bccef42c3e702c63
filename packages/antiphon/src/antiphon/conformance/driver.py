"""Makes the exchanges: every ask once, those that build on an answer behind it, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from antiphon.conformance.asks import Ask, Request, Scene
from antiphon.conformance.exchange import Exchange
from antiphon.conformance.verdict import Broken, Unclear

# Sends one request and records the answer; never raises, a failure is recorded as one.
Transport = Callable[[Request], Awaitable[Exchange]]

AT_A_TIME = 4


async def perform(asks: Sequence[Ask], scene: Scene, transport: Transport, *, at_a_time: int = AT_A_TIME) -> dict[str, Exchange]:
    """The exchanges of all asks by name. What could not be asked has status 0 and says why."""
    gate = asyncio.Semaphore(at_a_time)
    running: dict[str, asyncio.Task[Exchange]] = {}

    async def one(ask: Ask) -> Exchange:
        past = {name: await running[name] for name in ask.after}
        async with gate:
            return await _exchange(ask, msgspec.structs.replace(scene, past=past), transport)

    async with asyncio.TaskGroup() as group:
        for ask in asks:
            running[ask.name] = group.create_task(one(ask))
    return {name: task.result() for name, task in running.items()}


async def _exchange(ask: Ask, scene: Scene, transport: Transport) -> Exchange:
    try:
        request = ask.make(scene)
    except (Unclear, Broken, LookupError, TypeError) as reason:
        return Exchange(ask=ask.name, failure=f"not asked, because of what came before: {reason}")
    recorded = await transport(request)
    body: Any = request.body if not isinstance(request.body, bytes) else None
    return msgspec.structs.replace(
        recorded,
        ask=ask.name,
        method=request.method,
        path=request.path,
        request=body,
        said=scene.steered(ask.saying),
        silence=scene.silence,
    )
