"""What a frontend and its KV listener say to each other over a socket pair: frames of a length, a kind and a body.

Changes of the index are the bulk, so they are packed: records of a source, a tier, an operation, a count and that many 64-bit hashes.
Everything else is msgpack."""

import struct
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from antiphon.router.feed import FeedState
from antiphon.router.feed_blocks import Change
from antiphon.workers.card import KvFeed

# A record is applied in one go, so it is small: about a tenth of a millisecond.
RECORD_HASHES = 1024
_FRAME_RECORDS = 64
Operation = Literal["clear", "store", "remove"]
_OPERATIONS: tuple[Operation, ...] = ("clear", "store", "remove")
_LENGTH = struct.Struct("<IB")
_RECORD = struct.Struct("<HBBI")
_CHANGES, _MESSAGE = 0, 1


class Follow(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Follow one publisher under this number. The same number again: the worker has a new card."""

    source: int
    target: str
    feed: KvFeed
    block_tokens: int | None
    incarnation: str


class Forget(msgspec.Struct, frozen=True, tag=True):
    """Follow it no longer."""

    source: int


class Load(msgspec.Struct, frozen=True, tag=True):
    """Go on from a sibling's snapshot, for the sources that nothing is known of yet."""

    snapshot: bytes


class Dump(msgspec.Struct, frozen=True, tag=True):
    """Make a snapshot."""


Command = Follow | Forget | Load | Dump


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How one publisher is followed. `blocks` lie on the device. `unanswered` counts replays that nobody answered; `unreadable`, messages
    that are no KV events; `skipped`, blocks that no prompt can be matched with."""

    source: int
    state: FeedState
    block_tokens: int | None
    blocks: int
    next_seq: int
    messages: int
    gaps: int
    lost: int
    restarts: int
    skipped: int
    unanswered: int
    unreadable: int


class Pulse(msgspec.Struct, frozen=True, tag=True):
    """Once in a while: CPU seconds of the listener so far."""

    cpu_seconds: float


class Warned(msgspec.Struct, frozen=True, tag=True):
    """For the log."""

    text: str


class Dumped(msgspec.Struct, frozen=True, tag=True):
    """The snapshot that was asked for."""

    snapshot: bytes


Report = SourceStatus | Pulse | Warned | Dumped


class Record(msgspec.Struct, frozen=True):
    """One operation on one tier of one source."""

    source: int
    tier: int
    operation: Operation
    hashes: list[int]


_encode = msgspec.msgpack.Encoder().encode
_read_report = msgspec.msgpack.Decoder(Report).decode
_read_command = msgspec.msgpack.Decoder(Command).decode


def message_frame(message: Command | Report) -> bytes:
    """One message as a frame."""
    body = _encode(message)
    return _LENGTH.pack(len(body), _MESSAGE) + body


def changes_frames(changes: Iterable[tuple[int, Change]]) -> Iterator[bytes]:
    """The changes of sources, in order, in frames that are small enough to be copied at once."""
    parts: list[bytes] = []
    for source, change in changes:
        for record in _records(source, change):
            parts.append(record)
            if len(parts) == _FRAME_RECORDS:
                yield _changes_frame(parts)
                parts = []
    if parts:
        yield _changes_frame(parts)


def _changes_frame(records: list[bytes]) -> bytes:
    body = b"".join(records)
    return _LENGTH.pack(len(body), _CHANGES) + body


def _records(source: int, change: Change) -> Iterator[bytes]:
    if change.cleared:
        yield _RECORD.pack(source, change.tier, 0, 0)
    for operation, hashes in ((1, change.stored), (2, change.removed)):
        for start in range(0, len(hashes), RECORD_HASHES):
            part = hashes[start : start + RECORD_HASHES]
            yield _RECORD.pack(source, change.tier, operation, len(part)) + struct.pack(f"<{len(part)}Q", *part)


class Frames:
    """Bytes as they come, cut into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._frames: deque[tuple[int, bytes]] = deque()
        self.waiting_bytes = 0

    def push(self, data: bytes) -> None:
        """More bytes."""
        buffer = self._buffer
        buffer += data
        place = 0
        while len(buffer) - place >= _LENGTH.size:
            length, kind = _LENGTH.unpack_from(buffer, place)
            end = place + _LENGTH.size + length
            if len(buffer) < end:
                break
            self._frames.append((kind, bytes(memoryview(buffer)[place + _LENGTH.size : end])))
            self.waiting_bytes += length
            place = end
        del buffer[:place]

    def reports(self) -> Iterator[Record | Report]:
        """What the listener said: one record at a time, so that the reader can stop behind each and go on with the same iterator."""
        while self._frames:
            kind, body = self._pop()
            if kind == _CHANGES:
                yield from _read_records(body)
            else:
                yield _read_report(body)

    def commands(self) -> Iterator[Command]:
        """What the frontend said."""
        while self._frames:
            yield _read_command(self._pop()[1])

    def _pop(self) -> tuple[int, bytes]:
        kind, body = self._frames.popleft()
        self.waiting_bytes -= len(body)
        return kind, body


def _read_records(body: bytes) -> Iterator[Record]:
    view, place = memoryview(body), 0
    while place < len(view):
        source, tier, operation, count = _RECORD.unpack_from(view, place)
        place += _RECORD.size
        end = place + 8 * count
        yield Record(source, tier, _OPERATIONS[operation], view[place:end].cast("Q").tolist())
        place = end
