"""Step 3: which past turns of a request are known as they were sampled."""

from collections.abc import Sequence

from antiphon.replay.ledger import Ledger
from antiphon_turns import AssistantMessage, Message, Segment, SystemMessage, ToolMessage, TurnRequest, UserMessage
from antiphon_turns.ids import split_call_id, split_carrier
from antiphon_turns.replay import TurnRecord
from antiphon_turns.turn import CallSegment, ReasoningSegment


def recall(request: TurnRequest, ledger: Ledger, *, tenant: str) -> dict[int, TurnRecord]:
    """Records by message index. A turn is found by the tag in its call ids and carriers, else by what it shows and the
    text it answers; one that names two tags is two turns that a client has joined, and is left to the writer."""
    found: dict[int, TurnRecord] = {}
    for index, message in enumerate(request.messages):
        if not isinstance(message, AssistantMessage) or not message.segments:
            continue
        tags = tags_of(message.segments)
        if len(tags) == 1:
            record = ledger.by_tag(tenant, *tags)
        elif not tags:
            record = ledger.by_text(tenant, text_before(request.messages, index), message.segments)
        else:
            record = None
        if record is not None:
            found[index] = record
    return found


def tags_of(segments: Sequence[Segment]) -> set[str]:
    """The turn tags that the ids and carriers of a told turn name."""
    named = (
        split_call_id(segment.call_id) if isinstance(segment, CallSegment) else split_carrier(segment.carrier or "")
        for segment in segments
        if isinstance(segment, CallSegment | ReasoningSegment)
    )
    return {found[0] for found in named if found is not None}


def text_before(messages: Sequence[Message], index: int) -> str:
    """What the turn at `index` answers: the message before it. Tells equal short answers of one client apart."""
    before = messages[index - 1] if index else None
    return before.text if isinstance(before, UserMessage | ToolMessage | SystemMessage) else ""
