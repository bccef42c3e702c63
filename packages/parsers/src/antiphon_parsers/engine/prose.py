"""Text and reasoning: everything outside call blocks.

==========  =========================  ===========================================================
in          marker                     what happens
==========  =========================  ===========================================================
text        reasoning opener           text ends, reasoning begins
text        reasoning closer           dropped, Anomaly
text        call opener                a call is attempted; refused, the marker is text
text        call closer                dropped, Anomaly; kept if an opener was refused before it (then an Anomaly
                                       unless that opener was only named in a sentence)
reasoning   reasoning closer           reasoning ends, text begins
reasoning   reasoning opener           dropped; Anomaly unless the block is still empty
reasoning   call opener                a call of a known tool is attempted; refused, it is reasoning
either      break                      the segment ends, text begins
==========  =========================  ===========================================================
"""

from functools import lru_cache
from typing import Literal

from antiphon_parsers.engine.cursor import Cursor, Found, MarkerSet, Peek, lines_before
from antiphon_parsers.engine.emitter import Emitter
from antiphon_parsers.engine.record import Record
from antiphon_parsers.engine.state import State
from antiphon_parsers.engine.tools import ToolTable
from antiphon_parsers.grammar import Grammar, ReasoningMarkers
from antiphon_turns import SegmentStatus

ProseKind = Literal["text", "reasoning"]
Refused = Literal["block", "mention"]
Action = Literal["open_reasoning", "close_reasoning", "repeat_opener", "attempt_call", "drop", "drop_closer", "break"]


class Transitions:
    """The markers that count in one kind of prose, and what each does."""

    def __init__(self, actions: dict[str, Action], *, newlines: int) -> None:
        self.actions = actions
        self.markers = MarkerSet(actions, newlines=newlines)


@lru_cache(maxsize=64)
def transitions(grammar: Grammar, kind: ProseKind) -> Transitions:
    """The table above for one grammar."""
    actions: dict[str, Action] = {}
    if grammar.calls is not None:
        if kind == "text":
            actions.update((marker, "drop_closer") for marker in grammar.calls.closers)
        actions.update((marker, "attempt_call") for marker in grammar.calls.openers)
    if grammar.reasoning is not None:
        text = kind == "text"
        openers, closers = grammar.reasoning.spellings
        if grammar.reasoning.opener and (text or not grammar.reasoning.words):
            actions.update((marker, "open_reasoning" if text else "repeat_opener") for marker in (grammar.reasoning.opener, *openers))
        if not text or not grammar.reasoning.words:
            actions.update((marker, "drop" if text else "close_reasoning") for marker in (grammar.reasoning.closer, *closers))
    actions.update((marker, "break") for marker in grammar.breaks if actions.get(marker) != "close_reasoning")
    tail = grammar.reasoning.tail if grammar.reasoning is not None and kind == "reasoning" else 0
    return Transitions(actions, newlines=max(tail, grammar.gap if grammar.calls is not None else 0))


REFUSED_LIMIT = 256
"""Refused openers whose closers are told from stray ones (a snapshot holds no more of the past)."""


class Prose(State):
    """Text or reasoning. `strip` line feeds are framing at its beginning; `first`: the turn begins here."""

    __slots__ = ("_blank", "_filled", "_first", "_ignored", "_last", "_refused", "_strip", "_table", "grammar", "kind", "tools")
    derived = ("_table",)

    def __init__(self, kind: ProseKind, grammar: Grammar, tools: ToolTable, *, strip: int = 0, first: bool = False) -> None:
        self.kind = kind
        self.grammar = grammar
        self.tools = tools
        self._strip = strip
        self._first = first
        self._blank: list[str] = []
        self._last = ""
        self._filled = False
        self._ignored = False
        self._refused: list[Refused] = []
        self.derive()

    def derive(self) -> None:
        self._table = transitions(self.grammar, self.kind)

    @property
    def in_reasoning(self) -> bool:
        return self.kind == "reasoning"

    def plain(self, text: str, out: Emitter) -> str | None:
        if self._strip or self._ignored or not self._filled or not out.is_open or self._table.markers.first.search(text):
            return None
        self._last = text[-1]
        return text

    def advance(self, cursor: Cursor, out: Emitter) -> State | None:
        if self._strip and not self._strip_framing(cursor):
            return None
        found = self._table.markers.find(cursor.text, cursor.at)
        if found is None:
            held = self._table.markers.held_from(cursor.text, cursor.at)
            cut = cursor.finish == "length" and self._is_cut_opener(cursor.text[held:])
            self._write(cursor, out, held if cut or cursor.finish is None else len(cursor.text))
            if cut:
                cursor.at = len(cursor.text)
            return None
        match self._table.actions[found.literal]:
            case "attempt_call":
                return self._attempt(cursor, out, found)
            case "close_reasoning":
                self._write(cursor, out, lines_before(cursor.text, cursor.at, found.start, self._markers.tail))
                return self._switch(cursor, out, "text", strip=self._markers.behind, found=found, end=found.end)
            case "open_reasoning" if self._markers.words and not self._begins_turn(cursor, found):
                self._write(cursor, out, found.end)
                return self
            case "open_reasoning":
                self._write(cursor, out, found.start)
                return self._switch(cursor, out, "reasoning", strip=self._markers.lead, found=found, end=found.start)
            case "break":
                self._write(cursor, out, found.start)
                return self._switch(cursor, out, "text", strip=0, found=found, end=found.end)
            case "repeat_opener":
                return self._repeat(cursor, out, found)
            case action:
                return self._drop(cursor, out, found, keep=action == "drop_closer" and bool(self._refused))

    def finish(self, cursor: Cursor, out: Emitter) -> bool:
        status: SegmentStatus = "truncated" if self.in_reasoning or cursor.finish != "stop" else "complete"
        out.close(status, cursor.offset())
        return self.in_reasoning

    def _is_cut_opener(self, held: str) -> bool:
        """Whether the limit struck within a call's opener. Of a single letter, and of what JSON and lists begin with, text is as likely."""
        tail = held.lstrip("\n")
        found = any(action == "attempt_call" and marker.startswith(tail) for marker, action in self._table.actions.items())
        return found and len(tail) > 1 and tail[0] not in "{["

    def _begins_turn(self, cursor: Cursor, found: Found) -> bool:
        return self.at_start and not cursor.text[cursor.at : found.start].strip()

    @property
    def at_start(self) -> bool:
        """Whether nothing but white space has come in the turn."""
        return self._first and not self._filled

    def leave(self, out: Emitter, end: int) -> None:
        """A call begins at the offset `end`: this segment is over."""
        self._blank = []
        if out.is_open:
            out.close("complete", end)

    def refuse(self, cursor: Cursor, out: Emitter, size: int, *, as_what: Refused | None) -> State:
        """An attempted call was none: the next `size` characters, its marker, are prose."""
        if size and as_what is not None:
            self._refused.append(as_what)
            del self._refused[:-REFUSED_LIMIT]
        self._strip = 0
        self._write(cursor, out, cursor.at + size)
        return self

    def drop_doubled(self, cursor: Cursor, out: Emitter, size: int, marker: str) -> State:
        """The same opener follows directly: the next `size` characters mean nothing."""
        cursor.at += size
        out.anomaly("stray_marker", marker)
        return self

    def after_call(self) -> "Prose":
        """The state behind a call block."""
        return Prose("text", self.grammar, self.tools, strip=self.grammar.gap)

    def enter(self, kind: ProseKind) -> "Prose":
        """The state behind a marker that names what follows it."""
        return Prose(kind, self.grammar, self.tools)

    @property
    def _markers(self) -> ReasoningMarkers:
        """The reasoning markers, one of which was found."""
        return self.grammar.reasoning or ReasoningMarkers("", "")

    def _strip_framing(self, cursor: Cursor) -> bool:
        while self._strip and cursor.text.startswith("\n", cursor.at):
            cursor.at += 1
            self._strip -= 1
        if cursor.at == len(cursor.text) and cursor.finish is None:
            return False
        self._strip = 0
        return True

    def _write(self, cursor: Cursor, out: Emitter, end: int) -> None:
        if end <= cursor.at:
            return
        text = cursor.text[cursor.at : end]
        prompted = cursor.prompt_end - cursor.offset()
        cursor.at = end
        self._last = text[-1]
        if not text.isspace():
            self._filled, self._ignored = True, False
        if prompted > 0:
            text = text[prompted:]
            if not text:
                return
        if not out.is_open:
            if text.isspace():
                self._blank.append(text)
                return
            out.open(self.kind)
            out.delta("".join(self._blank))
            self._blank = []
        out.delta(text)

    def _switch(self, cursor: Cursor, out: Emitter, kind: ProseKind, *, strip: int, found: Found, end: int) -> State:
        if out.is_open:
            out.close("complete", cursor.offset(end))
        cursor.at = found.end
        return Prose(kind, self.grammar, self.tools, strip=strip)

    def _repeat(self, cursor: Cursor, out: Emitter, found: Found) -> State:
        self._write(cursor, out, found.start)
        cursor.at = found.end
        if self._filled:
            out.anomaly("stray_marker", found.literal)
        else:
            self._strip = self._markers.lead
        return self

    def _drop(self, cursor: Cursor, out: Emitter, found: Found, *, keep: bool) -> State:
        self._write(cursor, out, found.start)
        if keep:
            self._write(cursor, out, found.end)
            if self._refused.pop() == "block":
                out.anomaly("malformed_tool_call", found.literal)
        else:
            cursor.at = found.end
            out.anomaly("stray_marker", found.literal)
        return self

    def _attempt(self, cursor: Cursor, out: Emitter, found: Found) -> State:
        calls = self.grammar.calls
        lead = lines_before(cursor.text, cursor.at, found.start, self.grammar.gap)
        self._write(cursor, out, lead)
        line_start = not self._ignored and (lead < found.start or not self._filled or self._last == "\n")
        if calls is None or (self.in_reasoning and calls.line_start_in_reasoning and not line_start):
            self._write(cursor, out, found.end)
            self._ignored = True  # what follows directly belongs to it
            return self
        return calls.attempt(Mention(self, found.literal, found.start - lead, line_start=line_start))


_BREAKS = " `'\"),.;:!?*"
"""What follows a marker that a sentence only names. A block begins with anything else, or at the start of a line."""


class Mention(Record):
    """A call opener in prose that may begin a call: `lead` characters of framing, then `marker`, from the cursor on."""

    __slots__ = ("lead", "line_start", "marker", "prose")

    def __init__(self, prose: Prose, marker: str, lead: int, *, line_start: bool) -> None:
        self.prose = prose
        self.marker = marker
        self.lead = lead
        self.line_start = line_start

    @property
    def size(self) -> int:
        """Characters up to the end of the marker."""
        return self.lead + len(self.marker)

    @property
    def tools(self) -> ToolTable:
        """The declared tools."""
        return self.prose.tools

    @property
    def starts_turn(self) -> bool:
        """Whether nothing stands before it in the turn."""
        return self.prose.at_start

    @property
    def only_known(self) -> bool:
        """Whether only a declared tool makes this a call."""
        return self.prose.in_reasoning

    def refuse(self, cursor: Cursor, out: Emitter, *, header: int = 0) -> State:
        """It was prose, and so are `header` characters behind the marker. The cursor must stand at the lead."""
        following = cursor.text[cursor.at + self.size : cursor.at + self.size + 1]
        mention = not self.line_start and following in _BREAKS
        return self.prose.refuse(cursor, out, self.size + header, as_what="mention" if mention else "block")

    def pass_over(self, cursor: Cursor, out: Emitter) -> State:
        """What stands here never means anything at such a place. The cursor must stand at the lead."""
        return self.prose.refuse(cursor, out, self.size, as_what=None)

    def doubled(self, cursor: Cursor, at: int) -> Found | Peek:
        """Whether the same opener follows at `at`, as it does when a block is opened twice."""
        return cursor.peek(at, (self.marker,)) if self.marker and self.line_start else Peek.ABSENT

    def decline(self, cursor: Cursor, out: Emitter) -> State | None:
        """No call follows: the marker is dropped when it stands there twice, else it is prose. None while undecided, as what
        follows also tells a block from a mention. The cursor must stand at the lead."""
        end = cursor.at + self.size
        doubled = self.doubled(cursor, end)
        if doubled is Peek.PENDING or (end == len(cursor.text) and cursor.finish is None):
            return None
        return self.drop(cursor, out) if isinstance(doubled, Found) else self.refuse(cursor, out)

    def drop(self, cursor: Cursor, out: Emitter) -> State:
        """It was doubled. The cursor must stand at the lead."""
        return self.prose.drop_doubled(cursor, out, self.size, self.marker)

    def is_named_only(self, cursor: Cursor) -> bool:
        """Given that no call stands behind the marker: whether the turn ended as a sentence does that only names it."""
        if cursor.finish != "stop" or self.line_start:
            return False
        behind = cursor.text[cursor.at + self.size :]
        return not behind.strip() or behind[0] in _BREAKS
