"""Step 8 for one turn: sampled ids in, turn events out. A state machine without I/O; the pipeline drives it."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from antiphon.logprobs import LogprobAligner
from antiphon.model import Model
from antiphon.plain_text import PlainText
from antiphon_parsers import Parser
from antiphon_tokenizers import Detokenizer
from antiphon_turns import (
    Anomaly,
    Assembler,
    CallReady,
    Event,
    FinishReason,
    Opening,
    ReasoningSegment,
    SampledLogprob,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    StopMatcher,
    TextSegment,
    TurnEnd,
    TurnRequest,
    TurnStart,
    Usage,
    ids,
    stop_reason,
)
from antiphon_turns.replay import TurnRecord

# The longest marker that ends reasoning, in tokens of a tokenizer that has none for it.
MARKER_TOKENS = 32


class Sealer(Protocol):
    """Makes the carriers of reasoning segments."""

    def carrier(self, tag: str, index: int, token_ids: Sequence[int], opening: str | None = None) -> str:
        """The carrier of segment `index`; `token_ids` were sampled since the previous one and end with its closing marker. The first
        one of a turn gets the `opening` too."""
        ...


class TurnDecoder:
    """Ids -> text -> parser -> stop strings -> events. `done` says that generation should end now although the engine
    would go on: a stop string matched, the end-of-turn token came, or the one allowed call is complete. `ended_in_call`, after
    `finish`: the turn ended inside a call, perhaps one of which nothing is known yet."""

    def __init__(
        self, model: Model, request: TurnRequest, *, prompt_tokens: int, opening: str, turn_tag: str, sealer: Sealer | None = None
    ) -> None:
        self._model = model
        self._request = request
        self._tag = turn_tag
        self._detokenizer = Detokenizer(model.tokenizer)
        tools = request.tools if request.tool_choice.mode != "none" else ()
        self.parser: Parser | PlainText = (
            Parser(model.format.grammar, tools=tools, opening=Opening("rendered", opening), turn_tag=turn_tag)
            if request.prompt is None
            else PlainText()
        )
        self._aligner = None if request.sampling.top_logprobs is None else LogprobAligner()
        self._stops = StopMatcher(request.sampling.stop)
        self._stoppable = bool(request.sampling.stop)
        self._single_call = not request.tool_choice.parallel
        self._call_made = False
        self._assembler = Assembler()
        self._reasoning_open = -1
        self._sealer = sealer
        self._opening = opening
        self._parsed_tokens = 0
        self._sealed_tokens = 0
        self._dropped: set[int] = set()
        self._prompt_tokens = prompt_tokens
        self._reasoning_tokens = 0
        self.cached_tokens: int | None = None
        self.output_ids: list[int] = []
        self.done = False
        self._finished = False
        self.ended_in_call = False

    @property
    def in_reasoning(self) -> bool:
        """Whether the next token would be reasoning."""
        return self.parser.in_reasoning

    @property
    def anomalies(self) -> list[Anomaly]:
        """What was contained so far."""
        return self._assembler.anomalies

    @property
    def call_made(self) -> bool:
        """Whether the one call that is allowed is complete."""
        return self._call_made

    def start(self) -> TurnStart:
        """The first event of the turn."""
        return TurnStart(self._tag, self._request.model, self._prompt_tokens, self.cached_tokens)

    def feed(
        self, token_ids: Sequence[int], *, reasoning_only: bool = False, logprobs: Sequence[SampledLogprob | None] | None = None
    ) -> list[Event]:
        """Takes newly sampled ids; stops reading them once `done`, or at the end of the reasoning if that is all that is wanted.
        `logprobs` has one entry an id, or is None."""
        if self._aligner is not None and logprobs is not None:
            return self._feed_with_logprobs(self._aligner, token_ids, logprobs, reasoning_only=reasoning_only)
        events: list[Event] = []
        for token_id in token_ids:
            if self.done or (reasoning_only and not self.parser.in_reasoning):
                break
            self._take(token_id, events)
        return events

    def _feed_with_logprobs(
        self, aligner: LogprobAligner, token_ids: Sequence[int], logprobs: Sequence[SampledLogprob | None], *, reasoning_only: bool
    ) -> list[Event]:
        events: list[Event] = []
        for token_id, logprob in zip(token_ids, logprobs, strict=True):
            if self.done or (reasoning_only and not self.parser.in_reasoning):
                break
            followed: list[Event] = []
            text = self._take(token_id, followed)
            if text is not None:
                aligner.add(text, logprob)
            events += aligner.align(followed)
        return events

    def _take(self, token_id: int, events: list[Event]) -> str | None:
        """One sampled id; the text it adds, None for a token that is none."""
        model = self._model
        self.output_ids.append(token_id)
        if token_id in model.stop_ids:
            self.done = True
        elif token_id in model.foreign_ids:
            self._dropped.add(len(self.output_ids) - 1)
            events.append(self._note(Anomaly("foreign_control_token", model.tokenizer.decode([token_id]))))
        else:
            text = self._detokenizer.push(token_id)
            self._pass(self.parser.feed(text, (token_id,)), events)
            return text
        return None

    def inject(self, token_ids: Iterable[int]) -> list[Event]:
        """Puts tokens into the model's mouth; they count as output. An end of turn the model had just sampled is undone."""
        if self.output_ids and self.output_ids[-1] in self._model.stop_ids:
            self.output_ids.pop()
        self.done = False
        return self.feed(list(token_ids))

    def finish(self, reason: FinishReason) -> list[Event]:
        """Closes what is open and ends the turn."""
        events: list[Event] = []
        tail = self._detokenizer.flush()
        if tail and self._stops.matched is None:
            self._pass(self.parser.feed(tail), events)
        reason = "stop" if self.done else reason
        self._finished = True
        self._pass(self.parser.finish(reason), events)
        if self._aligner is not None:
            events = self._aligner.align(events)
        segments = self._assembler.segments
        in_reasoning = bool(segments) and isinstance(segments[-1], ReasoningSegment) and segments[-1].status == "truncated"
        self.ended_in_call = self.parser.incomplete and not in_reasoning
        why = stop_reason(segments, reason, self._stops.matched, incomplete=self.parser.incomplete)
        end = TurnEnd(why, self.usage(), self._stops.matched)
        self._assembler.push(end)
        events.append(end)
        return events

    def record(self) -> TurnRecord | None:
        """What was sampled, for the next prompt; None where nothing of it can be told. Before `finish` it ends with the last
        complete segment. A stray control token is in the ids but not in the text, so such a turn is not told; after a stop string, and
        behind the one allowed call, the ids say more, or less, than the turn."""
        segments = list(self._assembler.segments)
        cut = self._stops.matched is not None or self._call_made or not self._finished
        if self._stops.matched is not None and segments and isinstance(segments[-1], TextSegment):
            segments.pop()
        while segments and segments[-1].status == "truncated" and not isinstance(segments[-1], TextSegment):
            segments.pop()
            cut = True
        if not segments or self._dropped:
            return None
        token_ids = self.output_ids
        if token_ids[-1] in self._model.stop_ids:
            token_ids = token_ids[:-1]
        token_ids = token_ids[: len(token_ids) - self._ending(token_ids)]
        return TurnRecord(turn_tag=self._tag, opening=self._opening, ids=token_ids, segments=tuple(segments), whole=not cut)

    def _ending(self, token_ids: Sequence[int]) -> int:
        """How many ids at the end spell what ends a turn, beside the stop token: the frame brings that itself."""
        frame, decode = self._model.family.frame, self._model.tokenizer.decode
        end = frame.end_of_turn
        for stop in frame.stop_tokens:
            end = end.removesuffix(stop)
        for size in range(1, min(len(token_ids), len(end)) + 1):
            text = decode(list(token_ids[-size:]))
            if text == end:
                return size
            if len(text) > len(end):
                break
        return 0

    def usage(self) -> Usage:
        """Counts so far."""
        return Usage(
            prompt_tokens=self._prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=len(self.output_ids),
            reasoning_tokens=self._reasoning_tokens,
        )

    def _pass(self, parsed: list[Event], out: list[Event]) -> None:
        for event in parsed:
            if self._call_made and not isinstance(event, Anomaly):
                continue
            for kept in self._stops.push(event) if self._stoppable else (event,):
                if type(kept) is SegmentDelta:
                    self._assembler.append(kept.text)
                    out.append(kept)
                else:
                    out.append(self._note(kept))
        if self._stops.matched is not None:
            self.done = True

    def _note(self, event: Event) -> Event:
        """Stamps carriers, counts reasoning, watches for the last allowed call, and remembers what the stop reason needs."""
        if isinstance(event, SegmentStart) and event.kind == "reasoning":
            self._reasoning_open = event.index
        elif isinstance(event, SegmentEnd):
            self._parsed_tokens += event.tokens
            if event.index == self._reasoning_open:
                self._reasoning_tokens += event.tokens
                event = SegmentEnd(event.index, event.status, event.tokens, self._carrier(event))
        elif isinstance(event, CallReady) and self._single_call:
            self._call_made = self.done = True
        self._assembler.push(event)
        return event

    def _carrier(self, end: SegmentEnd) -> str:
        """A cut segment has no seal: its marker was never sampled."""
        if self._sealer is None or end.status == "truncated":
            return ids.carrier(self._tag, end.index)
        parsed = self.output_ids
        if self._dropped:
            parsed = [token_id for place, token_id in enumerate(parsed) if place not in self._dropped]
        start, stop = self._sealed_tokens, self._marker_end(parsed)
        opening = None if start else self._opening
        self._sealed_tokens = stop
        return self._sealer.carrier(self._tag, end.index, parsed[start:stop], opening)

    def _marker_end(self, parsed: list[int]) -> int:
        """How many ids reach to the end of the marker that has just closed reasoning. A token counts for the segment its last
        byte falls in, so where the marker is ordinary text, the token that holds its end may be counted with what follows."""
        reasoning, stop = self._model.format.grammar.reasoning, self._parsed_tokens
        if reasoning is None or stop >= len(parsed):
            return min(stop, len(parsed))
        decode = self._model.tokenizer.decode
        first = max(self._sealed_tokens, stop - MARKER_TOKENS)
        before, after = decode(parsed[first:stop]), decode(parsed[first : stop + 1])
        closers = [marker for marker in (reasoning.closer, *reasoning.spellings[1]) if marker]
        return stop + any(after.count(marker) > before.count(marker) for marker in closers)
