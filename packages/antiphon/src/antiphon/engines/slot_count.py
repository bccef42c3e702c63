"""How many slots fit this machine. The engine takes the memory of every slot's whole context at start."""

import os

MOST_SLOTS = 4
# Of the memory, so that a model on a laptop leaves room for what its owner runs beside it.
MEMORY_SHARE = 16


def default_slots(kv_bytes_per_token: int | None, context_length: int, *, memory: int) -> int:
    """Slots for a model whose context takes so many bytes a token: as many as fit, at least 1. Unknown sizes get 1."""
    if not kv_bytes_per_token:
        return 1
    return max(1, min(MOST_SLOTS, memory // MEMORY_SHARE // (kv_bytes_per_token * context_length)))


def memory_bytes() -> int:
    """The machine's memory, 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
