"""The weights of the cost function (`policy.cheapest`), and what cached blocks are worth in it."""

import msgspec


class CostWeights(msgspec.Struct, frozen=True, kw_only=True):
    """`prefill_scale` weighs tokens to compute against tokens that decode: with 1, a worker that decodes one long conversation more would
    already be worth less than the whole cached prefix, which costs far more to compute than to read. Credits are the worth of a cached
    block by where it lies. `affinity`, in blocks of 16 tokens to compute, is taken off for the target a session belongs to."""

    prefill_scale: float = 8.0
    device_credit: float = 1.0
    host_credit: float = 0.75
    disk_credit: float = 0.25
    affinity: float = 8.0


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """Cached blocks of one prompt on one target, by where they lie."""

    device: int = 0
    host: int = 0
    disk: int = 0

    @property
    def blocks(self) -> int:
        """All of them."""
        return self.device + self.host + self.disk


def credit(overlap: Overlap, weights: CostWeights) -> float:
    """What the cached blocks are worth, in blocks."""
    return overlap.device * weights.device_credit + overlap.host * weights.host_credit + overlap.disk * weights.disk_credit
