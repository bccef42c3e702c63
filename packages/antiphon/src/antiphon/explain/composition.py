"""What a prompt is made of, in tokens by part."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Literal

import msgspec

from antiphon_tokenizers import Detokenizer, Tokenizer
from antiphon_turns import AssistantMessage, CallSegment, Frame, ReasoningSegment, SystemMessage, ToolMessage, TurnRequest

PartName = Literal["system", "tools", "user", "assistant", "reasoning", "calls", "results", "opening", "other"]
PARTS: tuple[PartName, ...] = ("system", "tools", "user", "assistant", "reasoning", "calls", "results", "opening", "other")

_CANDIDATES = 64
"""Places of a short text that are looked at before it counts as not found."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` of the prompt that belong to this part; of them, `shared` were in the session's previous prompt or its output, and
    `cached` in the engine's cache (None: it has not said). `other` is what the template writes around the parts, and what could not be
    found again in the prompt for certain."""

    name: PartName
    tokens: int
    shared: int = 0
    cached: int | None = None


class _Span(msgspec.Struct, frozen=True):
    start: int
    stop: int
    name: PartName


def compose(
    request: TurnRequest, ids: Sequence[int], tokenizer: Tokenizer, frame: Frame, *, shared: int = 0, cached: int | None = None
) -> tuple[Part, ...]:
    """The parts of the prompt `ids` that was made of `request`, in the order of PARTS, those without tokens left out. Their tokens add
    up to the prompt's. A token belongs where its first character does."""
    pushed = Detokenizer(tokenizer)
    pieces = [pushed.push(token_id) for token_id in ids]
    starts = list(accumulate(map(len, pieces), initial=0))[:-1]
    text = "".join(pieces)
    control = set(tokenizer.control_tokens.values())
    edges = frozenset(start for start, token_id in zip(starts, ids, strict=True) if token_id in control)
    behind = frozenset(start + len(piece) for start, piece in zip(starts, pieces, strict=True) if start in edges)
    spans = [] if request.prompt is not None else sorted(_spans(request, _Text(text, edges, behind), frame), key=lambda span: span.start)
    tokens, held, hit = (dict.fromkeys(PARTS, 0) for _ in range(3))
    at = 0
    for place, start in enumerate(starts):
        while at < len(spans) and spans[at].stop <= start:
            at += 1
        name = spans[at].name if at < len(spans) and spans[at].start <= start else "other"
        tokens[name] += 1
        held[name] += place < shared
        hit[name] += place < (cached or 0)
    return tuple(
        Part(name=name, tokens=tokens[name], shared=held[name], cached=None if cached is None else hit[name])
        for name in PARTS
        if tokens[name]
    )


class _Text:
    """A prompt's text. Control tokens begin at `edges` and end at `behind`; no client text spans one (I13)."""

    def __init__(self, text: str, edges: frozenset[int], behind: frozenset[int]) -> None:
        self.text = text
        self.edges = edges
        self._behind = behind

    def find(self, needle: str, start: int, stop: int | None = None) -> int:
        """Where `needle` stands for certain: on lines of its own, or nowhere else. -1 where that is not certain."""
        if not needle:
            return -1
        stop = len(self.text) if stop is None else stop
        first = at = self.text.find(needle, start, stop)
        for _ in range(_CANDIDATES):
            if at < 0:
                break
            if self._begins(at) and self._ends(at + len(needle)):
                return at
            at = self.text.find(needle, at + 1, stop)
        return first if first >= 0 and self.text.find(needle, first + 1, stop) < 0 else -1

    def _begins(self, at: int) -> bool:
        return at == 0 or at in self._behind or self.text[at - 1] == "\n"

    def _ends(self, at: int) -> bool:
        return at == len(self.text) or at in self.edges or self.text[at] == "\n"


def _spans(request: TurnRequest, prompt: _Text, frame: Frame) -> Iterator[_Span]:
    messages = request.messages
    last = len(messages) - 1
    first = next((index for index, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    cursor = 0
    systems: list[_Span] = []
    for index, message in enumerate(messages):
        if index == first:
            yield from systems
        if isinstance(message, AssistantMessage):
            found = [] if index == last else list(_turn(message, prompt, frame, cursor))
            yield from found
            cursor = max((span.stop for span in found), default=cursor)
            continue
        needle = message.text.strip()
        at = prompt.find(needle, cursor)
        if at < 0:
            continue
        if index == first:
            yield from _tools(request, prompt, systems, at)
        span = _Span(at, at + len(needle), _name(message))
        cursor = span.stop
        if index < first:
            systems.append(span)
        else:
            yield span
    if first == len(messages):
        yield from systems
    yield from _opening(prompt, frame, cursor)


def _name(message: object) -> PartName:
    if isinstance(message, SystemMessage):
        return "system"
    return "results" if isinstance(message, ToolMessage) else "user"


def _tools(request: TurnRequest, prompt: _Text, systems: Sequence[_Span], first: int) -> Iterator[_Span]:
    """What of the head, which ends where the frame of the message at `first` begins, is neither system text nor free of tools."""
    names = [tool.name for tool in request.tools if not tool.deferred]
    head_end = max((edge for edge in prompt.edges if edge < first), default=first)
    start = 0
    for span in (*systems, _Span(head_end, head_end, "other")):
        if any(name in prompt.text[start : span.start] for name in names):
            yield _Span(start, span.start, "tools")
        start = max(start, span.stop)


def _turn(message: AssistantMessage, prompt: _Text, frame: Frame, cursor: int) -> Iterator[_Span]:
    """A past turn: what it says between the frame's header and the end of the turn. What is left of a turn with calls are the calls."""
    text, header = prompt.text, frame.assistant_header
    at = text.find(header, cursor) if header else -1
    if at < 0:
        return
    start = at + len(header)
    ends = (text.find(end, start) for end in dict.fromkeys((frame.end_of_turn, *frame.stop_tokens)) if end)
    stop = min((end for end in ends if end >= 0), default=-1)
    if stop < 0:
        return
    calls = any(isinstance(segment, CallSegment) for segment in message.segments)
    place = start
    for segment in message.segments:
        if isinstance(segment, CallSegment):
            continue
        needle = segment.text.strip()
        found = prompt.find(needle, place, stop)
        if found < 0:
            continue
        if calls and place < found and place > start:
            yield _Span(place, found, "calls")
        place = found + len(needle)
        yield _Span(found, place, "reasoning" if isinstance(segment, ReasoningSegment) else "assistant")
    yield _Span(place, stop, "calls" if calls else "other")


def _opening(prompt: _Text, frame: Frame, cursor: int) -> Iterator[_Span]:
    """From the last header on: what the model goes on from."""
    at = prompt.text.rfind(frame.assistant_header, cursor) if frame.assistant_header else -1
    if at < 0:
        at = frame.header_end(prompt.text, cursor)
    if at >= 0:
        yield _Span(at, len(prompt.text), "opening")
