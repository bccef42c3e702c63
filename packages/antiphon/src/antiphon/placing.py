"""From a prompt to a job: what its request and the operator say about where and how urgently it runs, and how long it is kept."""

from typing import Literal

import msgspec

from antiphon.engines.base import Job, Placement
from antiphon.prompts import Prompt
from antiphon.tenant import ANYONE

CacheScope = Literal["shared", "tenant"]


class PlacingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator chose. `cache_scope`: who shares cached prefixes. `max_retain_seconds` bounds every wish to keep a prompt."""

    cache_scope: CacheScope = "shared"
    max_retain_seconds: float = 3600.0


def scope_of(chosen: Literal["auto", "shared", "tenant"], *, several_tenants: bool) -> CacheScope:
    """The scope that the operator chose. Where there are several tenants, what one has sent must not show in another's counters."""
    if chosen == "auto":
        return "tenant" if several_tenants else "shared"
    return chosen


def job_of(prompt: Prompt, *, request_id: str, max_tokens: int, stop_ids: frozenset[int], tenant: str, options: PlacingOptions) -> Job:
    """The job of a turn's first phase. Sessions are named with their tenant, so that nobody ends another's. With scope "tenant" the salt
    is the tenant's name too, so that nobody learns from the time to the first token what another one has sent."""
    request = prompt.request
    hints = request.hints
    return Job(
        request_id=request_id,
        prompt_ids=prompt.ids,
        max_tokens=max_tokens,
        sampling=request.sampling,
        stop_ids=stop_ids,
        priority=hints.priority,
        cache_salt=tenant if options.cache_scope == "tenant" else "",
        retain_seconds=0.0 if request.session_ends else min(request.retain_seconds, options.max_retain_seconds),
        placement=Placement(
            session=_of_tenant(request.session, tenant),
            parent=_of_tenant(request.parent, tenant),
            session_ends=request.session_ends,
            strict_priority=hints.strict_priority,
            head_start=hints.latency_sensitivity or 0.0,
            osl=hints.osl,
            wish=request.routing,
        ),
    )


def _of_tenant(session: str | None, tenant: str) -> str | None:
    return session if session is None or tenant == ANYONE else f"{tenant}/{session}"
