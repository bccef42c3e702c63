"""Patterns for one line of text, matched in time linear in the line whatever the pattern: prompts are long and come from clients, so a
pattern of the operator's must not be able to stall the server.

The language is the common part of regular expressions: characters, escapes, classes, `.`, groups, `|`, `*`, `+`, `?`, `{n}`, `{n,}`,
`{n,m}`. What would need backtracking (backreferences, lookarounds, lazy and possessive counts) is refused. A pattern becomes a state
machine that is built while it reads; `re` is asked about single characters only.
"""

import re
import warnings
from collections.abc import Iterable

import msgspec

from antiphon_turns.errors import ConfigError

MAX_PATTERN = 1000
MAX_STATES = 600
MAX_DEPTH = 16
# Steps the machine remembers before it starts anew; texts in all scripts of the world must not fill the memory.
MAX_STEPS = 20_000

_COUNT = re.compile(r"\{(\d{1,4})(?:(,)(\d{1,4})?)?\}")
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[dDwWsStfvr]|[^A-Za-z0-9])")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")


class _One(msgspec.Struct, frozen=True):
    """One character, of those the source of the atom stands for."""

    atom: str


class _Sequence(msgspec.Struct, frozen=True):
    parts: tuple["_Node", ...]


class _Choice(msgspec.Struct, frozen=True):
    options: tuple["_Node", ...]


class _Repeat(msgspec.Struct, frozen=True):
    """At least `low` times, at most `high`; None = without end."""

    what: "_Node"
    low: int
    high: int | None


_Node = _One | _Sequence | _Choice | _Repeat


class _Reader:
    """Reads a pattern's source."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    def whole(self) -> _Node:
        node = self._choice(0)
        if self._at < len(self._source):
            raise self._error("a ) without its (")
        return node

    def _choice(self, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise self._error(f"groups are nested more than {MAX_DEPTH} deep")
        options = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _sequence(self, depth: int) -> _Node:
        parts: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._counted(self._atom(depth)))
        return parts[0] if len(parts) == 1 else _Sequence(tuple(parts))

    def _atom(self, depth: int) -> _Node:
        char = self._peek()
        if char == "(":
            return self._group(depth)
        if char in "*+?":
            raise self._error(f"nothing stands before {char}")
        if char in "^$":
            raise self._error(f"the pattern is for a whole line and needs no {char}; write \\{char} for the character")
        if char == "{" and _COUNT.match(self._source, self._at):
            raise self._error("nothing stands before the count")
        found = {"\\": _ESCAPE, "[": _CLASS}.get(char)
        if found is None:
            self._at += 1
            return _One(char if char == "." else re.escape(char))
        match = found.match(self._source, self._at)
        if match is None:
            raise self._error(
                "an escape that is not known here (backreferences and anchors are not)" if char == "\\" else "a [ without its ]"
            )
        self._check(match.group())
        self._at = match.end()
        return _One(match.group())

    def _group(self, depth: int) -> _Node:
        self._at += 3 if self._source.startswith("(?:", self._at) else 1
        if self._peek() == "?":
            raise self._error("only plain groups are known, ( ) and (?: )")
        node = self._choice(depth + 1)
        if self._peek() != ")":
            raise self._error("a ( without its )")
        self._at += 1
        return node

    def _counted(self, what: _Node) -> _Node:
        char = self._peek()
        count = _COUNT.match(self._source, self._at) if char == "{" else None
        if count is not None:
            low = int(count[1])
            high = low if count[2] is None else int(count[3]) if count[3] else None
            self._at = count.end()
        elif char and char in "*+?":
            low, high = int(char == "+"), 1 if char == "?" else None
            self._at += 1
        else:
            return what
        if high is not None and high < low:
            raise self._error("the count ends below its beginning")
        if self._peek() and self._peek() in "*+?":
            raise self._error("a count of a count; lazy and possessive counts are not known here")
        return _Repeat(what, low, high)

    def _check(self, atom: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            try:
                re.compile(atom)
            except (re.error, FutureWarning) as error:
                raise self._error(str(error)) from None

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _error(self, what: str) -> ConfigError:
        return ConfigError(f"pattern {self._source!r}, character {self._at + 1}: {what}")


class _Machine:
    """States with edges that take nothing (`free`) and at most one edge that takes a character (`taking`)."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.free: list[list[int]] = []
        self.taking: list[tuple[str, int] | None] = []

    def build(self, node: _Node, start: int) -> int:
        """Adds a node behind `start`; returns its end."""
        if isinstance(node, _One):
            end = self.new()
            self.taking[start] = node.atom, end
            return end
        if isinstance(node, _Sequence):
            for part in node.parts:
                start = self.build(part, start)
            return start
        if isinstance(node, _Choice):
            return self._join(self.build(option, self._behind(start)) for option in node.options)
        for _ in range(node.low):
            start = self.build(node.what, start)
        return self._endless(node.what, start) if node.high is None else self._optional(node.what, start, node.high - node.low)

    def _endless(self, what: _Node, start: int) -> int:
        loop, end = self._behind(start), self.new()
        self.free[self.build(what, self._behind(loop))].append(loop)
        self.free[loop].append(end)
        return end

    def _optional(self, what: _Node, start: int, times: int) -> int:
        ends = [start]
        for _ in range(times):
            ends.append(self.build(what, self._behind(ends[-1])))
        return self._join(ends)

    def _behind(self, state: int) -> int:
        new = self.new()
        self.free[state].append(new)
        return new

    def _join(self, ends: Iterable[int]) -> int:
        found = list(ends)
        end = self.new()
        for state in found:
            self.free[state].append(end)
        return end

    def new(self) -> int:
        if len(self.free) >= MAX_STATES:
            raise ConfigError(f"pattern {self._source!r} is too large: its counts make more than {MAX_STATES} states")
        self.free.append([])
        self.taking.append(None)
        return len(self.free) - 1


class _Set:
    """The states a machine may be in at one place of a line, and where each character that was met leads."""

    __slots__ = ("accepts", "states", "steps")

    def __init__(self, states: frozenset[int], *, accepts: bool) -> None:
        self.states = states
        self.accepts = accepts
        self.steps: dict[str, _Set] = {}


class LinePattern:
    """A compiled pattern. Safe to use from several threads. Raises ConfigError for what is no pattern of this language."""

    def __init__(self, source: str) -> None:
        if len(source) > MAX_PATTERN:
            raise ConfigError(f"pattern {source[:40]!r}... is longer than {MAX_PATTERN} characters")
        if "\n" in source or "\r" in source:
            raise ConfigError(f"pattern {source!r} holds a line end; it is for one line")
        self.source = source
        self._machine = _Machine(source)
        self._begin = self._machine.new()
        self._end = self._machine.build(_Reader(source).whole(), self._begin)
        self._tests = {edge[0]: re.compile(edge[0]) for edge in self._machine.taking if edge is not None}
        self._reset()

    def matches(self, line: str) -> bool:
        """Whether the whole line, which holds no line end, is of this form."""
        at = self._start
        for char in line:
            step = at.steps.get(char)
            if step is None:
                step = self._step(at, char)
            if not step.states:
                return False
            at = step
        return at.accepts

    def _reset(self) -> None:
        self._sets: dict[frozenset[int], _Set] = {}
        self._made = 0
        self._start = self._set((self._begin,))

    def _step(self, at: _Set, char: str) -> _Set:
        edges = (self._machine.taking[state] for state in at.states)
        found = self._set(edge[1] for edge in edges if edge is not None and self._tests[edge[0]].fullmatch(char))
        at.steps[char] = found
        self._made += 1
        if self._made > MAX_STEPS:
            self._reset()
        return found

    def _set(self, states: Iterable[int]) -> _Set:
        """The states and all that can be reached from them without a character."""
        reached: set[int] = set()
        todo = list(states)
        while todo:
            state = todo.pop()
            if state not in reached:
                reached.add(state)
                todo += self._machine.free[state]
        key = frozenset(reached)
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = _Set(key, accepts=self._end in key)
        return found
