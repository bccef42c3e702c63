"""The embedded engine: llama.cpp in this process, with what it lacks: prefixes shared between slots, prompts computed in slices so that
a short one need not wait for a long one, prompts kept for later, and prompts computed ahead that give way to everything."""

import asyncio
import contextlib
import logging
from array import array
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import msgspec
from msgspec import structs

from antiphon.engines.base import Chunk, Job
from antiphon.engines.grammar_proofs import GrammarProofs
from antiphon.engines.llama_http import Event, Gaps, Seat, completion_body, logprobs_of, read_error, slice_body
from antiphon.engines.llama_server import LlamaServer, ServerShape, Stream
from antiphon.engines.prefill import Claim, Line, Pace
from antiphon.engines.slot_blocks import SlotBlocks
from antiphon.engines.slots import Choice, Need, Slots
from antiphon.engines.tokens import shared, tokens_of
from antiphon_turns import SampledLogprob
from antiphon_turns.errors import StreamInterrupted, WorkerError, WorkerRefusal, WorkerUnavailable

_log = logging.getLogger(__name__)
# A slot that has so many tokens more of a prompt than the job's own is copied, even if the job has begun.
_COPY_GAIN = 256
_SLICE_SECONDS = 1.0
MOST_RETAIN_SECONDS = 3600.0


class EmbeddedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`slots` jobs run at once, each with the whole context; further ones wait. A prompt is computed `slice_tokens` at most at a time.
    `batch` is how many prompt tokens are evaluated between two looks at a cancelled request: 64 is as fast as more on CPUs and takes
    about a second on one core deep in a long prompt. `block_tokens` is the unit of the cache events, which are kept until they are
    taken with `kv_events`."""

    slots: int = 2
    slice_tokens: int = 256
    batch: int = 64
    block_tokens: int = 16
    kv_events: bool = False


class _GaveWay(Exception):
    """A job that computes ahead was dropped."""


class _Work:
    """A job on its way through the engine."""

    def __init__(self, job: Job, claim: Claim, since: float) -> None:
        self.job = job
        self.need = need_of(job)
        self.claim = claim
        self.since = since
        self.choice: Choice | None = None
        self.grant: asyncio.Future[None] | None = None
        self.stream: Stream | None = None
        self.queue_seconds: float | None = None
        self.cached: int | None = None
        self.known = asyncio.Event()
        self.told = False
        self.attended = False
        self.sampled: list[int] = []
        self.certain = True
        self.dropped = False
        self.left = False

    @property
    def slot(self) -> int:
        """The job's slot, once it has had the prefill lock."""
        assert self.choice is not None
        return self.choice.slot

    def chunk(self, chunk: Chunk) -> Chunk:
        """The chunk, with what is told once."""
        if not self.told and self.cached is not None:
            self.told = True
            chunk = structs.replace(chunk, cached_tokens=self.cached)
        waited, self.queue_seconds = self.queue_seconds, None
        return chunk if waited is None else structs.replace(chunk, queue_seconds=waited)


class EmbeddedEngine:
    """An `antiphon.engines.base.Engine` over a GGUF file. `context_length` is the context of one job in tokens; `threads` None takes the
    usable cores, at most 8, for prompts and one fewer for decoding. `cache` tells what the slots hold."""

    constrains = True
    reports_logprobs = True

    def __init__(
        self, model_path: str | Path, *, context_length: int, threads: int | None = None, options: EmbeddedOptions | None = None
    ) -> None:
        options = options or EmbeddedOptions()
        self._options = options
        self._context_length = context_length
        shape = ServerShape(context_length=context_length, slots=options.slots, threads=threads, batch=options.batch)
        self._server = LlamaServer(Path(model_path), shape)
        self._proofs = GrammarProofs(self._server)
        self.cache = SlotBlocks(options.slots, context_length, block_tokens=options.block_tokens, record=options.kv_events)
        self._slots = Slots(options.slots, blocks=self.cache)
        self._pace = Pace(options.batch, most=options.slice_tokens, seconds=_SLICE_SECONDS)
        self._line: Line[_Work] = Line()
        self._works: set[_Work] = set()
        self._holder: _Work | None = None

    async def start(self) -> None:
        """Loads the model in a thread. Raises ConfigError when the package, the file or the model is unusable."""
        await self._server.start()

    async def close(self) -> None:
        """Ends running jobs (they raise WorkerUnavailable) and frees model and listener. May be called twice."""
        works, self._works, self._line, self._holder = self._works, set(), Line(), None
        for work in works:
            work.left = True
            if work.grant is not None and not work.grant.done():
                work.grant.set_exception(WorkerUnavailable("The embedded engine is shutting down."))
        await self._server.close()
        self.cache.clear()
        self._slots = Slots(self._options.slots, blocks=self.cache)

    def ready(self) -> bool:
        """Whether a job would be taken now (it may still have to wait for a slot)."""
        return self._server.ready()

    def forget(self) -> None:
        """Forgets every prompt but those of running jobs."""
        self._slots.forget()

    async def busy(self) -> bool:
        """Whether llama.cpp itself is at work on any slot; this sees a cancelled job until it is really gone.
        Raises WorkerError."""
        return await self._server.busy()

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of a text by llama.cpp's own tokenizer; `special` reads control tokens in it. Raises WorkerError."""
        return await self._server.tokenize(text, special=special)

    async def detokenize(self, ids: list[int]) -> str:
        """Text of ids, control tokens visible. Raises WorkerError."""
        return await self._server.detokenize(ids)

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Streams the job's chunks; see `antiphon.engines.base.Engine`. Closing the generator closes the socket, which
        llama.cpp notices after the token or prompt batch it is at. What a cancelled job has computed stays cached."""
        if not self._server.ready():
            raise WorkerUnavailable("The embedded engine is not running.")
        if len(job.prompt_ids) >= self._context_length:
            raise WorkerRefusal(f"The prompt has {len(job.prompt_ids)} tokens, and the context of the engine is {self._context_length}.")
        if not job.prefill_only:
            self._give_way()
        elif any(not work.job.prefill_only for work in self._works):
            yield Chunk([], "length", None, None, 0.0)
            return
        work = self._enter(job)
        try:
            async with contextlib.aclosing(self._serve(work)) as chunks:
                async for chunk in chunks:
                    yield work.chunk(chunk)
        except (_GaveWay, WorkerError):
            if not work.dropped:
                self._forget(work)
                raise
            yield work.chunk(Chunk([], "length"))
        finally:
            self._leave(work)

    # -- the steps of a job ------------------------------------------------------------------------------------

    async def _serve(self, work: _Work) -> AsyncGenerator[Chunk, None]:
        """The chunks of a job from waiting to its end. Raises _GaveWay when it was dropped."""
        ahead = work.job.prefill_only
        await self._acquire(work)
        if self._is_long(work):
            async with self._slices(work):
                await work.known.wait()
                if work.cached is not None:
                    yield Chunk([])
                work.attended = not ahead
            if not ahead:
                await self._acquire(work)
        if ahead:
            yield Chunk([], "length")
            return
        async with contextlib.aclosing(self._sample(work)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _is_long(self, work: _Work) -> bool:
        """Whether the prompt has a slice before the one that is left to the request that samples."""
        missing = len(work.need.prompt) - self._slots[work.slot].reach(work.need)
        return missing > (0 if work.job.prefill_only else self._pace.tokens)

    @contextlib.asynccontextmanager
    async def _slices(self, work: _Work) -> AsyncIterator[None]:
        """Slices are computed meanwhile, by a task: the lock must not depend on how fast somebody takes what it hands out."""
        task = asyncio.create_task(self._prefill(work))
        task.add_done_callback(lambda _: work.known.set())
        try:
            yield
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _prefill(self, work: _Work) -> None:
        """Computes the prompt in slices, but for the last one of a job that samples. The lock is held already; between two slices
        whoever is due earlier may have it."""
        prompt, loop = work.need.prompt, asyncio.get_running_loop()
        while True:
            done = self._slots[work.slot].reach(work.need)
            upto = min(done + self._pace.tokens, len(prompt))
            began = loop.time()
            await self._compute(work, upto)
            self._pace.note(upto - done, loop.time() - began)
            going_on = upto < len(prompt) and self._is_long(work)
            if going_on or work.attended:
                self._queue_up(work)
            self._release(work)
            if not going_on:
                return
            await self._acquire(work)

    async def _compute(self, work: _Work, upto: int) -> None:
        """So many tokens of the prompt are in the job's slot. Raises _GaveWay when the job was dropped meanwhile."""
        prompt = work.need.prompt[:upto]
        async with self._stream(work, slice_body(prompt, self._seat(work))) as batches:
            async for events in batches:
                for event in events:
                    self._note(work, event)
        if work.dropped:
            raise _GaveWay
        self._slots.hold(work.slot, prompt, work.need.salt)

    async def _sample(self, work: _Work) -> AsyncGenerator[Chunk, None]:
        """The rest of the prompt, then the output."""
        job = work.job
        await self._share(work)
        self._slots.decode(work.slot)
        if job.grammar is not None:
            cached = await self._proofs.prove(job, self._seat(work))
            work.cached = cached if work.cached is None else work.cached
            if cached is not None:
                self._slots.hold(work.slot, work.need.prompt, work.need.salt)
        gaps = Gaps()
        async with self._stream(work, completion_body(job, self._seat(work))) as batches:
            async for events in batches:
                for event in events:
                    self._note(work, event)
                    if missing := gaps.before(event):
                        event.tokens = await self._withheld(work, event, missing)
                chunk = chunk_of(events, job)
                if chunk is None:
                    continue
                self._release(work)
                if work.certain:
                    work.sampled += chunk.ids
                yield chunk
                if chunk.finish is not None:
                    return
        raise StreamInterrupted("The embedded engine ended its answer early.")

    async def _share(self, work: _Work) -> None:
        """Jobs that wait with the same beginning get a copy of it now: a slot that samples cannot be copied."""
        for claim, other in self._line.in_order(self._pace.rate):
            if claim.placed or other.grant is None or other.grant.done() or other.need.salt != work.need.salt:
                continue
            common = min(shared(work.need.prompt, other.need.prompt), len(work.need.prompt) - 1)
            if common > self._slots.best_reach(other.need) + self._options.batch:
                await self._compute(work, common)
            choice = self._slots.choose(other.need, self._now())
            if choice is not None and choice.source == work.slot and not other.left:
                self._place(other, choice)
                await self._copy(other, work.slot)

    async def _copy(self, work: _Work, source: int) -> None:
        """The job's slot becomes a copy of another, as far as the prompt goes. Where that fails the prompt is computed."""
        held = self._slots[source].reach(work.need)
        self._slots.hold(work.slot, array("I"), work.need.salt)
        try:
            await self._server.copy_slot(source, work.slot)
        except WorkerError as error:
            _log.warning("a prompt is computed again, since its beginning could not be copied: %s", error)
            return
        if not work.left:
            self._slots.hold(work.slot, work.need.prompt[:held], work.need.salt)

    def _seat(self, work: _Work) -> Seat:
        """A slot that is believed empty starts empty, so that nothing of another tenant's is found by how fast it is."""
        return Seat(work.slot, len(self._slots[work.slot].tokens) > 0)

    @contextlib.asynccontextmanager
    async def _stream(self, work: _Work, body: bytes) -> AsyncIterator[AsyncGenerator[list[Event], None]]:
        """A request of a job's, which `_give_way` can break off."""
        async with self._server.stream(body) as stream, contextlib.aclosing(stream.events()) as batches:
            if work.dropped:
                raise _GaveWay
            work.stream = stream
            try:
                yield batches
            finally:
                work.stream = None

    def _note(self, work: _Work, event: Event) -> None:
        """What an event says of the prompt. Raises WorkerProtocolError for one that is an error."""
        read_error(event)
        progress = event.prompt_progress
        if progress is None:
            return
        if work.cached is None:
            work.cached = progress.cache
            work.known.set()
        if not work.left:
            self._slots.hold(work.slot, work.need.prompt[: progress.processed], work.need.salt)

    async def _withheld(self, work: _Work, event: Event, missing: int) -> list[int]:
        """All ids of an event that completes a character, when only the last was sent: those of the tokenizer for its text.

        The model nearly always samples just these. Where the count says otherwise the text is still right, but the ids are not
        the sampled ones, so the cached prefix ends here.
        """
        ids = await self.tokenize(event.content, special=False)
        if len(ids) != missing + len(event.tokens) or ids[-1:] != event.tokens[-1:]:
            work.certain = False
            _log.debug("ids of %r are not known for certain: %d sampled, %d written", event.content, missing + len(event.tokens), len(ids))
        return ids

    # -- the prefill lock and slots ----------------------------------------------------------------------------

    def _enter(self, job: Job) -> _Work:
        now = self._now()
        missing = len(job.prompt_ids) - self._slots.best_reach(need_of(job))
        claim = Claim(arrival=now, tokens=missing, priority=job.priority, ahead=job.prefill_only)
        work = _Work(job, claim, now)
        self._works.add(work)
        return work

    async def _acquire(self, work: _Work) -> None:
        """Waits for the prefill lock: only its holder computes prompt tokens. The first time the job gets its slot."""
        first = work.choice is None
        if work.grant is None:
            self._queue_up(work)
            self._dispatch()
        assert work.grant is not None
        await work.grant
        work.grant = None
        if first:
            work.queue_seconds = self._now() - work.since
        if not work.dropped:
            chosen = first and work.choice is not None and work.choice.source is not None
            source = self._slots.better_source(work.slot, work.need, 1 if chosen else _COPY_GAIN)
            if source is not None:
                await self._copy(work, source)
        if work.dropped:
            raise _GaveWay

    def _queue_up(self, work: _Work) -> None:
        work.grant = asyncio.get_running_loop().create_future()
        self._line.wait(work.claim, work)

    def _dispatch(self) -> None:
        """Gives the prefill lock, when it is free, to the first in the line who has a slot or gets one."""
        if self._holder is not None:
            return
        for claim, work in self._line.in_order(self._pace.rate):
            if work.grant is None or work.grant.done():
                continue  # cancelled, and about to leave
            if not claim.placed:
                choice = self._slots.choose(work.need, self._now())
                if choice is None:
                    continue
                self._place(work, choice)
            self._holder = work
            self._line.leave(claim)
            work.grant.set_result(None)
            return

    def _place(self, work: _Work, choice: Choice) -> None:
        work.choice = choice
        work.claim.placed = True
        self._slots.take(choice.slot, work.need)
        if choice.source is None:
            self._slots.hold(choice.slot, work.need.prompt[: choice.keep], work.need.salt)

    def _release(self, work: _Work) -> None:
        if self._holder is work:
            self._holder = None
            self._dispatch()

    def _give_way(self) -> None:
        """Jobs that compute ahead lose lock and slot at once."""
        for work in tuple(self._works):
            if work.job.prefill_only:
                work.dropped = True
                if work.stream is not None:
                    work.stream.close()
                if work.grant is not None and not work.grant.done():
                    work.grant.set_exception(_GaveWay())
                self._leave(work)

    def _forget(self, work: _Work) -> None:
        """After a failure nobody knows what the slot holds."""
        if work.choice is not None and not work.left:
            self._slots.hold(work.slot, array("I"))

    def _leave(self, work: _Work) -> None:
        """The job is gone, however it ended; may be called twice."""
        self._line.leave(work.claim)
        if work.left:
            self._release(work)
            return
        work.left = True
        self._works.discard(work)
        job, now = work.job, self._now()
        if work.choice is not None:
            slot = self._slots[work.slot]
            if work.sampled and slot.tokens:
                # The last sampled token is not in the cache yet.
                self._slots.hold(work.slot, work.need.prompt + array("I", work.sampled[:-1]), work.need.salt)
            self._slots.release(work.slot, now)
            until = now + min(job.retain_seconds, MOST_RETAIN_SECONDS)
            self._slots.promise(work.slot, min(len(slot.tokens), len(work.need.prompt)), until=until, now=now)
        if job.placement.session_ends and job.placement.session is not None:
            self._slots.end_session(job.placement.session)
        self._release(work)
        self._dispatch()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def need_of(job: Job) -> Need:
    """What of a job decides on its slot."""
    return Need(prompt=tokens_of(job.prompt_ids), salt=job.cache_salt, session=job.placement.session, speculative=job.prefill_only)


def chunk_of(events: list[Event], job: Job) -> Chunk | None:
    """What arrived together, as one chunk, cut behind the first stop id; None when there is nothing to tell."""
    ids: list[int] = []
    top = job.sampling.top_logprobs
    logprobs: list[SampledLogprob | None] | None = None if top is None else []
    for event in events:
        if event.prompt_progress is not None:
            continue
        if logprobs is not None and top is not None:
            logprobs += logprobs_of(event, top)
        for token_id in event.tokens:
            ids.append(token_id)
            if token_id in job.stop_ids:
                return Chunk(ids, "stop", None, logprobs and logprobs[: len(ids)])
        if event.stop:
            return Chunk(ids, "length" if event.stop_type == "limit" else "stop", None, logprobs)
    return Chunk(ids, None, None, logprobs) if ids else None
