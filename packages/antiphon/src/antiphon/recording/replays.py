"""Recordings as what others read: planned requests for `bench` and `simulate`, rules for the mock engine, bodies for `explain`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from antiphon.engines.mock_script import Finish, Rule
from antiphon.load.answers import SurfaceName
from antiphon.load.trace import PlannedRequest, Tree, read_trace, trees_of
from antiphon.recording.recorded import RecordedRequest, is_recording, read_recording
from antiphon_turns.errors import ConfigError

_ASKED: dict[str, SurfaceName] = {"messages": "messages", "chat": "chat", "responses": "responses"}


class _Line:
    """What is known of a session while its requests are read."""

    def __init__(self) -> None:
        self.turns = 0
        self.tokens = 0
        self.ends: list[float] = []


def trees_at(path: Path) -> list[Tree]:
    """The trees of a trace or of a recording. Raises ConfigError."""
    if not is_recording(path):
        return read_trace(path)
    requests = read_recording(path)
    trees = trees_of(planned(requests))
    if not trees:
        raise ConfigError(f"{path} holds no request that had a turn, so there is nothing to ask again")
    return trees


def planned(requests: Sequence[RecordedRequest]) -> list[PlannedRequest]:
    """What was asked, as it can be asked again: in the same sessions, with the same pauses and lengths, and with the bodies as they were
    where they were kept whole. Requests without a turn are left out, and those of a surface that `bench` does not speak. `requests` in
    the order in which they came."""
    asked = [request for request in requests if request.turns and request.surface in _ASKED]
    begin = min((request.at for request in asked), default=0.0)
    lines: dict[str, _Line] = {}
    return [_planned(request, lines, begin) for request in asked]


def _planned(request: RecordedRequest, lines: dict[str, _Line], begin: float) -> PlannedRequest:
    name = request.session or request.request_id or f"at-{request.at}"
    line = lines.setdefault(name, _Line())
    first = request.turns[0]
    parent = request.parent if request.parent in lines and request.parent != name else None
    turn, known, body = line.turns, lines[parent] if parent else None, whole_body(request)
    # What it was seen to wait for: the session's own turn before it, or its parent's.
    before = line.ends[-1] if line.ends else known.ends[-1] if known else request.at
    new = first.prompt_tokens - line.tokens
    head_tokens = round(first.prompt_tokens * request.head_share)
    line.turns += 1
    line.tokens = first.prompt_tokens + first.output_tokens
    line.ends.append(request.at + request.duration)
    return PlannedRequest(
        session=name,
        turn=turn,
        arrival=None if turn or known else round(request.at - begin, 6),
        pause=max(round(request.at - before, 6), 0.0),
        parent=parent,
        parent_turn=known.turns - 1 if known and turn == 0 else 0,
        share="head",
        kind=request.client,
        head=request.head,
        head_tokens=head_tokens,
        # A compaction, or an edited history, leaves less than there was; then all behind the head is new.
        new_tokens=max(new if turn and new > 0 else first.prompt_tokens - head_tokens, 1),
        output_tokens=max(request.output_tokens, 1),
        surface=_ASKED[request.surface] if body is not None else None,
        body=body,
    )


def whole_body(request: RecordedRequest) -> dict[str, Any] | None:
    """The body, where it was kept as it was."""
    if not bytes(request.body) or request.content != "full":
        return None
    value = msgspec.json.decode(request.body)
    return value if isinstance(value, dict) else None


def rules_of(path: Path) -> tuple[Rule, ...]:
    """Rules by which the mock engine says what the model said: each knows its prompt by the end of it. Raises ConfigError for a recording
    without content."""
    rules: dict[str, Rule] = {}
    for request in read_recording(path):
        for turn in request.turns:
            if turn.said is None or turn.prompt_end is None:
                raise ConfigError(f"{path} was recorded without content; the mock engine can only say what --record-content full has kept")
            finish: Finish = "length" if turn.stop_reason == "max_tokens" else "stop"
            rules.setdefault(turn.prompt_end, Rule(ends=turn.prompt_end, say=turn.said, finish=finish))
    return tuple(rules.values())


def two_bodies(path: Path, before: str | None, after: str | None, *, session: str | None = None) -> tuple[bytes, bytes, SurfaceName]:
    """The bodies of two recorded requests, by their ids, and their surface; without ids those of the latest request that follows another
    one of its session, or of this one. Raises ConfigError."""
    requests = [request for request in read_recording(path) if bytes(request.body) and request.surface in _ASKED]
    requests = [request for request in requests if session in (None, request.session)]
    first, second = _latest_pair(requests, path) if before is None and after is None else (_find(requests, before), _find(requests, after))
    if first.surface != second.surface:
        raise ConfigError(
            f"{first.request_id} came over {first.surface} and {second.request_id} over {second.surface}; compare one surface"
        )
    return bytes(first.body), bytes(second.body), _ASKED[first.surface]


def _find(requests: Sequence[RecordedRequest], request_id: str | None) -> RecordedRequest:
    if request_id is None:
        raise ConfigError("--before and --after belong together: with --recording two request ids")
    found = [request for request in requests if request.request_id == request_id]
    if not found:
        raise ConfigError(f"the recording has no body of a request {request_id}; ids are those of the access log, req_...")
    return found[-1]


def _latest_pair(requests: Sequence[RecordedRequest], path: Path) -> tuple[RecordedRequest, RecordedRequest]:
    for at in range(len(requests) - 1, -1, -1):
        after = requests[at]
        for before in reversed(requests[:at]):
            if after.session is not None and before.session == after.session and before.surface == after.surface:
                return before, after
    raise ConfigError(f"no session of {path} has two requests with bodies; name two requests with --before and --after")
