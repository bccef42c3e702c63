"""The reader of a turn that is text and nothing else: legacy Completions. Every byte is shown, white space and markers too."""

from collections.abc import Sequence

from antiphon_turns import Event, FinishReason, SegmentDelta, SegmentEnd, SegmentStart


class PlainText:
    """Takes the place of the parser where there is nothing to parse."""

    in_reasoning = False
    incomplete = False

    def __init__(self) -> None:
        self._open = False
        self._tokens = 0

    def feed(self, text: str, ids: Sequence[int] = ()) -> list[Event]:
        """The text as events."""
        self._tokens += len(ids)
        if not text:
            return []
        opened, self._open = self._open, True
        delta = SegmentDelta(0, text)
        return [delta] if opened else [SegmentStart(0, "text"), delta]

    def finish(self, reason: FinishReason) -> list[Event]:
        """Closes the text."""
        return [SegmentEnd(0, "truncated" if reason == "length" else "complete", self._tokens)] if self._open else []
