"""What a worker would cost a prompt, in blocks; the least costly serves it. Source of the formula: design, section 9."""

from collections.abc import Mapping, Sequence

import msgspec


class CostWeights(msgspec.Struct, frozen=True, kw_only=True):
    """`prefill_scale` weighs blocks to compute against blocks that decode. Credits are the worth of a cached block by where
    it lies. `affinity` blocks are taken off for the worker a session belongs to."""

    prefill_scale: float = 1.0
    device_credit: float = 1.0
    host_credit: float = 0.75
    disk_credit: float = 0.25
    affinity: float = 8.0


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has to do already, in blocks: prompts not computed yet, and sequences that decode. `last_chosen`: when it was
    chosen last, any growing number; ties go to the one that waited longest."""

    prefill_blocks: float = 0.0
    decode_blocks: float = 0.0
    last_chosen: int = 0


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """Cached blocks of one prompt on one worker, by where they lie."""

    device: int = 0
    host: int = 0
    disk: int = 0


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen worker, what it cost, and how many blocks it holds already."""

    worker: str
    cost: float
    overlap_blocks: int
    costs: dict[str, float]


def cost(prompt_blocks: int, load: Load, overlap: Overlap, weights: CostWeights) -> float:
    """`prefill_scale * max(active_prefill + prompt - overlap_credit, 0) + active_decode + incoming`."""
    credit = overlap.device * weights.device_credit + overlap.host * weights.host_credit + overlap.disk * weights.disk_credit
    to_compute = max(load.prefill_blocks + prompt_blocks - credit, 0.0)
    return weights.prefill_scale * to_compute + load.decode_blocks + prompt_blocks


def decide(
    workers: Sequence[str],
    prompt_blocks: int,
    *,
    loads: Mapping[str, Load],
    overlaps: Mapping[str, Overlap],
    weights: CostWeights,
    home: str | None = None,
) -> Decision:
    """The least costly of `workers` (at least one). `home` is the session's worker, which gets its bonus."""
    idle, nothing = Load(), Overlap()
    costs = {}
    for worker in workers:
        found = cost(prompt_blocks, loads.get(worker, idle), overlaps.get(worker, nothing), weights)
        costs[worker] = found - weights.affinity if worker == home else found
    best = min(workers, key=lambda worker: (costs[worker], loads.get(worker, idle).last_chosen, worker))
    held = overlaps.get(best, nothing)
    return Decision(worker=best, cost=costs[best], overlap_blocks=held.device + held.host + held.disk, costs=costs)
