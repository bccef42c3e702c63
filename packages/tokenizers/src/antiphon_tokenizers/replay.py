"""Past turns as they were sampled: which of a turn's text is replaced by its ids, and where the seams lie."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import structs

from antiphon_turns import AssistantMessage, CallSegment, Message, ReasoningSegment, Segment, TurnRequest
from antiphon_turns.replay import TurnRecord, choose

Spans = tuple[tuple[int, int] | None, ...]


class Slots:
    """Places in a prompt's text where sampled ids stand. `mark` is a character that the text does not hold ("": no slots)."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._ids: list[tuple[int, ...]] = []

    def put(self, ids: Sequence[int]) -> str:
        """The slot of these ids, as text."""
        self._ids.append(tuple(ids))
        return f"{self._mark}{len(self._ids) - 1}{self._mark}"

    def parts(self, text: str) -> Iterator[str | tuple[int, ...]]:
        """The text cut at its slots, ids in place of these. A slot is never cut in two."""
        if not self._ids:
            yield text
            return
        for place, part in enumerate(text.split(self._mark)):
            yield self._ids[int(part)] if place % 2 else part


class Restored(msgspec.Struct, frozen=True):
    """A past turn that a record is known of. `spans`: for each segment of the message the range of the record's ids that
    stands for it, None where the segment's own text does."""

    record: TurnRecord
    spans: Spans


def restore(request: TurnRequest, records: Mapping[int, TurnRecord]) -> tuple[TurnRequest, dict[int, Restored]]:
    """The request with its past turns in the order of the model, and by message index what was sampled for them. On Chat a turn
    is compared as a whole, because that surface joins its segments."""
    joins = request.surface == "chat"
    messages: list[Message] = list(request.messages)
    restored: dict[int, Restored] = {}
    for index, message in enumerate(messages):
        if not isinstance(message, AssistantMessage):
            continue
        record = records.get(index)
        if record is None:
            continue
        chosen = choose(record, message.segments, joined=joins)
        messages[index] = AssistantMessage(tuple(one.segment for one in chosen))
        if any(one.span for one in chosen):
            restored[index] = Restored(record, tuple(one.span for one in chosen))
    return structs.replace(request, messages=tuple(messages)), restored


def without_reasoning(turn: Restored, segments: Sequence[Segment]) -> Restored:
    """The same for a turn whose reasoning does not return; `segments` are the message's, reasoning included."""
    spans = tuple(span for span, segment in zip(turn.spans, segments, strict=True) if not isinstance(segment, ReasoningSegment))
    return Restored(turn.record, spans)


def sampled_first(turn: Restored) -> bool:
    """Whether the turn begins with sampled ids from their beginning."""
    return bool(turn.spans) and turn.spans[0] is not None and turn.spans[0][0] == 0


def woven(
    turn: Restored,
    segments: Sequence[Segment],
    *,
    write: Callable[[Sequence[Segment]], str],
    slot: Callable[[Sequence[int]], str],
    decode: Callable[[Sequence[int]], str],
    ends: tuple[str, ...],
) -> str:
    """The turn's text with slots for the ids that stand in it. `write` gives the writer's text of a turn that has only the given
    segments; ids replace a part of it only where that part can be told from the rest. `ends`: what ends a turn; ids hold
    none, so where the writer brings one it stays."""
    full = write(segments)
    own_end = next((end for end in ends if end and full.endswith(end)), "")
    body = len(full) - len(own_end)
    out: list[str] = []
    done = 0
    for start, stop in _runs(turn.spans, segments):
        span_start, span_stop = turn.spans[start], turn.spans[stop - 1]
        assert span_start is not None and span_stop is not None
        reaches_end = stop == len(segments) and turn.record.whole and span_stop == turn.record.spans()[-1]
        ids = turn.record.ids[span_start[0] : len(turn.record.ids) if reaches_end else span_stop[1]]
        text = decode(ids)
        first = _end_of(segments, start, full, write) if start else 0
        last = _end_of(segments, stop, full, write, text=text) if stop < len(segments) else body
        if first is None or last is None or first < done:
            continue
        first = _start_of(text, full, first)
        before = full[done:first]
        out += (before[: len(before) - _overlap(before, text)], slot(ids))
        rest = full[last:]
        done = body if reaches_end else last + _repeated(rest, text)
    out.append(full[done:])
    return "".join(out)


def _runs(spans: Spans, segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """Ranges of segments whose ids follow each other without a gap. Inside a turn none begins behind a call or ends with one: the
    marker that closes a block of calls may be counted to what follows it."""
    runs: list[tuple[int, int]] = []
    for place, span in enumerate(spans):
        if span is None:
            continue
        previous = spans[place - 1] if place else None
        if runs and runs[-1][1] == place and previous is not None and previous[1] == span[0]:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    return [run for run in (_settled(start, stop, segments) for start, stop in runs) if run[0] < run[1]]


def _settled(start: int, stop: int, segments: Sequence[Segment]) -> tuple[int, int]:
    while 0 < start < stop and isinstance(segments[start - 1], CallSegment):
        start += 1
    while start < stop < len(segments) and isinstance(segments[stop - 1], CallSegment):
        stop -= 1
    return start, stop


def _end_of(segments: Sequence[Segment], count: int, full: str, write: Callable[[Sequence[Segment]], str], *, text: str = "") -> int | None:
    """Where the first `count` segments end within the text of all, the white space behind them left out; None when the
    writer binds what follows so closely that it cannot be told. `text`: of the ids that stand for the last of them."""
    bare = write(segments[:count]).rstrip()
    last = segments[count - 1]
    said = "" if isinstance(last, CallSegment) else last.text.rstrip()
    closer = text.rpartition(said)[2].rstrip() if said else ""
    if full.startswith(bare):
        # What closes the last one may be written only because something follows.
        return len(bare) + (len(closer) if full.startswith(closer, len(bare)) else 0)
    if not said:
        return None
    # The writer puts these in another way when something follows: a mark tells where the last one's own text ends.
    marked = write((*segments[: count - 1], structs.replace(last, text=said + _MARK), *segments[count:]))
    place = marked.find(_MARK)
    if place < 0 or _MARK in full or not full.startswith(marked[:place]):
        return None
    return place + len(closer) if full.startswith(closer, place) else place


_MARK = "\U000f8a1d"


def _start_of(text: str, full: str, start: int) -> int:
    """Where the writer's form of the ids' text begins, at or just behind `start`: the end of the segment before may be written only
    because something follows."""
    found = full.find(text.lstrip()[:_HEAD], start, start + _NEAR) if start else start
    return start if found < 0 else found


_HEAD = 12
_NEAR = 64


def _overlap(before: str, text: str) -> int:
    """How much white space at the end of `before` the text brings itself."""
    lead = text[: len(text) - len(text.lstrip())]
    tail = before[len(before.rstrip()) :]
    return len(tail) if lead else 0


def _repeated(rest: str, text: str) -> int:
    """How much white space at the beginning of `rest` the text has already."""
    tail = text[len(text.rstrip()) :]
    lead = rest[: len(rest) - len(rest.lstrip())]
    size = min(len(tail), len(lead))
    while size and tail[-size:] != lead[:size]:
        size -= 1
    return size
