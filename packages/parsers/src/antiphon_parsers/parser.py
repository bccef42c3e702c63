"""The parser: sampled text in, turn events out, one pass."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon_parsers.engine.cursor import Cursor
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.prose import Prose
from antiphon_parsers.engine.record import Record
from antiphon_parsers.engine.snapshot import Given, freeze, thaw
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import ToolTable
from antiphon_parsers.grammar import Grammar
from antiphon_turns import Event, FinishReason, Frame, Opening, Tool
from antiphon_turns.errors import InternalError

SNAPSHOT_VERSION = 1


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parser between two deltas. `grammar` and `tools` are fingerprints of what it was constructed with; `objects` is what
    `engine.snapshot` makes of it."""

    version: int
    grammar: str
    tools: str
    objects: list[dict[str, Any]]


class Parser(Record):
    """Reads one turn. Whatever the model wrote, nothing raises (I8); the result does not depend on how the text was
    cut into deltas (I2). `turn_tag` goes into call ids."""

    __slots__ = ("_cursor", "_given", "_grammar", "_incomplete", "_out", "_received", "_state", "_tools")
    derived = ("_given",)

    def __init__(self, grammar: Grammar, *, tools: Sequence[Tool], opening: Opening, turn_tag: str) -> None:
        self._grammar = grammar
        self._tools = ToolTable(tools)
        self._cursor = Cursor()
        self._out = Emitter(turn_tag)
        self._received = 0
        self._incomplete = False
        self._given: Given | None = None
        reasoning = grammar.reasoning if opening.kind == "reasoning" else None
        if reasoning is not None:
            self._state: State = Prose("reasoning", grammar, self._tools, strip=reasoning.lead)
        else:
            self._state = Prose("text", grammar, self._tools, strip=grammar.start, first=True)
        if opening.kind == "rendered":
            self._read_opening(opening.text)
        if grammar.preface and (opening.kind != "rendered" or opening.text.rstrip().endswith(grammar.preface)):
            self._out.open("text")
            self._out.delta(grammar.preface)

    @classmethod
    def restore(cls, grammar: Grammar, *, tools: Sequence[Tool], snapshot: Mapping[str, Any]) -> "Parser":
        """The parser that `snapshot()` wrote down: fed with what follows, it says what that one would have said. InternalError
        when the snapshot is of another version, grammar or tools, or no snapshot."""
        try:
            found = msgspec.convert(snapshot, Snapshot)
        except msgspec.ValidationError as error:
            raise InternalError(f"this is no snapshot of a parser: {error}") from error
        given = Given(grammar, ToolTable(tools))
        if (found.version, found.grammar, found.tools) != (SNAPSHOT_VERSION, *given.fingerprints):
            raise InternalError("the snapshot is of another version, another grammar or other tools")
        parser = thaw(found.objects, given)
        if not isinstance(parser, cls):
            raise InternalError("this is no snapshot of a parser")
        parser._given = given
        return parser

    def snapshot(self) -> dict[str, Any]:
        """The parser as plain data (mappings, lists, text, numbers) that any encoding carries; it may be taken between any two
        calls, and taking it changes nothing. It holds what is needed to go on and nothing of the past beside: text and values
        that are held back (bounded by I7), the arguments so far of a call that is open, as CallReady repeats them, and white
        space that began a text. Grammar and tools are not in it: `restore` gets them again."""
        self._cursor.forget()
        self._out.forget(self._cursor.offset() - self._state.held)
        given = self._given = self._given or Given(self._grammar, self._tools)
        grammar, tools = given.fingerprints
        written = Snapshot(version=SNAPSHOT_VERSION, grammar=grammar, tools=tools, objects=freeze(self, given))
        plain: dict[str, Any] = msgspec.to_builtins(written)
        return plain

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
        cursor, out = self._cursor, self._out
        if cursor.finish is not None:
            raise InternalError("the turn has ended")
        if text and cursor.at == len(cursor.text):
            plain = self._state.plain(text, out)
            if plain is not None:
                self._received += len(text)
                cursor.pass_over(len(text))
                out.ledger.pass_over(len(ids))
                return out.say(plain)
        if ids:
            out.ledger.add(self._received, len(text), len(ids))
        if text:
            self._received += len(text)
            cursor.push(text)
            self._run()
        return out.take()

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
