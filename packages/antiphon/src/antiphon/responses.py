"""The Responses surface beyond one turn: what came before a request, and what is kept after it.

An id is `resp_` + the turn tag. Past responses are known to the connection of a WebSocket (`responses_socket`), to the background
runs of this process, and to the store.
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

import msgspec

from antiphon.background import BackgroundRuns, Run
from antiphon.observe.observation import hold_observation
from antiphon.pipeline import Pipeline, Prepared
from antiphon.store import ChainLimits, PreviousResponseNotFound, ResponseStore, StoredResponse
from antiphon_protocols import responses as wire
from antiphon_turns import Event, TurnEnd
from antiphon_turns.errors import AntiphonError, ContextOverflow, UnsupportedFeature, WorkerUnavailable

Items = tuple[msgspec.Raw, ...]
LIMITS = ChainLimits()
Keep = Callable[[bytes, Items], None]


class ResponsesTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was read: the turn it asks for, and all that stands before its answer. `compact`: it came to
    `/responses/compact`, whose answer is no response. `created` is the unix time it came at."""

    call: wire.ResponsesCall
    request: wire.ResponsesRequest
    tag: str
    tenant: str
    created: int
    past: Items = ()
    compact: bool = False

    @property
    def response_id(self) -> str:
        """The id of the response to come."""
        return f"resp_{self.tag}"


class Responses:
    """Opens requests, runs them, and keeps responses. Without a store nothing outlives its request."""

    def __init__(self, pipeline: Pipeline, *, store: ResponseStore | None, limits: ChainLimits = LIMITS) -> None:
        self.pipeline = pipeline
        self.store = store
        self.runs = BackgroundRuns()
        self.live = LiveTurns()
        self._limits = limits

    async def open(
        self, call: wire.ResponsesCall, *, tag: str, tenant: str, past: Items | None = None, compact: bool = False
    ) -> ResponsesTurn:
        """The turn of a request; `past` where the caller knows what stood before. Raises RequestError."""
        if call.background and self.store is None:
            raise UnsupportedFeature("background needs the store of responses, which is switched off on this server", param="background")
        if past is None:
            past = await self._chain(tenant, call.previous_response_id) if call.previous_response_id else ()
        past = wire.after_compaction(past)
        named = wire.references(call)
        stored = await self.store.items(tenant, named) if named and self.store is not None else {}
        request = wire.ingest(call, past=past, stored=stored, open_compaction=functools.partial(self._open_text, tenant))
        return ResponsesTurn(call=call, request=request, tag=tag, tenant=tenant, created=int(time.time()), past=past, compact=compact)

    async def prepare(self, turn: ResponsesTurn) -> Prepared:
        """Renders and counts the prompt; with `truncation: "auto"` one that is too long loses its oldest part. Raises RequestError."""
        request = turn.request.turn
        while True:
            try:
                return await self.pipeline.prepare(request, tenant=turn.tenant)
            except ContextOverflow:
                if turn.request.truncation != "auto":
                    raise
                size, room = await self.pipeline.count(request, tenant=turn.tenant), self.pipeline.model.context_length
                shorter = wire.shortened(request, prompt_tokens=size, context_length=room)
                if shorter is None:
                    raise
                request = shorter

    def projector(self, turn: ResponsesTurn) -> "KeepingProjector":
        """The projection of a turn's events; at its end the response is kept, if the request wants that."""
        options = turn.request.options(response_id=turn.response_id, created=turn.created)
        options = msgspec.structs.replace(options, store=options.store and self.store is not None)
        inner: wire.Projector | wire.CompactionProjector
        if turn.call.compacts:
            inner = wire.CompactionProjector(options, functools.partial(self._seal_text, turn.tenant))
        else:
            inner = wire.Projector(options)
        return KeepingProjector(inner, functools.partial(self.keep, turn) if options.store else None, compact=turn.compact)

    def run(self, turn: ResponsesTurn, prepared: Prepared) -> AsyncGenerator[list[Event], None]:
        """The events of a turn, as `Pipeline.run` gives them."""
        return self.pipeline.run(
            prepared,
            turn_tag=turn.tag,
            request_id=f"req_{turn.tag}",
            argument_streaming=turn.request.argument_streaming,
        )

    def start(self, turn: ResponsesTurn, prepared: Prepared, room: contextlib.ExitStack) -> Run:
        """Runs a turn in the background; it is stored from the start. `room` is what it holds and gives back at its end, once it has
        begun. Raises CapacityError and WorkerUnavailable."""
        self.runs.check_room()
        projector = self.projector(turn)

        async def work() -> None:
            async with aclosing(self.run(turn, prepared)) as batches:
                async for batch in batches:
                    run.add([payload for event in batch for payload in projector.push_events(event)])

        run = Run(turn.response_id, turn.tenant, projector)
        self.keep(turn, run.body(), ())
        task, held = self.runs.start(run, work()), room.pop_all()
        held.callback(hold_observation())
        task.add_done_callback(lambda task: held.close())
        return run

    def keep(self, turn: ResponsesTurn, body: bytes, output: Items) -> None:
        """Stores what is known of a response now."""
        if self.store is None:
            return
        self.store.put(
            StoredResponse(
                response_id=turn.response_id,
                tenant=turn.tenant,
                status=msgspec.json.decode(body, type=_Standing).status,
                created=turn.created,
                body=body,
                previous_id=turn.call.previous_response_id,
                input_items=turn.request.input,
                output_items=output,
            )
        )

    async def close(self, *, grace: float = 0.0) -> None:
        """Gives background runs `grace` seconds to end, breaks off the others, and writes what is pending."""
        await self.runs.drain(grace)
        if self.store is not None:
            await self.store.close()

    async def _chain(self, tenant: str, response_id: str) -> Items:
        if self.store is None:
            raise PreviousResponseNotFound(response_id)
        return await self.store.chain(tenant, response_id, self._limits)

    def _open_text(self, tenant: str, value: str) -> str | None:
        return self.pipeline.seals.open_text(value, tenant=tenant) if self.pipeline.seals is not None else None

    def _seal_text(self, tenant: str, text: str) -> str:
        # Without keys nothing hides the summary from the client that had the conversation anyway.
        return self.pipeline.seals.seal_text(text, tenant=tenant) if self.pipeline.seals is not None else text


class LiveTurns:
    """The turns that run on WebSockets: the HTTP server closes those at once when it stops, so it must be kept from that."""

    def __init__(self) -> None:
        self.stopping = False
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Around a turn. Raises WorkerUnavailable when no further one may start."""
        if self.stopping:
            raise WorkerUnavailable("the server is stopping; try again when it is back")
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def drain(self, seconds: float) -> None:
        """Lets turns end by themselves for so long."""
        self.stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()


class KeepingProjector:
    """A projector whose response is kept the moment it has ended, before the last bytes leave: a client may ask for it, or go on
    from it, as soon as it has read them."""

    def __init__(self, inner: wire.Projector | wire.CompactionProjector, keep: Keep | None, *, compact: bool = False) -> None:
        self._inner = inner
        self._keep = keep
        self.keepalive = inner.keepalive
        self.snapshot = inner.snapshot
        self.body = inner.compacted if compact and isinstance(inner, wire.CompactionProjector) else inner.body

    def push(self, event: Event) -> bytes:
        """See surfaces.Projector."""
        data = self._inner.push(event)
        if type(event) is TurnEnd:
            self.ended(self._inner.snapshot())
        return data

    def push_events(self, event: Event) -> list[bytes]:
        """The same as bare JSON, one piece an event."""
        payloads = self._inner.push_events(event)
        if type(event) is TurnEnd:
            self.ended(self._inner.snapshot())
        return payloads

    def fail(self, error: AntiphonError) -> bytes:
        """See surfaces.Projector. A failed response is kept too."""
        data = self._inner.fail(error)
        self.ended(self._inner.snapshot())
        return data

    def fail_events(self, error: AntiphonError) -> list[bytes]:
        """The same as bare JSON."""
        payloads = self._inner.fail_events(error)
        self.ended(self._inner.snapshot())
        return payloads

    def output(self) -> Items:
        """The items finished so far."""
        return tuple(self._inner.output())

    def ended(self, body: bytes) -> None:
        """The response object is now final."""
        if self._keep is not None:
            self._keep(body, self.output())


class _Standing(msgspec.Struct, frozen=True):
    status: str


def interrupted(body: bytes) -> bytes:
    """The object of a response whose server ended before it did."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    error = {"code": "server_error", "message": "the server stopped before this response had ended"}
    changed = {"status": msgspec.Raw(b'"failed"'), "error": msgspec.Raw(msgspec.json.encode(error))}
    return msgspec.json.encode({**fields, **changed})
