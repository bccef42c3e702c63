"""Block hashes of prompts: chained, so that a block's hash stands for everything up to its end."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

ROOT = 1337


def root_of(salt: str) -> int:
    """The hash before the first block. A salt (a tenant, where caches are not shared) makes every hash another one."""
    return xxh3_64_intdigest(salt.encode(), seed=ROOT) if salt else ROOT


def extend(ids: Sequence[int], parent: int, block_tokens: int) -> list[int]:
    """The hashes of the whole blocks of `ids` behind `parent`."""
    data = memoryview(ids if isinstance(ids, array) and ids.itemsize == 4 else array("I", ids)).cast("B")
    width = 4 * block_tokens
    out = []
    digest = xxh3_64_intdigest
    for start in range(0, len(data) - width + 1, width):
        parent = digest(data[start : start + width], seed=parent)
        out.append(parent)
    return out


class HashChains:
    """Hashes of prompts that begin like earlier ones: of a session's next prompt only the new blocks are hashed. Least recently
    used first out, bounded in tokens."""

    def __init__(self, block_tokens: int, *, max_tokens: int = 16_000_000) -> None:
        self._block = block_tokens
        self._max = max_tokens
        self._known: OrderedDict[str, tuple[array[int], list[int]]] = OrderedDict()
        self._tokens = 0

    def of(self, session: str, ids: Sequence[int], salt: str = "") -> list[int]:
        """The block hashes of a prompt. `session` only says which earlier prompt it most likely continues."""
        now = ids if isinstance(ids, array) and ids.itemsize == 4 else array("I", ids)
        key = f"{salt}\0{session}"
        before = self._known.pop(key, None)
        hashes: list[int] = []
        if before is not None:
            self._tokens -= len(before[0])
            hashes = before[1][: self._shared_blocks(before[0], now)]
        parent = hashes[-1] if hashes else root_of(salt)
        hashes = hashes + extend(now[len(hashes) * self._block :], parent, self._block)
        if len(now) <= self._max // 4:
            self._known[key] = now, hashes
            self._tokens += len(now)
            while self._tokens > self._max:
                self._tokens -= len(self._known.popitem(last=False)[1][0])
        return hashes

    def _shared_blocks(self, before: "array[int]", now: "array[int]") -> int:
        low, high = 0, min(len(before), len(now)) // self._block
        if before[: high * self._block] == now[: high * self._block]:
            return high
        while high - low > 1:
            middle = (low + high) // 2
            if before[low * self._block : middle * self._block] == now[low * self._block : middle * self._block]:
                low = middle
            else:
                high = middle
        return low
