"""Step 3: which past turns of a request are known as they were sampled, by the ledger or by the seals that the client returns."""

from collections.abc import Sequence

import msgspec
from xxhash import xxh3_128

from antiphon.model import Model
from antiphon.replay.ledger import Ledger
from antiphon.seals import TurnSealer
from antiphon_parsers import Parser
from antiphon_tokenizers import Detokenizer
from antiphon_turns import (
    Anomaly,
    Assembler,
    AssistantMessage,
    CallSegment,
    Message,
    Opening,
    ReasoningSegment,
    Segment,
    SystemMessage,
    TextSegment,
    TurnRequest,
)
from antiphon_turns.ids import split_call_id, split_carrier
from antiphon_turns.replay import TurnRecord


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """`records` by message index. An anomaly `replay_lost` names each turn whose reasoning was withheld and cannot be had back."""

    records: dict[int, TurnRecord]
    anomalies: tuple[Anomaly, ...] = ()


class Recall:
    """Finds the records of a request's past turns. Safe to call from several threads."""

    def __init__(self, model: Model, ledger: Ledger) -> None:
        self._model = model
        self._ledger = ledger

    def find(self, request: TurnRequest, sealer: TurnSealer | None, *, tenant: str) -> Recalled:
        """A turn is found by the tag in its call ids and carriers, else by what it shows and the text it answers; one that names
        two tags is two turns that a client has joined, and is left to the writer."""
        found: dict[int, TurnRecord] = {}
        lost: list[Anomaly] = []
        places = Places(request.messages)
        for index, message in enumerate(request.messages):
            # Of a turn that was all reasoning some clients return an empty message; at the end it is a turn to come.
            if not isinstance(message, AssistantMessage) or (not message.segments and index == len(request.messages) - 1):
                continue
            record = self._one(request, index, places, sealer, tenant)
            if record is not None:
                found[index] = record
            elif any(isinstance(s, ReasoningSegment) and not s.text for s in message.segments):
                lost.append(Anomaly("replay_lost", f"message {index}: reasoning was withheld from the client, and its seal does not open"))
        return Recalled(records=found, anomalies=tuple(lost))

    def keep(self, request: TurnRequest, record: TurnRecord, *, tenant: str) -> None:
        """Remembers a turn that answered this request."""
        self._ledger.put(tenant, Places(request.messages).before(len(request.messages)), record)

    def _one(self, request: TurnRequest, index: int, places: "Places", sealer: TurnSealer | None, tenant: str) -> TurnRecord | None:
        message = request.messages[index]
        told = message.segments if isinstance(message, AssistantMessage) else ()
        tags = tags_of(told)
        if not tags:
            return self._ledger.by_text(tenant, places.before(index), told)
        if len(tags) > 1:
            return None
        record = self._ledger.by_tag(tenant, *tags)
        if record is None and sealer is not None:
            record = sealed_record(self._model, request, told, sealer)
            if record is not None:
                self._ledger.put(tenant, places.before(index), record)
        return record


def sealed_record(model: Model, request: TurnRequest, told: Sequence[Segment], sealer: TurnSealer) -> TurnRecord | None:
    """What the seals of a turn say: everything up to the end of its last sealed reasoning, as long as no seal is missing before it. What
    follows the gap is left out."""
    opening: str | None = None
    token_ids: list[int] = []
    tag = ""
    best: TurnRecord | None = None
    carriers = {named: s.carrier for s in told if isinstance(s, ReasoningSegment) and s.carrier and (named := split_carrier(s.carrier))}
    for (tag, index), carrier in sorted(carriers.items()):
        opened = sealer.open(carrier)
        if opened.ids is None:
            break
        opening = opened.opening if opening is None else opening
        if opening is None:
            break
        token_ids += opened.ids
        segments = read_turn(model, request, opening, token_ids, tag)
        if len(segments) != index + 1 or not isinstance(segments[-1], ReasoningSegment) or segments[-1].status == "truncated":
            break
        # The token that closes the marker may be counted with what would follow it.
        rest = len(token_ids) - sum(segment.tokens for segment in segments[:-1])
        segments[-1] = msgspec.structs.replace(segments[-1], tokens=rest)
        best = TurnRecord(turn_tag=tag, opening=opening, ids=list(token_ids), segments=tuple(segments), whole=False)
    return best


def read_turn(model: Model, request: TurnRequest, opening: str, token_ids: Sequence[int], tag: str) -> list[Segment]:
    """The segments of sampled ids, as the turn's own decoder saw them."""
    tools = request.tools if request.tool_choice.mode != "none" else ()
    parser = Parser(model.format.grammar, tools=tools, opening=Opening("rendered", opening), turn_tag=tag)
    assembler, detokenizer = Assembler(), Detokenizer(model.tokenizer)
    for token_id in token_ids:
        for event in parser.feed(detokenizer.push(token_id), (token_id,)):
            assembler.push(event)
    for event in parser.finish("stop"):
        assembler.push(event)
    return assembler.segments


def tags_of(segments: Sequence[Segment]) -> set[str]:
    """The turn tags that the ids and carriers of a told turn name."""
    named = (
        split_call_id(segment.call_id) if isinstance(segment, CallSegment) else split_carrier(segment.carrier or "")
        for segment in segments
        if isinstance(segment, CallSegment | ReasoningSegment)
    )
    return {found[0] for found in named if found is not None}


class Places:
    """Names of the places in a conversation, for turns that name nothing of ours. To be asked for in their order. A name is no proof:
    the turn found by it must still show what its client tells."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._running = xxh3_128()
        self._read = 0

    def before(self, index: int) -> tuple[str, str]:
        """What the turn at `index` answers: everything said before it, which tells equal answers in equal words of two conversations
        apart; and, for histories that a client has edited, the message before it alone."""
        for said in self._messages[self._read : index]:
            data = _visible(said).encode("utf-8", "surrogatepass")
            self._running.update(len(data).to_bytes(8, "little") + data)
        self._read = index
        last = self._messages[index - 1] if index else None
        return self._running.hexdigest(), "" if last is None or isinstance(last, AssistantMessage) else last.text


def _visible(message: Message) -> str:
    """What stays the same of a message when its client sends it again: no system text, which clients renew, and of a turn what the
    ledger knows it by."""
    if isinstance(message, SystemMessage):
        return ""
    if not isinstance(message, AssistantMessage):
        return message.text
    shown = [segment for segment in message.segments if not isinstance(segment, ReasoningSegment)]
    return "\n".join(sorted("".join(s.text.split()) if isinstance(s, TextSegment) else s.name for s in shown))
