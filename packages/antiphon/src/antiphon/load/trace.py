"""Planned requests, one JSON object a line: what a plan is made of, what a run records, and what can be asked again. docs/bench.md
describes the format."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon_turns.errors import ConfigError


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One request of a session. Times in seconds, lengths in tokens.

    `turn` counts from 0. `arrival`: not sent before this time from the beginning of the run; None on a first turn: when a place in
    the closed loop is free. `pause`: not sent before so long after the end of what it waits for, which is the session's turn before it, or
    for the first turn of a child its parent's turn `parent_turn`; and `waits_for` names sessions that must have ended. `share` says
    what of the parent's prompt the child begins with. `head` names system prompt and tools, `head_tokens` long. `new_tokens` come
    behind everything so far, as `text` where it is given; about `output_tokens` are to be answered. `final`: the session's last. With
    `body` the request is asked over `surface` with just that body, whatever the answers before it were.
    """

    session: str
    turn: int = 0
    arrival: float | None = None
    pause: float = 0.0
    parent: str | None = None
    parent_turn: int = 0
    share: Literal["history", "head"] = "history"
    waits_for: tuple[str, ...] = ()
    kind: str = ""
    priority: int = 0
    strict_priority: int = 0
    head: str = ""
    head_tokens: int = 0
    new_tokens: int
    output_tokens: int
    text: str | None = None
    surface: Literal["messages", "chat", "responses"] | None = None
    body: dict[str, Any] | None = None
    final: bool = False


Tree = tuple[PlannedRequest, ...]
"""A session and everything that descends from it; the requests of each session in order."""


def write_trace(path: Path, requests: Iterable[PlannedRequest]) -> None:
    """One line a request. Raises ConfigError where the file cannot be written."""
    try:
        with path.open("wb") as file:
            for request in requests:
                file.write(msgspec.json.encode(request) + b"\n")
    except OSError as error:
        raise ConfigError(f"cannot write the trace {path}: {error.strerror}") from error


def read_trace(path: Path) -> list[Tree]:
    """The trees of a trace, in the order of their first lines. Raises ConfigError naming the line at fault."""
    requests = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read the trace {path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            requests.append(msgspec.json.decode(line, type=PlannedRequest))
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path}, line {number}: {error}; docs/bench.md describes the format") from error
    try:
        return trees_of(requests)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def trees_of(requests: Iterable[PlannedRequest]) -> list[Tree]:
    """Requests by tree; the last of each session becomes its final one. Raises ValueError for turns out of order and for parents that are
    not there."""
    turns: dict[str, int] = {}
    root: dict[str, str] = {}
    trees: dict[str, list[PlannedRequest]] = {}
    for request in requests:
        name = request.session
        if request.turn != turns.get(name, 0):
            raise ValueError(f"session {name}: turn {request.turn} where turn {turns.get(name, 0)} is next")
        turns[name] = request.turn + 1
        if request.turn == 0:
            if request.parent is None:
                root[name] = name
            elif turns.get(request.parent, 0) <= request.parent_turn:
                raise ValueError(f"session {name}: its parent {request.parent} has no turn {request.parent_turn} before it")
            else:
                root[name] = root[request.parent]
        trees.setdefault(root[name], []).append(request)
    for tree in trees.values():
        last = {request.session: at for at, request in enumerate(tree)}
        for at in last.values():
            tree[at] = msgspec.structs.replace(tree[at], final=True)
        known = {request.session for request in tree}
        for request in tree:
            if missing := set(request.waits_for) - known:
                raise ValueError(f"session {request.session} waits for {min(missing)}, which is not among its relatives")
    return [tuple(tree) for tree in trees.values()]


def recorded(requests: Iterable[tuple[PlannedRequest, float, str | None]]) -> Iterator[PlannedRequest]:
    """What was really asked: (request, when it was sent, its text). Later turns keep their pauses, so that a slower server is not asked
    faster than it answers."""
    for request, sent, text in requests:
        arrival = sent if request.turn == 0 and request.parent is None else None
        yield msgspec.structs.replace(request, arrival=arrival, text=text)
