"""What a router is asked and what it answers, as plain data."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from antiphon.engines.base import Placement

Reason = Literal["cache", "load", "wish", "session", "round-robin", "random", "least-loaded", "power-of-two"]
"""Why a worker was chosen. cache: it holds most for its load. load: nobody holds anything. wish: the client named it. session: strict
affinity. The rest are modes."""

RefusedBecause = Literal["full", "nobody", "unfit", "optional"]
"""full: the queue is. nobody: no worker that could is there now. unfit: no worker there is could ever. optional: a job that does not
wait found nobody free."""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, as its card says. `batch_tokens`: prompt tokens it computes in a step; `ranks` data-parallel engines behind its name,
    each with a cache and a load of its own. `prioritizes`: its engine computes prompts of a higher priority first."""

    name: str
    block_tokens: int = 16
    batch_tokens: int = 8192
    cache_blocks: int | None = None
    ranks: int = 1
    constrains: bool = False
    prioritizes: bool = False


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Where should this job run? `key` is unique among the running and waiting ones. Either `ids`, or `hashes` by block size where
    somebody has them already. `exclude` names workers that must not get it. `arrival` in seconds of the router's clock. `optional`
    jobs do not wait, and give way to all others: without a free worker they are refused, and they are no load."""

    key: str
    prompt_tokens: int
    arrival: float
    ids: Sequence[int] = ()
    hashes: Mapping[int, Sequence[int]] = {}
    salt: str = ""
    placement: Placement = Placement()
    priority: int = 0
    exclude: frozenset[str] = frozenset()
    needs_grammar: bool = False
    optional: bool = False


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """It runs on this worker (and rank) and counts as its load from now on, until `Router.done`. `cached_tokens` is what the router
    expects the worker to hold of the prompt; `waited` in seconds."""

    key: str
    worker: str
    rank: int
    reason: Reason
    cached_tokens: int = 0
    waited: float = 0.0


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """It waits; its placement comes out of a later call. `ahead`: how many waited already."""

    key: str
    ahead: int


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """It does not run. `message` says why; `retry_after` in seconds."""

    key: str
    because: RefusedBecause
    message: str
    retry_after: float = 1.0


Answer = Placed | Queued | Refused
Released = Placed | Refused
"""What becomes of asks that waited."""


class TargetLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What the router has sent to one rank of one worker. Tokens: prompts not computed yet, and sequences that decode."""

    worker: str
    rank: int
    available: bool
    active: int
    prefill_tokens: int
    decode_tokens: int
