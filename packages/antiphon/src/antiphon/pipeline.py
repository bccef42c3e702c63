"""A request's way from wire body to wire events, on one page.

1 ingest      antiphon_protocols   wire body      -> TurnRequest                    (app)
2 stabilize   stabilize            TurnRequest    -> the same without unstable prompt text
3 recall                           past turns are written by the family's writer
4 render      antiphon_tokenizers  TurnRequest    -> prompt pieces and the opening
5 tokenize    antiphon_tokenizers  pieces         -> token ids
6 route                            one worker: the engine of this process
7 generate    generate             token ids      -> token chunks, in phases
8 parse       decode               tokens         -> turn events, stop strings, call gate
9 project     antiphon_protocols   turn events    -> the surface's wire events      (app)
"""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable

import msgspec

from antiphon.admission import Admission
from antiphon.constraints import check_request
from antiphon.decode import TurnDecoder
from antiphon.engines.base import Engine, Job
from antiphon.generate import Generation
from antiphon.inline_reasoning import with_inline_reasoning
from antiphon.model import Model
from antiphon.seals import Binding, Seals, TurnSealer
from antiphon.serving_notes import ServingNotes
from antiphon.stabilize import StabilizerRule, stabilize
from antiphon.tenant import ANYONE
from antiphon.trace import TokenRecord, TokenTrace, finish_name
from antiphon_tokenizers import check_size, encode
from antiphon_turns import (
    Anomaly,
    ArgumentStreaming,
    CallGate,
    CutCalls,
    Event,
    StopReason,
    TurnEnd,
    TurnMetadata,
    TurnRequest,
    UserMessage,
    ids,
)
from antiphon_turns.errors import ContextOverflow, InvalidRequest, WorkerUnavailable

log = logging.getLogger("antiphon")

# Rendering and encoding shorter texts costs less than the hop to a thread.
OFF_LOOP_CHARACTERS = 32_768
# count_tokens answers beyond the context too; no body within the size limit has more tokens than this.
COUNTED_TOKENS = 1 << 26
# Clients have no loop limit of their own for recovered calls; after this many cut turns in a row they get the honest form.
RECOVERIES_IN_A_ROW = 2
SESSIONS_REMEMBERED = 4096


class PipelineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator chose for every turn. `worker` is the engine's name in what clients are told; `max_turns` 0 = no limit."""

    worker: str = "local"
    max_turns: int = 0
    rules: tuple[StabilizerRule, ...] = ()
    argument_streaming: ArgumentStreaming = "whole"
    cut_calls: CutCalls = "honest"


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A request after steps 2 to 5: `request` is the stabilized one, `opening` what the prompt leaves to the parser."""

    request: TurnRequest
    ids: list[int]
    opening: str
    stabilized: tuple[str, ...]
    anomalies: tuple[Anomaly, ...]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Ready for a worker. `clamped` says that max_tokens was lowered to the room the context leaves. `since`: when its preparation
    began, in seconds of the monotonic clock. `tenant`: whose turn it is."""

    prompt: Prompt
    max_tokens: int
    clamped: bool
    since: float
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
        self._cuts: OrderedDict[str, int] = OrderedDict()
        self.admission = Admission(options.max_turns)
        self.running = 0

    async def prepare(self, request: TurnRequest, *, tenant: str = ANYONE) -> Prepared:
        """Steps 2 to 5 and the room left. Raises RequestError."""
        since = time.monotonic()
        check_request(request, self.engine, self.model)
        prompt = await self._prompt(request, limit=self.model.context_length)
        room = self.model.context_length - len(prompt.ids)
        if room <= 0:
            raise ContextOverflow(len(prompt.ids), self.model.context_length - 1)
        wanted = request.sampling.max_tokens
        return Prepared(
            prompt=prompt,
            max_tokens=min(wanted or room, room),
            clamped=wanted is not None and wanted > room,
            since=since,
            tenant=tenant,
        )

    async def count(self, request: TurnRequest) -> int:
        """How many tokens the prompt of this request has. Raises RequestError."""
        return len((await self._prompt(request, limit=COUNTED_TOKENS)).ids)

    async def _prompt(self, request: TurnRequest, *, limit: int) -> Prompt:
        """Long prompts are rendered and encoded off the event loop."""
        self.model.check_name(request.model)
        if request_size(request) > OFF_LOOP_CHARACTERS:
            return await asyncio.to_thread(self._make_prompt, request, limit)
        return self._make_prompt(request, limit)

    def _make_prompt(self, request: TurnRequest, limit: int) -> Prompt:
        check_size(request, self.model.tokenizer, limit=limit)
        if request.prompt is not None:
            return self._raw_prompt(request, request.prompt, limit)
        stable, acted = stabilize(with_inline_reasoning(request, self.model.format.grammar.reasoning), self._options.rules)
        rendered = self.model.renderer.render(stable)
        token_ids = encode(rendered, self.model.tokenizer, limit=limit)
        return Prompt(request=stable, ids=token_ids, opening=rendered.opening, stabilized=acted, anomalies=tuple(rendered.anomalies))

    def _raw_prompt(self, request: TurnRequest, prompt: str | tuple[int, ...], limit: int) -> Prompt:
        """A prompt without template. Its text is the client's own rendering, so control tokens in it are control."""
        tokenizer = self.model.tokenizer
        token_ids = tokenizer.encode(prompt, added=True) if isinstance(prompt, str) else list(prompt)
        if not token_ids:
            raise InvalidRequest("prompt: must not be empty", param="prompt")
        if min(token_ids) < 0 or max(token_ids) >= tokenizer.vocab_size:
            raise InvalidRequest(f"prompt: token ids must be between 0 and {tokenizer.vocab_size - 1}", param="prompt")
        if len(token_ids) > limit:
            raise ContextOverflow(len(token_ids), limit)
        return Prompt(request=request, ids=token_ids, opening="", stabilized=(), anomalies=())

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
            raise WorkerUnavailable("the engine is not running; see the server's log and restart it")
        prompt, model = prepared.prompt, self.model
        request = prompt.request
        sealer = self.sealer(prepared.tenant)
        decoder = TurnDecoder(model, request, prompt_tokens=len(prompt.ids), opening=prompt.opening, turn_tag=turn_tag, sealer=sealer)
        job = Job(
            request_id=request_id,
            prompt_ids=prompt.ids,
            max_tokens=prepared.max_tokens,
            sampling=request.sampling,
            stop_ids=model.stop_ids,
        )
        generation = Generation(self.engine, model, request, job, decoder)
        notes = ServingNotes(since=prepared.since, clock=time.monotonic)
        gate = self._gate(request, argument_streaming or self._options.argument_streaming)
        ended: StopReason = "cancelled"
        self.running += 1
        try:
            yield [decoder.start(), TurnMetadata(worker=self._options.worker, session=request.session), *prompt.anomalies]
            async with contextlib.aclosing(generation.run()) as batches:
                async for batch in batches:
                    if notes.open:
                        batch = [*notes.news(decoder, generation.queue_seconds), *batch]
                    yield through(gate, batch)
            last = decoder.finish(generation.finish)
            for anomaly in (*prompt.anomalies, *decoder.anomalies):
                log.warning("%s: %s %.200r", request_id, anomaly.code, anomaly.detail)
            ended = last[-1].stop_reason if isinstance(last[-1], TurnEnd) else "error"
            events = through(gate, last)
            cut = bool(gate.cut_calls) or decoder.ended_in_call
            events = self._may_go_on(request, events) if cut else events
            self._count_cuts(request, cut=cut)
            self._record(prompt, decoder, ended, request_id)
            yield events
        except Exception:
            ended = "error"
            raise
        finally:
            self.running -= 1
            if ended in ("cancelled", "error"):
                self._record(prompt, decoder, ended, request_id)

    def _gate(self, request: TurnRequest, streaming: ArgumentStreaming) -> CallGate:
        spent = self._cuts.get(conversation_key(request), 0) >= RECOVERIES_IN_A_ROW
        cut: CutCalls = "honest" if spent else self._options.cut_calls
        # A unary body has nobody who watches arguments grow, so it never needs a poisoned closing; and clients answer that
        # closing without end, like a recovered call.
        streaming = streaming if request.stream and not spent else "whole"
        allow_calls = bool(request.tools) and request.tool_choice.mode != "none"
        return CallGate(request.tools, streaming=streaming, cut=cut, allow_calls=allow_calls)

    def _may_go_on(self, request: TurnRequest, events: list[Event]) -> list[Event]:
        """Marks the end of a turn whose call was cut and left out, unless this session was told to go on too often in a row."""
        end = events[-1]
        spent = self._cuts.get(conversation_key(request), 0) >= RECOVERIES_IN_A_ROW
        if spent or not isinstance(end, TurnEnd) or end.stop_reason != "max_tokens":
            return events
        return [*events[:-1], msgspec.structs.replace(end, resumable=True)]

    def _count_cuts(self, request: TurnRequest, *, cut: bool) -> None:
        key = conversation_key(request)
        if not cut:
            self._cuts.pop(key, None)
            return
        self._cuts[key] = self._cuts.pop(key, 0) + 1
        if len(self._cuts) > SESSIONS_REMEMBERED:
            self._cuts.popitem(last=False)

    def _record(self, prompt: Prompt, decoder: TurnDecoder, ended: StopReason, request_id: str) -> None:
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


def binding_of(model: Model) -> Binding:
    """What ties a seal to the served model."""
    tokenizer = model.tokenizer
    refused = model.foreign_ids | model.stop_ids
    return Binding(family=model.family.name, fingerprint=tokenizer.fingerprint, vocab_size=tokenizer.vocab_size, refused=refused)


def through(gate: CallGate, events: list[Event]) -> list[Event]:
    """What of a batch may reach a wire."""
    return [kept for event in events for kept in gate.push(event)]


def conversation_key(request: TurnRequest) -> str:
    """Session and first user text: tells a session's side requests and sub-agents from its main line."""
    first = next((message.text[:512] for message in request.messages if isinstance(message, UserMessage)), "")
    return f"{request.session or ''}\n{first}"


def request_size(request: TurnRequest) -> int:
    """Characters of prompt text, roughly; what decides whether rendering leaves the event loop."""
    size = sum(len(tool.parameters) + len(tool.description or "") for tool in request.tools)
    for message in request.messages:
        segments = getattr(message, "segments", None)
        if segments is None:
            size += len(getattr(message, "text", ""))
        else:
            size += sum(len(getattr(segment, "text", "")) + len(getattr(segment, "arguments", "")) for segment in segments)
    return size
