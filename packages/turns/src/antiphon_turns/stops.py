"""Stop strings, matched on turn events: in visible text only, never in reasoning or arguments, across any cut."""

from collections.abc import Sequence

from antiphon_turns.events import Anomaly, Event, SegmentDelta, SegmentEnd, SegmentStart, TurnEnd, TurnMetadata, UsageUpdate


class StopMatcher:
    """Filters an event stream. The stop that is complete first wins (the longest, when several end together).

    After a match `matched` names the string, the text before it has been passed on, and of all later segments only
    the end of the matched one passes: the caller ends generation, finishes the parser and feeds the rest. A text segment
    that a stop string leaves empty never starts.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._text_index = -1
        self._start: SegmentStart | None = None
        self._held = ""
        self.matched: str | None = None

    def push(self, event: Event) -> list[Event]:
        """The events that may pass now."""
        if not self._stops:
            return [event]
        if self.matched is not None:
            return self._after_match(event)
        match event:
            case SegmentDelta() if event.index == self._text_index:
                return self._delta(event)
            case SegmentStart() if event.kind == "text":
                self._text_index, self._start = event.index, event
                return []
            case SegmentEnd() if event.index == self._text_index:
                held, self._held, self._text_index = self._held, "", -1
                return [*self._text(event.index, held), *self._opened(), event]
            case _:
                return [event]

    def _delta(self, event: SegmentDelta) -> list[Event]:
        text = self._held + event.text
        found = min(
            ((at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0),
            default=None,
        )
        if found is not None:
            _, at, self.matched = found
            self._held = ""
            return self._text(event.index, text[:at])
        keep = self._holdback(text)
        self._held = text[len(text) - keep :]
        return self._text(event.index, text[: len(text) - keep])

    def _text(self, index: int, text: str) -> list[Event]:
        return [*self._opened(), SegmentDelta(index, text)] if text else []

    def _opened(self) -> list[Event]:
        start, self._start = self._start, None
        return [start] if start is not None else []

    def _holdback(self, text: str) -> int:
        """Length of the longest suffix that may still grow into a stop string."""
        longest = 0
        for stop in self._stops:
            at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
            while at >= 0 and not stop.startswith(text[at:]):
                at = text.find(stop[0], at + 1)
            if at >= 0:
                longest = max(longest, len(text) - at)
        return longest

    def _after_match(self, event: Event) -> list[Event]:
        if isinstance(event, SegmentEnd) and event.index == self._text_index:
            self._text_index = -1
            return [SegmentEnd(event.index, "complete", event.tokens)] if self._start is None else []
        return [event] if isinstance(event, Anomaly | UsageUpdate | TurnMetadata | TurnEnd) else []
