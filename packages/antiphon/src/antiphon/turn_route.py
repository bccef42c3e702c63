"""The route of a turn: body in, stream or unary body out. Both seams are here: what the wire sent and what the wire gets."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from antiphon.choices import run_choices
from antiphon.explain.explanation import Explanation, heard
from antiphon.http import ClientGone, Disconnect, EventStream, headers_of, printable, read_body, send_response
from antiphon.pipeline import Pipeline, Prepared
from antiphon.surfaces import Call, Envelope, Projector, Surface
from antiphon.tenant import tenant_of
from antiphon_turns import Event, StopReason, TurnEnd, TurnStart, UsageUpdate
from antiphon_turns.errors import AntiphonError, InternalError, WorkerUnavailable

log = logging.getLogger("antiphon")

# Events of one turn, or of several with their index.
Batches = AsyncGenerator[list[Any], None]
Headers = list[tuple[str, str]]

# A failing engine is worth a real HTTP status, so headers wait this long for its first tokens, and no longer.
START_GRACE_SECONDS = 0.5

STOP_NOTE_SECONDS = 0.5

# A header stays short; the log and `antiphon explain` have all.
CAUSES_NAMED = 4

FAULT = "the server hit a fault of its own; its log has the details"


class TurnRoute:
    """An ASGI endpoint for one surface."""

    def __init__(self, pipeline: Pipeline, surface: Surface, *, body_limit: int, keepalive_seconds: float) -> None:
        self._pipeline = pipeline
        self._surface = surface
        self._body_limit = body_limit
        self._keepalive_seconds = keepalive_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; whatever goes wrong, the client gets the surface's own error."""
        tag = self._pipeline.new_tag()
        answer = Answer(self._pipeline, self._surface, send, tag=tag, keepalive_seconds=self._keepalive_seconds)
        await guarded(answer, self._serve(answer, headers_of(scope), receive))

    async def _serve(self, answer: "Answer", headers: Mapping[str, str], receive: Receive) -> None:
        body = await read_body(headers, receive, limit=self._body_limit)
        call, tenant = self._surface.ingest(body, headers), tenant_of(headers)
        with self._pipeline.admission.turns(call.turns):
            prepared = [await self._pipeline.prepare(turn, tenant=tenant) for turn in (call.turn, *call.others)]
            await run_watched(answer, call, prepared, receive)


async def guarded(answer: "Answer", work: Awaitable[None]) -> None:
    """Awaits the work for one request: whatever it raises becomes the surface's own error."""
    try:
        await work
    except ClientGone:
        return
    except asyncio.CancelledError:  # only a stop that waits no longer comes here; the client gets an end it understands
        await answer.refuse_quickly(WorkerUnavailable("the server is stopping; try again when it is back"))
    except AntiphonError as error:
        await answer.refuse(error)
    except Exception:  # the wire seam: nothing may leave a client without an answer
        log.exception("%s failed", answer.name)
        await answer.refuse(InternalError(FAULT))


async def run_watched(answer: "Answer", call: Call, prepared: Sequence[Prepared], receive: Receive) -> None:
    """Runs a call until its end, or until its client goes away."""
    async with Disconnect(receive) as client:
        await answer.run(call, prepared)
    if client.gone:
        answer.abandon()
        log.info("%s: the client went away", answer.name)


class Answer:
    """What leaves for one request: a refusal, a stream, or a body."""

    def __init__(self, pipeline: Pipeline, surface: Envelope, send: Send, *, tag: str, keepalive_seconds: float) -> None:
        self._pipeline = pipeline
        self._surface = surface
        self._send = send
        self._tag = tag
        self._keepalive_seconds = keepalive_seconds
        self._stream: EventStream | None = None
        self._projector: Projector | None = None
        self.request_id = f"req_{tag}"
        self.name = f"{surface.name} {self.request_id}"

    async def run(self, call: Call, prepared: Sequence[Prepared]) -> None:
        """Runs the turn, or the turns: there is one preparation a prompt. Raises AntiphonError only while nothing has been sent."""
        self._projector = projector = call.projector(self.request_id, int(time.time()))
        how: dict[str, Any] = {"turn_tag": self._tag, "request_id": self.request_id, "argument_streaming": call.argument_streaming}
        several = call.turns > 1
        turn: Batches = run_choices(self._pipeline, prepared, call.n, **how) if several else self._pipeline.run(prepared[0], **how)
        headers = [(self._surface.request_id_header, self.request_id), *self._surface.notes, *notes(prepared[0])]
        started = time.monotonic()
        async with aclosing(turn):
            if call.turn.stream:
                reason = await self._run_stream(turn, projector, headers, prepared)
            else:
                reason = await self._run_unary(turn, projector, headers, prepared)
        log.info(
            "%s: %d prompt tokens, %s after %.2f s%s",
            self.name,
            sum(len(one.prompt.ids) for one in prepared),
            reason,
            time.monotonic() - started,
            f", ignored fields: {', '.join(call.turn.ignored)}" if call.turn.ignored else "",
        )

    async def _run_unary(self, turn: Batches, projector: Projector, headers: Headers, prepared: Sequence[Prepared]) -> StopReason:
        reason: StopReason = "error"
        cached: int | None = None
        async for batch in turn:
            cached = cached_in(batch) if cached is None else cached
            for event in batch:
                projector.push(event)
                reason = event.stop_reason if isinstance(event, TurnEnd) else reason
        headers = [*headers, cache_header(prepared, cached), ("content-type", "application/json")]
        await send_response(self._send, 200, headers, projector.body())
        return reason

    async def _run_stream(self, turn: Batches, projector: Projector, headers: Headers, prepared: Sequence[Prepared]) -> StopReason:
        opening = await anext(turn)
        cached: int | None = None
        first = asyncio.ensure_future(anext(turn, []))
        try:
            await asyncio.wait({first}, timeout=START_GRACE_SECONDS)
            if first.done():
                opening, cached = informed(opening, first.result()), cached_in(first.result())
            stream = self._stream = EventStream(self._send, keepalive=projector.keepalive, interval=self._keepalive_seconds)
            await stream.open([*headers, cache_header(prepared, cached)])
            await stream.write(b"".join(map(projector.push, opening)))
            batch: list[Event] = await first
        finally:
            if not first.done():
                first.cancel()
                await asyncio.wait({first})
        while True:
            data = b"".join(map(projector.push, batch))
            if data:
                await stream.write(data)
            if batch and isinstance(batch[-1], TurnEnd):
                break
            batch = await anext(turn)
        await stream.close()
        return batch[-1].stop_reason

    async def refuse(self, error: AntiphonError) -> None:
        """An error response, or an in-band error when the stream is open already."""
        log.warning("%s: %s", self.name, printable(error.message))
        if self._stream is not None and self._projector is not None:
            await self._stream.write(self._projector.fail(error))
            await self._stream.close()
            return
        status, headers, body = self._surface.error(error, self.request_id)
        await send_response(self._send, status, headers.items(), body)

    async def refuse_quickly(self, error: AntiphonError) -> None:
        """The same for a client that may have stopped reading: after a moment it is left alone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_NOTE_SECONDS):
                await self.refuse(error)
        self.abandon()

    def abandon(self) -> None:
        """Stops what still runs for a client that has gone."""
        if self._stream is not None:
            self._stream.abandon()


def informed(opening: list[Any], batch: list[Any]) -> list[Any]:
    """The opening with the cached tokens, where the first batch is there before the headers leave and knows them: clients draw their
    context meter from the first event."""
    cached = cached_in(batch)
    if cached is None or not isinstance(opening[0], TurnStart):
        return opening
    return [msgspec.structs.replace(opening[0], cached_tokens=cached), *opening[1:]]


def notes(prepared: Prepared) -> Headers:
    """What the server did to the request, as response headers."""
    found = []
    if prepared.prompt.request.ignored:
        found.append(("x-antiphon-ignored", ", ".join(prepared.prompt.request.ignored)))
    if prepared.prompt.stabilized:
        found.append(("x-antiphon-stabilized", ", ".join(prepared.prompt.stabilized)))
    if prepared.clamped:
        found.append(("x-antiphon-max-tokens", str(prepared.max_tokens)))
    return found


def cached_in(batch: Sequence[object]) -> int | None:
    """The cached tokens that a batch of events tells of."""
    return next((event.usage.cached_tokens for event in batch if isinstance(event, UsageUpdate | TurnEnd)), None)


def cache_header(prepared: Sequence[Prepared], cached_tokens: int | None) -> tuple[str, str]:
    """The cache's account, with the engine's word where it has come before the headers leave, and is about one prompt."""
    foresight = prepared[0].foresight
    found = foresight.explanation
    if cached_tokens is not None and len(prepared) == 1:
        found = heard(found, foresight.expectation.previous, foresight.sent, cached_tokens)
    return "x-antiphon-cache", cache_note(found)


def cache_note(explanation: Explanation) -> str:
    """How much of the prompt was sent before, how much of it the engine held, and where and why the prompt left the session's previous
    one: numbers and names only."""
    note = f"prompt={explanation.prompt_tokens} expected={explanation.expected_tokens}"
    if explanation.cached_tokens is not None:
        note += f" cached={explanation.cached_tokens}"
    if not explanation.causes:
        return note
    causes = ", ".join(f"{cause.code} ({cause.place})" for cause in explanation.causes[:CAUSES_NAMED])
    return f"{note} lost={explanation.lost_tokens} cause={causes}"
