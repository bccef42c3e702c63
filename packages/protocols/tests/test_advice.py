"""Hints, routing, sessions and retention: the same on every surface, from the body and from headers, and refused by name."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from antiphon_protocols import chat, completions, messages, responses
from antiphon_turns import AgentHints, RoutingWish, TurnRequest
from antiphon_turns.errors import InvalidRequest, RequestError

Headers = dict[str, str]
USER = {"role": "user", "content": "hi"}


def _messages(headers: Headers, fields: dict[str, Any]) -> TurnRequest:
    return messages.ingest(json.dumps({"model": "m", "max_tokens": 9, "messages": [USER], **fields}).encode(), headers).turn


def _count(headers: Headers, fields: dict[str, Any]) -> TurnRequest:
    return messages.ingest_count(json.dumps({"model": "m", "messages": [USER], **fields}).encode(), headers)


def _chat(headers: Headers, fields: dict[str, Any]) -> TurnRequest:
    return chat.ingest(json.dumps({"model": "m", "messages": [USER], **fields}).encode(), headers).turn


def _completions(headers: Headers, fields: dict[str, Any]) -> TurnRequest:
    return completions.ingest(json.dumps({"model": "m", "prompt": ["a", "b"], **fields}).encode(), headers).turns[1]


def _responses(headers: Headers, fields: dict[str, Any]) -> TurnRequest:
    call = responses.read(json.dumps({"model": "m", "input": "hi", **fields}).encode(), headers)
    return responses.ingest(call, open_compaction=lambda text: None).turn


def _socket(headers: Headers, fields: dict[str, Any]) -> TurnRequest:
    return _responses(headers, {"type": "response.create", **fields})


Read = Callable[[Headers, dict[str, Any]], TurnRequest]
every_surface = pytest.mark.parametrize("read", [_messages, _count, _chat, _completions, _responses, _socket])
openai_surface = pytest.mark.parametrize("read", [_chat, _responses, _socket])


def nvext(**fields: Any) -> dict[str, Any]:
    return {"nvext": fields}


def hints(**fields: Any) -> dict[str, Any]:
    return nvext(agent_hints=fields)


FULL = {"priority": -3, "strict_priority": 2, "latency_sensitivity": 1.5, "osl": 900, "speculative_prefill": True}
FULL_HEADERS = {
    "x-dynamo-request-priority": "-3",
    "x-dynamo-request-strict-priority": "2",
    "x-antiphon-latency-sensitivity": "1.5",
    "x-antiphon-osl": "900",
    "x-antiphon-speculative-prefill": "True",
}


@every_surface
def test_hints_of_body_and_headers_mean_the_same(read: Read) -> None:
    wanted = AgentHints(priority=-3, strict_priority=2, latency_sensitivity=1.5, osl=900, speculative_prefill=True)
    assert read({}, hints(**FULL)).hints == wanted
    assert read(FULL_HEADERS, {}).hints == wanted
    assert read({}, {}).hints == read({}, nvext(agent_hints=None)).hints == AgentHints()
    other = hints(priority=9, strict_priority=9, latency_sensitivity=9, osl=9, speculative_prefill=False)
    assert read(FULL_HEADERS, other).hints == wanted
    off = {"x-antiphon-speculative-prefill": "false"}
    assert not read(off, hints(speculative_prefill=True)).hints.speculative_prefill


ROUTES: list[tuple[Headers, dict[str, Any], RoutingWish]] = [
    ({}, {}, RoutingWish()),
    ({"x-worker-instance-id": "gpu-1"}, {}, RoutingWish(worker="gpu-1")),
    ({}, nvext(backend_instance_id=7), RoutingWish(worker="7")),
    ({}, nvext(backend_instance_id=7, decode_worker_id="d"), RoutingWish(worker="d")),
    ({"x-worker-instance-id": "h"}, nvext(decode_worker_id="d"), RoutingWish(worker="h")),
    ({"x-dp-rank": "3"}, nvext(dp_rank=1), RoutingWish(rank=3)),
    ({"x-data-parallel-rank": "0"}, {}, RoutingWish(rank=0)),
    ({}, nvext(dp_rank=1), RoutingWish(rank=1)),
    ({"x-antiphon-router-mode": "round-robin"}, nvext(router_mode="kv"), RoutingWish(mode="round-robin")),
    ({}, nvext(router_mode="least-loaded"), RoutingWish(mode="least-loaded")),
]


@every_surface
@pytest.mark.parametrize(("headers", "fields", "wish"), ROUTES)
def test_where_a_turn_shall_run(read: Read, headers: Headers, fields: dict[str, Any], wish: RoutingWish) -> None:
    assert read(headers, fields).routing == wish


def control(**fields: Any) -> dict[str, Any]:
    return nvext(session_control=fields)


CC = {"x-claude-code-session-id": "S"}
SESSIONS: list[tuple[Headers, dict[str, Any], tuple[str | None, str | None, bool]]] = [
    ({}, {}, (None, None, False)),
    (CC, {}, ("S", None, False)),
    ({**CC, "x-claude-code-agent-id": "A"}, {}, ("A", "S", False)),
    ({**CC, "x-claude-code-agent-id": "A", "x-claude-code-parent-agent-id": "B"}, {}, ("A", "B", False)),
    ({"x-session-id": "c", "x-parent-session-id": "p"}, {}, ("c", "p", False)),
    ({"x-session-id": "c", "x-parent-session-id": "c"}, {}, ("c", None, False)),
    ({}, control(session_id="body"), ("body", None, False)),
    (CC, control(session_id="body", action="bind"), ("body", None, False)),
    ({**CC, "x-dynamo-session-id": "D"}, control(session_id="body"), ("D", None, False)),
    (CC, control(action="close"), ("S", None, True)),
    ({**CC, "x-dynamo-session-final": "true"}, {}, ("S", None, True)),
    ({**CC, "x-dynamo-session-final": "false"}, control(action="close"), ("S", None, False)),
    ({}, control(session_id="x" * 300, action="close"), ("x" * 256, None, True)),
    ({"x-parent-session-id": "x" * 300}, control(session_id="x" * 300), ("x" * 256, None, False)),
    ({"x-claude-code-agent-id": "a", "x-claude-code-session-id": "s" * 300}, {}, ("a", "s" * 256, False)),
]


@every_surface
@pytest.mark.parametrize(("headers", "fields", "wanted"), SESSIONS)
def test_one_session_with_parent_and_end(
    read: Read, headers: Headers, fields: dict[str, Any], wanted: tuple[str | None, str | None, bool]
) -> None:
    turn = read(headers, fields)
    assert (turn.session, turn.parent, turn.session_ends) == wanted


KEPT: list[tuple[dict[str, Any], float]] = [
    ({}, 0),
    (nvext(cache_control={}), 300),
    (nvext(cache_control={"type": "ephemeral", "ttl": "1h"}), 3600),
    (nvext(cache_control={"ttl": "90s"}), 90),
    (nvext(cache_control={"ttl": 12.5}), 12.5),
    (nvext(cache_control={"pin": True}), math.inf),
    (nvext(cache_control={"pin": False, "ttl": "2m"}), 120),
    (control(session_id="s", action="open"), 300),
    (control(session_id="s", action="open", timeout=40), 40),
    (control(session_id="s", action="bind", timeout=40), 0),
    (nvext(session_control={"session_id": "s", "action": "open"}, cache_control={"ttl": 1}), 300),
]


@every_surface
@pytest.mark.parametrize(("fields", "seconds"), KEPT)
def test_how_long_a_prompt_is_kept(read: Read, fields: dict[str, Any], seconds: float) -> None:
    assert read({}, fields).retain_seconds == seconds


MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h", "scope": "global"}
TOOL = {"name": "t", "input_schema": {"type": "object"}}
RESULT = {"type": "tool_result", "tool_use_id": "u", "content": [{"type": "text", "text": "r", "cache_control": HOUR}]}
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "t", "input": {}, "cache_control": MARK}]}
MARKED: list[tuple[dict[str, Any], float]] = [
    ({"cache_control": MARK}, 300),
    ({"system": [{"type": "text", "text": "s", "cache_control": HOUR}]}, 3600),
    ({"tools": [{**TOOL, "cache_control": MARK}]}, 300),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {**MARK, "ttl": "5m"}}]}]}, 300),
    ({"messages": [USER, CALL, {"role": "user", "content": [{**RESULT, "content": "r", "cache_control": HOUR}]}]}, 3600),
    ({"messages": [USER, CALL, {"role": "user", "content": [RESULT]}]}, 3600),
    ({"system": [{"type": "text", "text": "s", "cache_control": None}]}, 0),
    ({"cache_control": MARK, **nvext(cache_control={"ttl": 10})}, 300),
]


@pytest.mark.parametrize("read", [_messages, _count])
@pytest.mark.parametrize(("fields", "seconds"), MARKED)
def test_marks_of_messages(read: Read, fields: dict[str, Any], seconds: float) -> None:
    marked = read({}, fields)
    assert marked.retain_seconds == seconds
    assert marked.ignored == ()


@openai_surface
@pytest.mark.parametrize(("wish", "seconds"), [("24h", 86_400), ("in_memory", 0), ("in-memory", 0), (None, 0)])
def test_prompt_cache_retention(read: Read, wish: str | None, seconds: float) -> None:
    turn = read({}, {"prompt_cache_retention": wish})
    assert (turn.retain_seconds, turn.ignored) == (seconds, ())


BAD_HINTS: dict[str, tuple[Any, ...]] = {
    "priority": ("3", 1.5, True, [], {}, 1 << 31, -(1 << 31) - 1, 10**30),
    "strict_priority": ("3", 1.5, True, -1, 1 << 32),
    "latency_sensitivity": ("1", True, -0.1, []),
    "osl": ("9", 0.5, -1, 1 << 32),
    "speculative_prefill": (1, "true", []),
}
BAD_HEADERS: dict[str, tuple[str, ...]] = {
    "x-dynamo-request-priority": ("", "high", "1.0", "1_0", "9" * 13, str(1 << 31)),
    "x-dynamo-request-strict-priority": ("-1", "x", str(1 << 32)),
    "x-antiphon-latency-sensitivity": ("", "-1", "nan", "inf", "1e3"),
    "x-antiphon-osl": ("-1", "many"),
    "x-antiphon-speculative-prefill": ("", "yes"),
    "x-antiphon-router-mode": ("", "fastest"),
    "x-worker-instance-id": ("", " ", "w" * 257),
    "x-dp-rank": ("-1", "one", ""),
    "x-data-parallel-rank": ("-1",),
    "x-dynamo-session-final": ("maybe",),
}
BAD_LIVES: tuple[Any, ...] = ("", "5", "5 m", "-5m", "1d", 0, -1, True, [])
BAD: list[tuple[Headers, dict[str, Any], str]] = [
    *(({}, hints(**{name: value}), f"nvext.agent_hints.{name}") for name, values in BAD_HINTS.items() for value in values),
    *(({name: value}, {}, name) for name, values in BAD_HEADERS.items() for value in values),
    *(({}, nvext(cache_control={"ttl": ttl}), "nvext.cache_control.ttl") for ttl in BAD_LIVES),
    ({}, nvext(cache_control={"pin": 1}), "nvext.cache_control.pin"),
    ({}, nvext(agent_hints=[]), "nvext.agent_hints"),
    ({}, {"nvext": "priority"}, "nvext"),
    ({}, nvext(dp_rank=-1), "nvext.dp_rank"),
    ({}, nvext(dp_rank="0"), "nvext.dp_rank"),
    ({}, nvext(router_mode="fastest"), "nvext.router_mode"),
    ({}, nvext(backend_instance_id=-1), "nvext.backend_instance_id"),
    ({}, nvext(decode_worker_id=""), "nvext.decode_worker_id"),
    ({}, nvext(decode_worker_id=1.5), "nvext.decode_worker_id"),
    ({}, control(session_id=7), "nvext.session_control.session_id"),
    ({}, control(session_id=""), "nvext.session_control.session_id"),
    ({}, control(action="close"), "nvext.session_control.session_id"),
    ({}, control(session_id="s", action="pause"), "nvext.session_control.action"),
    ({}, control(session_id="s", timeout=0), "nvext.session_control.timeout"),
    ({}, control(session_id="s", timeout="5m"), "nvext.session_control.timeout"),
]


@every_surface
@pytest.mark.parametrize(("headers", "fields", "path"), BAD)
def test_what_cannot_be_is_refused_by_name(read: Read, headers: Headers, fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(headers, fields)
    assert refused.value.param == path and refused.value.message.startswith(f"{path}: ")


@openai_surface
@pytest.mark.parametrize("wish", ["48h", 24, True])
def test_retention_that_is_none_is_refused(read: Read, wish: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^prompt_cache_retention: "):
        read({}, {"prompt_cache_retention": wish})


@pytest.mark.parametrize("mark", [{"type": "ephemeral", "ttl": "2h"}, {"type": "forever"}, "ephemeral", {"type": "ephemeral", "ttl": 300}])
@pytest.mark.parametrize(
    ("place", "path"),
    [
        (lambda mark: {"cache_control": mark}, "cache_control"),
        (lambda mark: {"system": [{"type": "text", "text": "s", "cache_control": mark}]}, "system.0.cache_control"),
        (lambda mark: {"tools": [{**TOOL, "cache_control": mark}]}, "tools.0.cache_control"),
    ],
)
def test_marks_that_are_none_are_refused(mark: object, place: Callable[[object], dict[str, Any]], path: str) -> None:
    with pytest.raises(RequestError) as refused:
        _messages({}, place(mark))
    assert path.split(".")[0] in refused.value.message and "cache_control" in refused.value.message
