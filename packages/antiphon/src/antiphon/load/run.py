"""A plan asked of a server over HTTP. Bounded: never more requests, at once or in all, and never longer than was asked for."""

import asyncio
import time
from collections.abc import Iterable
from itertools import pairwise

import aiohttp
import msgspec

from antiphon.load.answers import READERS, EventLines, SurfaceName
from antiphon.load.dialogue import Call, Dialogue, Lengths
from antiphon.load.figures import Outcome
from antiphon.load.schedule import Schedule
from antiphon.load.trace import PlannedRequest, Tree
from antiphon_turns.errors import ConfigError

_ERROR_TEXT = 200
_MODELS_SECONDS = 10


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a run does: `requests` in all, `at_once`, and `seconds`, after which what is under way is broken off. `places`:
    sessions at once, where sessions have no times of arrival."""

    requests: int
    seconds: float
    at_once: int
    places: int


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to ask, and how."""

    url: str
    surface: SurfaceName
    model: str
    api_key: str
    lengths: Lengths


async def first_model(session: aiohttp.ClientSession, url: str, api_key: str) -> str:
    """The first model of the server's catalog. Raises ConfigError when it cannot be had."""
    try:
        timeout = aiohttp.ClientTimeout(total=_MODELS_SECONDS)
        async with session.get(f"{url}/v1/models", headers=_authorization(api_key), timeout=timeout) as answer:
            found = msgspec.json.decode(await answer.read())
            return str(found["data"][0]["id"])
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ConfigError(f"nobody answers at {url}: {type(error).__name__}; is the server running?") from error
    except (msgspec.DecodeError, KeyError, IndexError, TypeError) as error:
        raise ConfigError(f"{url}/v1/models names no model; say which with --model") from error


class Run:
    """One run. `outcomes` fills up while it goes on, in the order of their ends."""

    def __init__(self, session: aiohttp.ClientSession, target: Target, trees: Iterable[Tree], bounds: Bounds) -> None:
        self._session = session
        self._target = target
        self._bounds = bounds
        self._schedule = Schedule(trees, places=bounds.places, limit=bounds.requests)
        self._dialogues: dict[str, Dialogue] = {}
        self._trees: dict[str, list[str]] = {}
        self._tasks: dict[asyncio.Task[Outcome], PlannedRequest] = {}
        self._started = 0.0
        self.outcomes: list[Outcome] = []

    async def go(self) -> list[Outcome]:
        """Asks everything there is time for."""
        self._started = time.monotonic()
        try:
            while not self._schedule.finished and self._now() < self._bounds.seconds:
                self._send()
                await self._wait()
        finally:
            await self._break_off()
        return self.outcomes

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _send(self) -> None:
        due = self._schedule.due(self._now())
        while len(self._tasks) < self._bounds.at_once:
            request = next(due, None)
            if request is None:
                return
            dialogue = self._dialogues.get(request.session)
            if dialogue is None:
                dialogue = self._dialogues[request.session] = self._begin(request)
            self._tasks[asyncio.create_task(self._ask(request, dialogue.ask(request)))] = request

    def _begin(self, request: PlannedRequest) -> Dialogue:
        target = self._target
        parent = self._dialogues.get(request.parent) if request.parent is not None else None
        root = parent.root if parent is not None else request.session
        self._trees.setdefault(root, []).append(request.session)
        return Dialogue(request, surface=target.surface, model=target.model, lengths=target.lengths, parent=parent)

    async def _wait(self) -> None:
        """Until an answer is whole, the next request is due, or time is up."""
        left = self._bounds.seconds - self._now()
        coming = self._schedule.next_time()
        full = len(self._tasks) >= self._bounds.at_once
        pause = left if coming is None or full else min(left, max(coming - self._now(), 0.0))
        if not self._tasks:
            await asyncio.sleep(max(pause, 0.0))
            return
        done, _ = await asyncio.wait(self._tasks, timeout=max(pause, 0.0), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            request = self._tasks.pop(task)
            outcome = task.result()
            self.outcomes.append(outcome)
            self._schedule.ended(request, self._now(), failed=bool(outcome.error))
        for root in self._schedule.take_closed():
            for name in self._trees.pop(root, ()):
                del self._dialogues[name]

    async def _break_off(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for task in self._tasks:
            if not task.cancelled():
                self.outcomes.append(task.result())
        self._tasks.clear()

    async def _ask(self, request: PlannedRequest, call: Call) -> Outcome:
        target, sent = self._target, self._now()
        reader, lines = READERS[request.surface or target.surface](), EventLines()
        error, cut = "", False
        try:
            headers = {**call.headers, **_authorization(target.api_key)}
            async with self._session.post(target.url + call.path, data=call.body, headers=headers) as answer:
                if answer.status != 200:
                    error = f"status {answer.status}: {(await answer.read())[:_ERROR_TEXT].decode('utf-8', 'replace')}"
                else:
                    async for data in answer.content.iter_any():
                        at = self._now()
                        for event in lines.feed(data):
                            reader.event(event, at)
        except asyncio.CancelledError:
            cut = True
        except (aiohttp.ClientError, OSError) as broken:
            error = f"the connection broke: {type(broken).__name__}"
        whole = self._now() - sent
        found = reader.done()
        if not error and not cut:
            error = found.error or ("" if found.ended else "the stream ended without its end")
        if not error and not cut:
            self._dialogues[request.session].answered(found)
        times = found.deltas
        return Outcome(
            request=request,
            sent=sent,
            ttft=times[0] - sent if times else None,
            whole=whole,
            gaps=[later - earlier for earlier, later in pairwise(times)],
            prompt_tokens=found.prompt_tokens,
            cached_tokens=found.cached_tokens,
            output_tokens=found.output_tokens,
            error=error,
            cut=cut,
        )


def _authorization(api_key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}", "x-api-key": api_key}
