"""What a harness says beside the conversation: hints, a wish for a worker, its session, how long the prompt is worth keeping.

Read from `nvext` of the body and from headers, the same on every surface; a header wins over the body. Sources: `nvext` and the
`x-dynamo-*`, `x-worker-instance-id` and `x-dp-rank` headers of NVIDIA Dynamo 1.6. The `x-antiphon-*` headers are ours, for what has
no header there.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec

from antiphon_protocols import retention
from antiphon_protocols.body import invalid
from antiphon_protocols.nvext import Nvext, SessionControl, WireHints
from antiphon_protocols.sessions import CANONICAL_HEADER, MAX_LENGTH, parent_session_id, session_id
from antiphon_turns.hints import AgentHints, RouterMode, RoutingWish

PRIORITY_HEADER = "x-dynamo-request-priority"
STRICT_PRIORITY_HEADER = "x-dynamo-request-strict-priority"
SENSITIVITY_HEADER = "x-antiphon-latency-sensitivity"
OSL_HEADER = "x-antiphon-osl"
PREFILL_HEADER = "x-antiphon-speculative-prefill"
MODE_HEADER = "x-antiphon-router-mode"
WORKER_HEADER = "x-worker-instance-id"
RANK_HEADERS = ("x-dp-rank", "x-data-parallel-rank")
FINAL_HEADER = "x-dynamo-session-final"

OPEN_SECONDS = 300.0
"""How long an opened session is kept between its turns unless it says otherwise; the default of the format's origin."""

_HINTS = "nvext.agent_hints"
_INTEGER = re.compile(r"[+-]?[0-9]{1,12}")
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
_SWITCHES = {"true": True, "1": True, "false": False, "0": False}
_INT32, _UINT32 = 1 << 31, 1 << 32


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a `TurnRequest` that are no part of the conversation. `retain_seconds` may be infinite: as long as the server
    allows."""

    hints: AgentHints = AgentHints()
    routing: RoutingWish = RoutingWish()
    session: str | None = None
    parent: str | None = None
    session_ends: bool = False
    retain_seconds: float = 0.0

    def fields(self) -> dict[str, Any]:
        """By the names of `TurnRequest`."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


def read_advice(
    nvext: Nvext | None,
    headers: Mapping[str, str],
    *,
    user_id: str | None = None,
    prompt_cache_key: str | None = None,
    retain_seconds: float = 0.0,
) -> Advice:
    """The advice of one request; of several wishes to keep the prompt the longest counts, `retain_seconds` is the surface's own. Header
    names are in lower case; for the other fields see `session_id`. Raises InvalidRequest, naming the field or header at fault."""
    nvext = nvext or Nvext()
    control = nvext.session_control or SessionControl()
    session = headers.get(CANONICAL_HEADER) or _controlled(control)
    session = (session or session_id(headers, user_id=user_id, prompt_cache_key=prompt_cache_key) or "")[:MAX_LENGTH] or None
    if control.action is not None and session is None:
        raise invalid("nvext.session_control.session_id", "Field required, because nothing else in the request names the session")
    ends = _switch(headers, FINAL_HEADER)
    parent = parent_session_id(headers)
    return Advice(
        hints=agent_hints(nvext.agent_hints, headers),
        routing=routing_wish(nvext, headers),
        session=session,
        parent=None if parent == session else parent,
        session_ends=control.action == "close" if ends is None else ends,
        retain_seconds=max(retain_seconds, _open_seconds(control), retention.of_nvext(nvext.cache_control)),
    )


def agent_hints(wire: WireHints | None, headers: Mapping[str, str]) -> AgentHints:
    """Raises InvalidRequest for a value that cannot be."""
    wire = wire or WireHints()
    sensitivity = _number(headers, SENSITIVITY_HEADER, wire.latency_sensitivity, f"{_HINTS}.latency_sensitivity")
    prefill = _switch(headers, PREFILL_HEADER)
    return AgentHints(
        priority=_integer(headers, PRIORITY_HEADER, wire.priority, f"{_HINTS}.priority", low=-_INT32, high=_INT32 - 1) or 0,
        strict_priority=_integer(headers, STRICT_PRIORITY_HEADER, wire.strict_priority, f"{_HINTS}.strict_priority") or 0,
        latency_sensitivity=sensitivity,
        osl=_integer(headers, OSL_HEADER, wire.osl, f"{_HINTS}.osl"),
        speculative_prefill=bool(wire.speculative_prefill) if prefill is None else prefill,
    )


def routing_wish(nvext: Nvext, headers: Mapping[str, str]) -> RoutingWish:
    """Raises InvalidRequest for a mode that is none, a rank that is no number, and an empty name of a worker."""
    rank_header = next((name for name in RANK_HEADERS if name in headers), RANK_HEADERS[0])
    mode = headers.get(MODE_HEADER, nvext.router_mode)
    if mode is not None and mode not in get_args(RouterMode):
        raise invalid(MODE_HEADER, f"{mode[:80]!r} is not one of {', '.join(map(repr, get_args(RouterMode)))}")
    named = (
        (WORKER_HEADER, headers.get(WORKER_HEADER)),
        ("nvext.decode_worker_id", nvext.decode_worker_id),
        ("nvext.backend_instance_id", nvext.backend_instance_id),
    )
    path, worker = next(((path, value) for path, value in named if value is not None), ("", None))
    return RoutingWish(
        mode=cast("RouterMode | None", mode),
        worker=None if worker is None else _worker(worker, path),
        rank=_integer(headers, rank_header, nvext.dp_rank, "nvext.dp_rank"),
    )


def _worker(value: int | str, path: str) -> str:
    if isinstance(value, int) and value < 0:
        raise invalid(path, "must not be negative")
    name = str(value).strip()
    if not name or len(name) > MAX_LENGTH:
        raise invalid(path, f"must be the name of a worker, of 1 to {MAX_LENGTH} characters")
    return name


def _controlled(control: SessionControl) -> str | None:
    """The session that a body names outright."""
    if control.session_id == "":
        raise invalid("nvext.session_control.session_id", "must not be empty")
    return control.session_id


def _open_seconds(control: SessionControl) -> float:
    """An opened session is kept between its turns; a bound one only stays where it is."""
    timeout = control.timeout
    if timeout is not None and not 0 < timeout < math.inf:
        raise invalid("nvext.session_control.timeout", "must be a number of seconds greater than 0")
    return (timeout or OPEN_SECONDS) if control.action == "open" else 0.0


def _integer(
    headers: Mapping[str, str], header: str, default: int | None, path: str, *, low: int = 0, high: int = _UINT32 - 1
) -> int | None:
    text = headers.get(header)
    if text is not None:
        path, text = header, text.strip()
        if not _INTEGER.fullmatch(text):
            raise invalid(header, "must be an integer")
        default = int(text)
    if default is not None and default < low == 0:
        raise invalid(path, "must not be negative")
    if default is not None and not low <= default <= high:
        raise invalid(path, f"must be between {low} and {high}")
    return default


def _number(headers: Mapping[str, str], header: str, default: float | None, path: str) -> float | None:
    text = headers.get(header)
    if text is not None:
        path, text = header, text.strip()
        if not _NUMBER.fullmatch(text):
            raise invalid(header, "must be a number of seconds")
        default = float(text)
    if default is not None and not 0 <= default < math.inf:
        raise invalid(path, "must be a number of seconds, not negative")
    return default


def _switch(headers: Mapping[str, str], header: str) -> bool | None:
    text = headers.get(header)
    if text is None:
        return None
    found = _SWITCHES.get(text.strip().lower())
    if found is None:
        raise invalid(header, "must be 'true' or 'false'")
    return found
