"""Exact replay as plain data: what was sampled for a turn, and which of it may stand in the next prompt in place of a
client's retelling (I9)."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec

from antiphon_turns.ids import split_call_id, split_carrier
from antiphon_turns.turn import CallSegment, ReasoningSegment, Segment, TextSegment


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One sampled turn. `opening` is what the prompt held behind the assistant header; `ids` are the sampled ids without the
    end-of-turn token; the segments' `tokens` add up to places in `ids`, and what follows the last one belongs to it if
    the turn is `whole`. A record may end early: then nothing is known of what followed."""

    turn_tag: str
    opening: str
    ids: Sequence[int]
    segments: tuple[Segment, ...]
    whole: bool = True

    def spans(self) -> tuple[tuple[int, int], ...]:
        """For each segment the range of `ids` it was read from: its markers, and the white space that precedes it, included."""
        ends = [min(end, len(self.ids)) for end in accumulate(segment.tokens for segment in self.segments)]
        if ends and self.whole:
            ends[-1] = len(self.ids)
        return tuple(zip([0, *ends], ends, strict=False))


class Chosen(msgspec.Struct, frozen=True):
    """One segment of a past turn in the order of the model: `span` is the range of the record's ids that says the same,
    None where the client's own segment counts."""

    segment: Segment
    span: tuple[int, int] | None = None


def choose(record: TurnRecord, told: Sequence[Segment], *, joined: bool = False) -> tuple[Chosen, ...]:
    """The turn that a client tells of, as far as the record says the same.

    Reasoning is the same if its text is equal, left out or withheld; text if its characters are equal (blank text is not
    compared); a call if its name is and its arguments are equal as JSON values, key order ignored and numbers as doubles. `joined`: the
    surface keeps one reasoning and one text a turn; where one of these equals the record's joined pieces, each of them counts as equal.
    An edited segment takes the client's form, those behind it stay eligible; what the client has removed stays out.
    """
    if joined and (whole := _joined(record, told)) is not None:
        return whole
    spans = record.spans()
    # One reasoning that says something else stands for all of them.
    retold = joined and bool(_text(told, ReasoningSegment))
    told_at: dict[int, Segment] = {}
    behind: dict[int, list[Segment]] = {}
    last = -1
    for segment, places in zip(told, _places(record.segments, told, joined=joined), strict=True):
        told_at.update((place, segment if len(places) == 1 else record.segments[place]) for place in places)
        last = places[-1] if places else last
        if not places:
            # Its id says where it stood, whatever place the client has given it.
            index = _index(segment)
            behind.setdefault(last if index is None else min(index, len(record.segments)) - 1, []).append(segment)
    out = [Chosen(segment) for segment in behind.get(-1, ())]
    for place, sampled in enumerate(record.segments):
        found = told_at.get(place)
        if found is None:
            if not _is_projected(sampled) or (isinstance(sampled, ReasoningSegment) and not retold):
                out.append(Chosen(sampled, spans[place]))
        else:
            out.append(Chosen(sampled, spans[place]) if same(sampled, found) else Chosen(found))
        out += [Chosen(segment) for segment in behind.get(place, ())]
    return tuple(out)


def same(sampled: Segment, told: Segment) -> bool:
    """Whether the client's segment means the sampled one."""
    if isinstance(sampled, ReasoningSegment):
        return isinstance(told, ReasoningSegment) and told.text in ("", sampled.text)
    if isinstance(sampled, TextSegment):
        return isinstance(told, TextSegment) and told.text == sampled.text
    if not isinstance(told, CallSegment) or sampled.status == "truncated" or sampled.name != told.name:
        return False
    return sampled.arguments == told.arguments or same_json(sampled.arguments, told.arguments)


def same_json(one: str, other: str) -> bool:
    """Equality of JSON values as clients keep them: key order ignored, numbers as doubles."""
    try:
        return bool(_plain(msgspec.json.decode(one)) == _plain(msgspec.json.decode(other)))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False


def _plain(value: Any) -> Any:
    """Booleans told from numbers, integers as doubles."""
    if isinstance(value, bool) or value is None:
        return (value,)
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _joined(record: TurnRecord, told: Sequence[Segment]) -> tuple[Chosen, ...] | None:
    """The whole record, if what the client tells is its projection on a surface that joins segments; None otherwise."""
    projected = [segment for segment in record.segments if _is_projected(segment)]
    reasoning = _text(told, ReasoningSegment)
    if reasoning and not _joins(reasoning, [s.text for s in projected if isinstance(s, ReasoningSegment)]):
        return None
    if not _joins(_text(told, TextSegment), [s.text for s in projected if isinstance(s, TextSegment)]):
        return None
    calls = [segment for segment in told if isinstance(segment, CallSegment)]
    made = [segment for segment in projected if isinstance(segment, CallSegment)]
    if len(calls) != len(made) or not all(map(same, made, calls)):
        return None
    return tuple(Chosen(segment, span) for segment, span in zip(record.segments, record.spans(), strict=True))


def _joins(told: str, pieces: Sequence[str]) -> bool:
    """Whether a text is these pieces in a row; between several of them clients put white space of their own."""
    joined = "".join(pieces)
    return told == joined or (len(pieces) > 1 and "".join(told.split()) == "".join(joined.split()))


def _text(segments: Sequence[Segment], kind: type[ReasoningSegment] | type[TextSegment]) -> str:
    return "".join(segment.text for segment in segments if isinstance(segment, kind))


def _is_projected(segment: Segment) -> bool:
    """Whether a client ever saw it: blank text and cut calls do not leave."""
    if isinstance(segment, CallSegment):
        return segment.status != "truncated"
    return bool(segment.text.strip())


def _places(sampled: Sequence[Segment], told: Sequence[Segment], *, joined: bool) -> list[tuple[int, ...]]:
    """For each told segment the sampled ones it retells. Ids and carriers name one; what has none of ours is found by its
    kind, in order, an equal one first. Ingest joins text blocks that a client has brought together: such a text retells several, and
    so may what a surface has `joined`."""
    named = [_named_place(segment, sampled) for segment in told]
    free = [place for place, segment in enumerate(sampled) if _is_projected(segment) and place not in named]
    out: list[tuple[int, ...]] = []
    for segment, place in zip(told, named, strict=True):
        found = _retold(segment, sampled, free, joined=joined) if place is None else (place,)
        free = [place for place in free if place not in found]
        out.append(found)
    return out


def _retold(segment: Segment, sampled: Sequence[Segment], free: Sequence[int], *, joined: bool) -> tuple[int, ...]:
    kind = [place for place in free if type(sampled[place]) is type(segment)]
    equal = next((place for place in kind if same(sampled[place], segment)), None)
    if equal is not None:
        return (equal,)
    if joined and not isinstance(segment, CallSegment):
        if _joins(segment.text, [_text((sampled[place],), type(segment)) for place in kind]):
            return tuple(kind)
    elif isinstance(segment, TextSegment):
        for count in range(2, len(kind) + 1):
            if segment.text == "\n".join(_text((sampled[place],), TextSegment) for place in kind[:count]):
                return tuple(kind[:count])
    return tuple(kind[:1])


def _named_place(segment: Segment, sampled: Sequence[Segment]) -> int | None:
    index = _index(segment)
    fits = index is not None and index < len(sampled) and type(sampled[index]) is type(segment)
    return index if fits else None


def _index(segment: Segment) -> int | None:
    """The place in its turn that a segment's id or carrier names."""
    if isinstance(segment, CallSegment):
        found = split_call_id(segment.call_id)
    elif isinstance(segment, ReasoningSegment):
        found = split_carrier(segment.carrier or "")
    else:
        found = None
    return found[1] if found is not None else None
