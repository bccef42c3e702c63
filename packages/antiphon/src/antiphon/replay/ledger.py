"""The ledger: sampled turns in memory, found again by what a client sends back. Bounded, local, best effort."""

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import msgspec

from antiphon_turns import CallSegment, Segment, TextSegment
from antiphon_turns.replay import TurnRecord

_ENTRY_BYTES = 800
"""What a record costs beside its ids and texts: keys, structs, dictionary slots."""


class Ledger:
    """Least recently used first out, bounded by bytes. Keys hold the tenant, so one tenant's turns never meet another's
    requests. Safe to share between threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._records: OrderedDict[bytes, tuple[TurnRecord, tuple[bytes, ...], int]] = OrderedDict()
        self._aliases: dict[bytes, bytes] = {}
        self._lock = Lock()
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._records)

    def put(self, tenant: str, before: Sequence[str], record: TurnRecord) -> None:
        """Keeps a turn under its tag, and under its visible text with each of the names of what stands `before` it, for surfaces that
        carry no ids of ours. A turn larger than an eighth of the bound is not kept."""
        record = msgspec.structs.replace(record, ids=array("I", record.ids))
        size = _size(record)
        if size > self._max // 8:
            return
        key = _tag_key(tenant, record.turn_tag)
        aliases = tuple(_text_key(tenant, name, record.segments) for name in before)
        with self._lock:
            self._forget(key)
            self._records[key] = record, aliases, size
            self._aliases.update(dict.fromkeys(aliases, key))
            self.bytes += size
            while self.bytes > self._max:
                self._forget(next(iter(self._records)))

    def by_tag(self, tenant: str, turn_tag: str) -> TurnRecord | None:
        """The turn of this tag, if it is still held."""
        return self._get(_tag_key(tenant, turn_tag))

    def by_text(self, tenant: str, before: Sequence[str], told: Sequence[Segment]) -> TurnRecord | None:
        """The turn that shows this text and these calls, by the first name of what stands `before` it that is known; the latest of
        several."""
        keys = (self._aliases.get(_text_key(tenant, name, told)) for name in before)
        return self._get(next((key for key in keys if key is not None), b""))

    def _get(self, key: bytes) -> TurnRecord | None:
        with self._lock:
            found = self._records.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._records.move_to_end(key)
            return found[0]

    def _forget(self, key: bytes) -> None:
        found = self._records.pop(key, None)
        if found is None:
            return
        self.bytes -= found[2]
        for alias in found[1]:
            if self._aliases.get(alias) == key:
                del self._aliases[alias]


def _size(record: TurnRecord) -> int:
    texts = sum(len(s.arguments) + len(s.name) if isinstance(s, CallSegment) else len(s.text) for s in record.segments)
    return 4 * len(record.ids) + 2 * texts + len(record.opening) + 100 * len(record.segments) + _ENTRY_BYTES


def _tag_key(tenant: str, turn_tag: str) -> bytes:
    return _digest("tag", tenant, turn_tag)


def _text_key(tenant: str, before: str, segments: Sequence[Segment]) -> bytes:
    """Reasoning is no part of it: a client may leave it out. Neither are arguments, which clients spell anew; names are. White space is
    none either: where a client leaves out what stood between two texts, they come back as one."""
    text = "".join("".join(segment.text.split()) for segment in segments if isinstance(segment, TextSegment))
    names = [segment.name for segment in segments if isinstance(segment, CallSegment) and segment.status != "truncated"]
    return _digest("text", tenant, before, text, *names)


def _digest(*parts: str) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "little") + data)
    return found.digest()
