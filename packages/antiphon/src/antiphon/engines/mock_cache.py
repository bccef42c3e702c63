"""Which prefixes the mock engine has seen: hashes of whole blocks, each chained to the one before, the oldest forgotten first."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

BLOCK_TOKENS = 16
BLOCKS_KEPT = 1 << 16


class PrefixCache:
    """Remembers token ids by blocks, as an engine's KV cache does; nothing is stored but the hashes."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def match(self, token_ids: Sequence[int]) -> int:
        """How many leading tokens are remembered, whole blocks only, and never all: the last token is always computed."""
        found = 0
        for block in _chain(token_ids[:-1]):
            if block not in self._blocks:
                break
            self._blocks.move_to_end(block)
            found += BLOCK_TOKENS
        return found

    def hold(self, token_ids: Sequence[int]) -> None:
        """Remembers every whole block."""
        for block in _chain(token_ids):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > BLOCKS_KEPT:
            self._blocks.popitem(last=False)


def _chain(token_ids: Sequence[int]) -> Iterator[int]:
    last = 0
    for at in range(0, len(token_ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        last = hash((last, *token_ids[at : at + BLOCK_TOKENS]))
        yield last
