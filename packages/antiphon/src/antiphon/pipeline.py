"""A request's way from wire body to wire events, on one page.

1 ingest      antiphon_protocols   wire body      -> TurnRequest                    (app)
2 stabilize   stabilize            TurnRequest    -> the same without unstable prompt text
3 recall      replay               ledger + seals -> what was sampled for past turns
4 render      antiphon_tokenizers  TurnRequest    -> prompt pieces and the opening
5 tokenize    antiphon_tokenizers  pieces         -> token ids
6 route       fleet, router        a job          -> a worker, or the engine of this process
7 generate    generate             token ids      -> token chunks, in phases
8 parse       decode               tokens         -> turn events, stop strings, call gate
9 project     antiphon_protocols   turn events    -> the surface's wire events      (app)
"""

import asyncio
import contextlib
import logging
import time
from array import array
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeVar

import msgspec

from antiphon.access.account import current as current_account
from antiphon.admission import Admission
from antiphon.cache_watch import CacheWatch, Foresight
from antiphon.constraints import check_request
from antiphon.cuts import CutCounts
from antiphon.decode import TurnDecoder
from antiphon.engines.base import Engine, Job
from antiphon.fleet.fleet import Fleet
from antiphon.generate import Generation
from antiphon.metrics.meter import TurnMeter
from antiphon.metrics.metrics import Ended, Held, Metrics
from antiphon.model import Model
from antiphon.observe.observation import TurnFacts, note_turn
from antiphon.placing import PlacingOptions, job_of
from antiphon.prompts import Prompt, PromptOptions, Prompts, conversation_key, request_size
from antiphon.replay.ledger import Ledger
from antiphon.replay.recall import Recall
from antiphon.request_limits import ContentLimits
from antiphon.seals import Binding, Seals, TurnSealer
from antiphon.serving_notes import ServingNotes
from antiphon.speculation import Finished, Line, Speculation, SpeculationOptions
from antiphon.stabilize import StabilizerRule
from antiphon.tenant import ANYONE
from antiphon.trace import TokenRecord, TokenTrace, finish_name
from antiphon_turns import (
    ArgumentStreaming,
    AssistantMessage,
    CallGate,
    CutCalls,
    Event,
    Segment,
    StopReason,
    TurnEnd,
    TurnMetadata,
    TurnRequest,
    ids,
)
from antiphon_turns.errors import ContextOverflow, WorkerUnavailable

T = TypeVar("T")

log = logging.getLogger("antiphon")

# Rendering and encoding shorter texts costs less than the hop to a thread.
OFF_LOOP_CHARACTERS = 32_768
# count_tokens answers beyond the context too; no body within the size limit has more tokens than this.
COUNTED_TOKENS = 1 << 26


class PipelineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator chose for every turn. `worker` is the engine's name in what clients are told, None for one that tells who serves
    (`Chunk.worker`); `max_turns` 0 = no limit. The ledger of sampled turns and the prompts kept for comparison are bounded in bytes."""

    worker: str | None = "local"
    max_turns: int = 0
    limits: ContentLimits = ContentLimits()
    ledger_bytes: int = 256 << 20
    compared_bytes: int = 128 << 20
    prompts: PromptOptions = PromptOptions()
    argument_streaming: ArgumentStreaming = "whole"
    cut_calls: CutCalls = "honest"
    placing: PlacingOptions = PlacingOptions()
    speculation: SpeculationOptions = SpeculationOptions()


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Ready for a worker. `clamped` says that max_tokens was lowered to the room the context leaves. `since`: when its preparation
    began, in seconds of the monotonic clock. `tenant`: whose turn it is. `foresight`: what of the prompt could be cached. `line`:
    whose next request follows this one."""

    prompt: Prompt
    max_tokens: int
    clamped: bool
    since: float
    foresight: Foresight
    line: Line
    tenant: str = ANYONE


class Pipeline:
    """Composes the nine steps for one model and one engine."""

    def __init__(
        self,
        model: Model,
        engine: Engine,
        *,
        options: PipelineOptions,
        trace: TokenTrace,
        random_bytes: Callable[[int], bytes],
        seals: Seals | None = None,
    ) -> None:
        self.model = model
        self.seals = seals
        self._binding = binding_of(model) if seals is not None else None
        self.engine = engine
        self._options = options
        self._trace = trace
        self._random_bytes = random_bytes
        self._cuts = CutCounts()
        self.ledger = Ledger(options.ledger_bytes)
        self._recall = Recall(model, self.ledger)
        self.watch = CacheWatch(model, worker=options.worker, max_bytes=options.compared_bytes)
        self._prompts = Prompts(model, self._recall, options=options.prompts, held=self.watch.held)
        self.admission = Admission(options.max_turns)
        self.running = 0
        self.metrics = Metrics(model.name, held=self._memories(), running=lambda: self.running)
        self.speculation = Speculation(engine, self._ahead, options=options.speculation, count=self.metrics.speculated)
        if isinstance(engine, Fleet):
            self.metrics.register(*engine.collectors())

    async def prepare(self, request: TurnRequest, *, tenant: str = ANYONE) -> Prepared:
        """Steps 2 to 5 and the room left. Raises RequestError."""
        since = time.monotonic()
        account = current_account.get()
        if account is not None:
            account.check_model(request.model)
        self._options.limits.check(request)
        line = tenant, request.session or conversation_key(request)
        self.speculation.arrived(line)
        check_request(request, self.engine, self.model)
        prompt, foresight = await self._off_loop(self._foreseen, request, tenant)
        if account is not None:
            account.charge(len(prompt.ids))
        room = self.model.context_length - len(prompt.ids)
        if room <= 0:
            raise ContextOverflow(len(prompt.ids), self.model.context_length - 1)
        wanted = request.sampling.max_tokens
        return Prepared(
            prompt=prompt,
            max_tokens=min(wanted or room, room),
            clamped=wanted is not None and wanted > room,
            since=since,
            foresight=foresight,
            line=line,
            tenant=tenant,
        )

    async def count(self, request: TurnRequest, *, tenant: str = ANYONE) -> int:
        """How many tokens the prompt of this request has. Raises RequestError and RateLimited."""
        account = current_account.get()
        if account is not None:
            account.check_model(request.model)
            account.request()
        self._options.limits.check(request)
        return len((await self._off_loop(self._counted, request, tenant)).ids)

    async def _off_loop(self, make: Callable[..., T], request: TurnRequest, *rest: object) -> T:
        """Long prompts are rendered and encoded off the event loop."""
        self.model.check_name(request.model)
        if request_size(request) > OFF_LOOP_CHARACTERS:
            return await asyncio.to_thread(make, request, *rest)
        return make(request, *rest)

    def _foreseen(self, request: TurnRequest, tenant: str) -> tuple[Prompt, Foresight]:
        prompt = self._prompts.make(request, self.sealer(tenant), tenant=tenant, limit=self.model.context_length)
        return prompt, self.watch.foresee(prompt.request, prompt.ids, tenant=tenant, restored=prompt.restored)

    def _counted(self, request: TurnRequest, tenant: str) -> Prompt:
        return self._prompts.make(request, self.sealer(tenant), tenant=tenant, limit=COUNTED_TOKENS, counting=True)

    async def _ahead(self, request: TurnRequest, reply: Sequence[Segment], tenant: str) -> "array[int]":
        def make(request: TurnRequest) -> "array[int]":
            return self._prompts.ahead(request, reply, self.sealer(tenant), tenant=tenant, limit=self.model.context_length - 1)

        return await self._off_loop(make, request)

    def use_rules(self, rules: Sequence[StabilizerRule]) -> None:
        """Stabilizer rules for prompts from now on."""
        self._prompts.use_rules(rules)

    async def close(self) -> None:
        """Ends what the pipeline does unasked; its turns are their callers'."""
        await self.speculation.close()

    def _memories(self) -> dict[str, Callable[[], Held]]:
        ledger, compared, runs = self.ledger, self.watch.sent, self.model.tokenizer.cache
        return {
            "ledger": lambda: Held(ledger.bytes, len(ledger), ledger.hits, ledger.misses),
            "compared": lambda: Held(compared.bytes, len(compared)),
            "runs": lambda: Held(runs.bytes, len(runs), runs.hits, runs.misses),
        }

    def new_tag(self) -> str:
        """A fresh turn tag."""
        return ids.turn_tag(self._random_bytes(ids.TAG_BYTES))

    def sealer(self, tenant: str) -> TurnSealer | None:
        """Makes and opens the seals of a tenant's turns on this model; None where there are no keys."""
        if self.seals is None or self._binding is None:
            return None
        return TurnSealer(self.seals, self._binding, tenant)

    async def run(
        self,
        prepared: Prepared,
        *,
        turn_tag: str,
        request_id: str,
        argument_streaming: ArgumentStreaming | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        """Steps 6 to 8: batches of events as they become known, TurnStart first, TurnEnd last.

        Raises WorkerError. Closing the generator frees the engine. The token trace is written before TurnEnd is handed out.
        """
        if not self.engine.ready():
            raise WorkerUnavailable("nothing here can take a turn now; try again in a moment, or see the server's log")
        prompt, model = prepared.prompt, self.model
        request = prompt.request
        decoder = TurnDecoder(
            model,
            request,
            prompt_tokens=len(prompt.ids),
            opening=prompt.opening,
            turn_tag=turn_tag,
            sealer=self.sealer(prepared.tenant),
        )
        generation = Generation(self.engine, model, request, self._job(prepared, request_id), decoder)
        notes = ServingNotes(since=prepared.since, clock=time.monotonic, worker=self._options.worker)
        meter = self.metrics.start(request, since=prepared.since)
        gate = self._gate(request, argument_streaming or self._options.argument_streaming)
        ended: StopReason = "cancelled"
        self.running += 1
        try:
            yield [decoder.start(), TurnMetadata(worker=self._options.worker, session=request.session), *prompt.anomalies]
            async with contextlib.aclosing(generation.run()) as batches:
                async for batch in batches:
                    first = notes.open
                    if first or generation.worker not in (None, notes.worker):
                        batch = [*notes.news(decoder, generation), *batch]
                        meter.queue_seconds = generation.queue_seconds
                    yield meter.note(len(decoder.output_ids), through(gate, batch))
                    if first and decoder.output_ids:
                        self.watch.read(prepared.foresight)
            ended, events = self._ending(prompt, decoder, generation, gate)
            meter.note(len(decoder.output_ids), events)
            self._keep(prepared, decoder, ended, generation, meter)
            yield events
        except Exception:
            ended = "error"
            raise
        finally:
            self.running -= 1
            if ended in ("cancelled", "error"):
                self._keep(prepared, decoder, ended, generation, meter)

    def _job(self, prepared: Prepared, request_id: str) -> Job:
        return job_of(
            prepared.prompt,
            request_id=request_id,
            max_tokens=prepared.max_tokens,
            stop_ids=self.model.stop_ids,
            tenant=prepared.tenant,
            options=self._options.placing,
        )

    def _gate(self, request: TurnRequest, streaming: ArgumentStreaming) -> CallGate:
        spent = self._cuts.spent(conversation_key(request))
        cut: CutCalls = "honest" if spent else self._options.cut_calls
        # A unary body has nobody who watches arguments grow, so it never needs a poisoned closing; and clients answer that
        # closing without end, like a recovered call.
        streaming = streaming if request.stream and not spent else "whole"
        allow_calls = bool(request.tools) and request.tool_choice.mode != "none"
        return CallGate(request.tools, streaming=streaming, cut=cut, allow_calls=allow_calls)

    def _ending(self, prompt: Prompt, decoder: TurnDecoder, generation: Generation, gate: CallGate) -> tuple[StopReason, list[Event]]:
        """The last batch of a turn, and how it ended."""
        last = decoder.finish(generation.finish)
        for anomaly in (*prompt.anomalies, *decoder.anomalies):
            log.warning("%s: %s %.200r", generation.job.request_id, anomaly.code, anomaly.detail)
        events = through(gate, last)
        cut = bool(gate.cut_calls) or decoder.ended_in_call
        events = self._may_go_on(prompt.request, events) if cut else events
        self._cuts.count(conversation_key(prompt.request), cut=cut)
        return last[-1].stop_reason if isinstance(last[-1], TurnEnd) else "error", events

    def _may_go_on(self, request: TurnRequest, events: list[Event]) -> list[Event]:
        """Marks the end of a turn whose call was cut and left out, unless this session was told to go on too often in a row."""
        end = events[-1]
        spent = self._cuts.spent(conversation_key(request))
        if spent or not isinstance(end, TurnEnd) or end.stop_reason != "max_tokens":
            return events
        return [*events[:-1], msgspec.structs.replace(end, resumable=True)]

    def _keep(self, prepared: Prepared, decoder: TurnDecoder, ended: StopReason, generation: Generation, meter: TurnMeter) -> None:
        """What the next prompt of the conversation needs of this turn, and the trace."""
        prompt, request_id = prepared.prompt, generation.job.request_id
        record = decoder.record()
        facts = facts_of(prepared, decoder, ended, generation, meter, model=self.model.name)
        note_turn(facts if facts.worker is not None else msgspec.structs.replace(facts, worker=self._options.worker))
        continues = bool(prompt.request.messages) and isinstance(prompt.request.messages[-1], AssistantMessage)
        # The text a client put into the model's mouth comes back joined with what the model said: no retelling of the record.
        if record is not None and prompt.request.prompt is None and not continues:
            self._recall.keep(prompt.request, record, tenant=prepared.tenant)
            finished = Finished(
                line=prepared.line,
                request=prompt.request,
                reply=record.segments,
                stop_reason=ended,
                job=generation.job,
                output_ids=decoder.output_ids,
                worker=generation.worker,
            )
            self.speculation.follow(finished, tenant=prepared.tenant)
        found = self.watch.keep(
            prepared.foresight,
            output_ids=decoder.output_ids,
            reply=record.segments if record is not None else (),
            cached_tokens=decoder.cached_tokens,
            request_id=request_id,
            worker=generation.worker,
        )
        self.metrics.end(meter, Ended(stop_reason=ended, usage=decoder.usage(), explanation=found, anomalies=prompt.anomalies))
        if found.causes:
            log.info(
                "%s: %d tokens could have been cached, %s were: %s", request_id, found.expected_tokens, found.cached_tokens, found.sentence
            )
        self._trace.write(
            TokenRecord(
                request_id=request_id,
                session=prompt.request.session,
                surface=prompt.request.surface,
                prompt_ids=prompt.ids,
                cached_tokens=decoder.cached_tokens,
                output_ids=decoder.output_ids,
                finish=finish_name(ended),
            )
        )


def facts_of(
    prepared: Prepared, decoder: TurnDecoder, ended: StopReason, generation: Generation, meter: TurnMeter, *, model: str
) -> TurnFacts:
    """What is told of a turn that ends now."""
    return TurnFacts(
        request_id=generation.job.request_id,
        model=model,
        request=prepared.prompt.request,
        stop_reason=meter.stop_reason or ended,
        usage=decoder.usage(),
        since=meter.since,
        begun=meter.begun,
        ended=time.monotonic(),
        ttft=meter.ttft,
        queue_seconds=meter.queue_seconds,
        calls=tuple(meter.calls),
        worker=generation.worker,
        migrations=generation.migrations,
        prompt_ids=prepared.prompt.ids,
        output_ids=decoder.output_ids,
    )


def binding_of(model: Model) -> Binding:
    """What ties a seal to the served model."""
    tokenizer = model.tokenizer
    refused = model.foreign_ids | model.stop_ids
    return Binding(family=model.family.name, fingerprint=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size, refused=refused)


def through(gate: CallGate, events: list[Event]) -> list[Event]:
    """What of a batch may reach a wire."""
    return [kept for event in events for kept in gate.push(event)]
