"""Probabilities of sampled tokens, brought to the visible text they belong to."""

from antiphon_turns import Event, SampledLogprob, SegmentDelta, SegmentStart, TokenLogprobs


class LogprobAligner:
    """Puts a `TokenLogprobs` in front of each text delta: the tokens whose text the delta shows.

    Parser and stop matcher hold text back and drop framing, so tokens wait here until a delta spells them. One whose text does not come
    next in the delta was a marker or framing and is forgotten; one that reaches beyond the delta counts for the delta it begins in.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[str, SampledLogprob | None]] = []
        self._text_index = -1
        self._debt = ""

    def add(self, text: str, logprob: SampledLogprob | None) -> None:
        """A token was sampled; `text` is what it added to the turn's text."""
        self._waiting.append((text, logprob))

    def align(self, events: list[Event]) -> list[Event]:
        """The events that followed from the tokens added so far, with the probabilities put in."""
        out: list[Event] = []
        for event in events:
            if isinstance(event, SegmentStart):
                self._text_index = event.index if event.kind == "text" else -1
            elif isinstance(event, SegmentDelta):
                found = self._spelled(event.text) if event.index == self._text_index else ()
                if found:
                    out.append(TokenLogprobs(found))
            out.append(event)
        if self._text_index < 0:
            # Reasoning or a call: whatever was sampled is no text. The latest token may still begin one.
            del self._waiting[:-1]
        return out

    def _spelled(self, text: str) -> tuple[SampledLogprob, ...]:
        if self._debt and (text.startswith(self._debt) or self._debt.startswith(text)):
            text, self._debt = text[len(self._debt) :], self._debt[len(text) :]
        else:
            self._debt = ""
        found: list[SampledLogprob] = []
        used = 0
        for piece, logprob in self._waiting:
            if not text and piece:
                break
            used += 1
            if text.startswith(piece):
                text = text[len(piece) :]
            elif piece.startswith(text):
                text, self._debt = "", piece[len(text) :]
            else:
                continue
            if logprob is not None:
                found.append(logprob)
        del self._waiting[:used]
        return tuple(found)
