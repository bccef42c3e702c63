"""Agent hints: advice from the harness to router and engine. Source: `nvext.agent_hints` of NVIDIA Dynamo 1.6."""

from typing import Literal

import msgspec

RouterMode = Literal["kv", "round-robin", "random", "least-loaded", "power-of-two"]


class AgentHints(msgspec.Struct, frozen=True, kw_only=True):
    """`priority`: higher is more urgent, whatever sign the engine uses. `strict_priority`: router queue only.
    `latency_sensitivity`: seconds of head start. `osl`: expected output length in tokens.
    `speculative_prefill`: warm the predicted next prefix after this turn."""

    priority: int = 0
    strict_priority: int = 0
    latency_sensitivity: float | None = None
    osl: int | None = None
    speculative_prefill: bool = False


class RoutingWish(msgspec.Struct, frozen=True, kw_only=True):
    """Where a client wants its turn to run; None = as the server does it. `worker` is a worker's name, `rank` a data-parallel rank."""

    mode: RouterMode | None = None
    worker: str | None = None
    rank: int | None = None
