"""The parser: sampled text in, turn events out, one pass."""

from collections.abc import Sequence

from antiphon_parsers.engine.cursor import Cursor
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Prose
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import ToolTable
from antiphon_parsers.grammar import Grammar
from antiphon_turns import Event, FinishReason, Frame, Opening, Tool
from antiphon_turns.errors import InternalError


class Parser:
    """Reads one turn. Whatever the model wrote, nothing raises (I8); the result does not depend on how the text was
    cut into deltas (I2). `turn_tag` goes into call ids."""

    def __init__(self, grammar: Grammar, *, tools: Sequence[Tool], opening: Opening, turn_tag: str) -> None:
        self._cursor = Cursor()
        self._out = Emitter(turn_tag)
        self._received = 0
        self._incomplete = False
        table = ToolTable(tools)
        reasoning = grammar.reasoning if opening.kind == "reasoning" else None
        if reasoning is not None:
            self._state: State = Prose("reasoning", grammar, table, strip=reasoning.lead)
        else:
            self._state = Prose("text", grammar, table, strip=grammar.start, first=True)
        if opening.kind == "rendered":
            self._read_opening(opening.text)
        if grammar.preface and (opening.kind != "rendered" or opening.text.rstrip().endswith(grammar.preface)):
            self._out.open("text")
            self._out.delta(grammar.preface)

    @property
    def in_reasoning(self) -> bool:
        """Whether the turn is inside reasoning."""
        return self._state.in_reasoning

    @property
    def incomplete(self) -> bool:
        """After `finish`: whether the text ended inside reasoning or a call."""
        return self._incomplete

    def feed(self, text: str, ids: Sequence[int] = ()) -> list[Event]:
        """Takes the next text, and the ids of the tokens that end in it (in order), for counting. Returns the events
        that are certain now. InternalError after `finish`."""
        if self._cursor.finish is not None:
            raise InternalError("the turn has ended")
        if ids:
            self._out.ledger.add(self._received, len(text), len(ids))
        if text:
            self._received += len(text)
            self._cursor.push(text)
            self._run()
        return self._out.take()

    def finish(self, reason: FinishReason) -> list[Event]:
        """The turn ended. Returns the last events; every segment is closed. InternalError when called again."""
        if self._cursor.finish is not None:
            raise InternalError("the turn has ended")
        self._cursor.finish = reason
        self._out.ledger.settle(self._received)
        self._run()
        self._incomplete = self._state.finish(self._cursor, self._out)
        return self._out.take()

    def _run(self) -> None:
        while (following := self._state.advance(self._cursor, self._out)) is not None:
            self._state = following

    def _read_opening(self, text: str) -> None:
        """Brings the machine into the state the prompt left (I11)."""
        self._received = self._cursor.prompt_end = len(text)
        self._cursor.push(text)
        self._run()
        self._out.restart()


def opening_of(prompt_tail: str, frame: Frame) -> Opening:
    """The opening that the end of a raw prompt leaves, for callers that have nothing but its text: what stands behind the
    last assistant header, or behind the last end of turn where no header follows it."""
    end = frame.end_of_turn
    start = max(frame.header_end(prompt_tail), 0) if frame.assistant_header else 0
    if end and end in prompt_tail[start:]:
        start = prompt_tail.rfind(end) + len(end)
    return Opening("rendered", prompt_tail[start:])
