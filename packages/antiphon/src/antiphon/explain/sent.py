"""Prompts that were sent, kept for comparison: the last one of each session, and the blocks of all."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock

import msgspec

from antiphon_turns import AssistantMessage, CallSegment, Segment, TurnRequest

BLOCK_TOKENS = 256
_ENTRY_BYTES = 2000


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt and what was sampled behind it. `model` names all that turns a request into ids: model, template, family.
    `reply` are the sampled segments, empty while the turn runs. `worker` served it."""

    request: TurnRequest
    model: str
    ids: Sequence[int]
    output_ids: Sequence[int] = ()
    reply: tuple[Segment, ...] = ()
    worker: str | None = None


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a prompt was sent before. `session`: tokens it shares with the session's previous prompt and its output
    (`previous`); `tenant`: with any prompt of the tenant, in whole blocks."""

    prompt_tokens: int
    session: int = 0
    tenant: int = 0
    previous: Sent | None = None

    @property
    def tokens(self) -> int:
        """Tokens that a cache without eviction would hold."""
        return max(self.session, self.tenant)


class SentPrompts:
    """What was sent, by session, bounded by bytes; and the chained block hashes of everything, bounded by number."""

    def __init__(self, max_bytes: int, *, max_blocks: int = 1 << 18) -> None:
        self._max = max_bytes
        self._max_blocks = max_blocks
        self._last: OrderedDict[tuple[str, str], tuple[Sent, int]] = OrderedDict()
        self._blocks: OrderedDict[bytes, None] = OrderedDict()
        self._lock = Lock()
        self.bytes = 0

    def expect(self, tenant: str, session: str, ids: Sequence[int]) -> Expectation:
        """What of a prompt was there before, by this tenant."""
        with self._lock:
            found = self._last.get((tenant, session))
            previous = found[0] if found else None
            held = 0
            for number, block in enumerate(block_hashes(tenant, ids), 1):
                if block not in self._blocks:
                    break
                held = number * BLOCK_TOKENS
        shared = 0
        if previous is not None:
            shared = common_prefix(ids, previous.ids)
            if shared == len(previous.ids):
                shared += common_prefix(ids[shared:], previous.output_ids)
        return Expectation(prompt_tokens=len(ids), session=shared, tenant=held, previous=previous)

    def add(self, tenant: str, session: str, sent: Sent) -> None:
        """Remembers a prompt with its output; it takes the place of the session's previous one."""
        sent = msgspec.structs.replace(sent, ids=array("I", sent.ids), output_ids=array("I", sent.output_ids))
        size = _size(sent)
        blocks = block_hashes(tenant, [*sent.ids, *sent.output_ids])
        with self._lock:
            key = tenant, session
            self.bytes -= self._last.pop(key, (None, 0))[1]
            if size <= self._max // 2:
                self._last[key] = sent, size
                self.bytes += size
            while self.bytes > self._max:
                self.bytes -= self._last.popitem(last=False)[1][1]
            for block in blocks:
                self._blocks[block] = None
                self._blocks.move_to_end(block)
            while len(self._blocks) > self._max_blocks:
                self._blocks.popitem(last=False)


def block_hashes(tenant: str, ids: Sequence[int]) -> list[bytes]:
    """Chained hashes of the whole blocks of a prompt; each stands for everything up to its end."""
    data = memoryview(array("I", ids)).cast("B")
    width = BLOCK_TOKENS * 4
    chain = blake2b(tenant.encode(), digest_size=16).digest()
    out = []
    for start in range(0, len(data) - width + 1, width):
        chain = blake2b(data[start : start + width], digest_size=16, key=chain).digest()
        out.append(chain)
    return out


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two sequences share from the beginning; linear, at the speed of a memory compare."""
    a, b = array("I", one), array("I", other)
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low if a[low : low + 1] != b[low : low + 1] else low + 1


def _size(sent: Sent) -> int:
    text = 0
    for message in sent.request.messages:
        if isinstance(message, AssistantMessage):
            text += sum(_length(segment) for segment in message.segments)
        else:
            text += len(message.text)
    text += sum(len(tool.parameters) + len(tool.description or "") for tool in sent.request.tools)
    return 4 * (len(sent.ids) + len(sent.output_ids)) + text + sum(map(_length, sent.reply)) + _ENTRY_BYTES


def _length(segment: Segment) -> int:
    return len(segment.arguments) if isinstance(segment, CallSegment) else len(segment.text)
