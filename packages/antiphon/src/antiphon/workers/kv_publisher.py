"""Publishes the events of a worker's cache as vLLM does: PUB `[topic, number, payload]`, the number 8 bytes big endian from 0; a ROUTER
answers `[b"", number]` with `[b"", topic, number, payload]...` from that number on, as far as the ring goes back, and with number -1 at
the end. Source: measured vLLM 0.32 messages."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
import zmq

from antiphon.simulation.cache_events import CacheEvent, Cleared, Removed, Stored
from antiphon.simulation.kv_wire import WireForm, encode_batch
from antiphon.workers.card import KvFeed
from antiphon_turns.errors import ConfigError

# Blocks in one message: enough that a message costs little a block, few enough that a lost one is soon replayed.
MESSAGE_BLOCKS = 32
# vLLM keeps as many steps.
RING_MESSAGES = 10_000
# Messages that wait for one slow subscriber; what is dropped beyond it shows as a gap, and is replayed.
LIVE_QUEUE = 10_000
# Messages of a replay sent in one turn of the event loop.
REPLAY_SLICE = 256
END = (-1).to_bytes(8, "big", signed=True)


class PublishAt(msgspec.Struct, frozen=True, kw_only=True):
    """Where one data-parallel rank publishes. Port 0 takes a free one. `host` is where the sockets are bound; `advertised`, where given,
    the name that other machines know it by."""

    host: str = "127.0.0.1"
    advertised: str | None = None
    port: int = 0
    replay_port: int = 0
    topic: str = ""
    rank: int = 0


class KvPublisher:
    """`start` binds the sockets and answers replays on the running event loop; `close` frees them. To be used on that loop's thread only.
    `clock` gives Unix seconds."""

    def __init__(
        self,
        block_tokens: int,
        where: PublishAt | None = None,
        *,
        form: WireForm = "maps",
        ring_messages: int = RING_MESSAGES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._where = where or PublishAt()
        self._block_tokens = block_tokens
        self._topic = self._where.topic.encode()
        self._form: WireForm = form
        self._clock = clock
        self._ring: deque[tuple[int, bytes]] = deque(maxlen=ring_messages)
        self._asked: deque[tuple[bytes, Iterator[tuple[int, bytes]]]] = deque()
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self.next_seq = 0

    def start(self) -> None:
        """Raises ConfigError when a port cannot be had."""
        self._context = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self._replay = self._context.socket(zmq.ROUTER)
        self._pub.setsockopt(zmq.SNDHWM, LIVE_QUEUE)
        # A replay that loses messages in its middle is asked for again and again: the ring bounds what can wait here.
        self._replay.setsockopt(zmq.SNDHWM, 0)
        where = self._where
        try:
            self._events_port = self._bind(self._pub, where.port)
            self._replay_port = self._bind(self._replay, where.replay_port)
        except zmq.ZMQError as error:
            self._context.destroy(0)
            self._context = None
            raise ConfigError(
                f"KV events cannot be published on {where.host}, ports {where.port} and {where.replay_port}: {error}; choose others"
            ) from None
        asyncio.get_running_loop().add_reader(self._replay_fd(), self._answer)

    def close(self) -> None:
        """Nothing is published any more. Twice changes nothing."""
        if self._context is not None:
            asyncio.get_running_loop().remove_reader(self._replay_fd())
            self._asked.clear()
            self._context.destroy(0)
            self._context = None

    def feed(self) -> KvFeed:
        """Where the events are, for the worker's card. Only after `start`."""
        where = self._where
        host = _bracketed(where.advertised or where.host)
        events, replay = f"tcp://{host}:{self._events_port}", f"tcp://{host}:{self._replay_port}"
        return KvFeed(events=events, replay=replay, topic=where.topic, rank=where.rank)

    def publish(self, events: Sequence[CacheEvent]) -> None:
        """The events of one step leave together, about `MESSAGE_BLOCKS` blocks a message. Never waits."""
        for batch in _batches(events, self._block_tokens):
            payload = encode_batch(batch, block_tokens=self._block_tokens, at=self._clock(), rank=self._where.rank, form=self._form)
            self.send(payload)

    def send(self, payload: bytes) -> None:
        """One message that is encoded already. Never waits."""
        number = self.next_seq
        self.next_seq += 1
        self._ring.append((number, payload))
        if self._context is not None:
            self._pub.send_multipart([self._topic, number.to_bytes(8, "big"), payload], zmq.NOBLOCK)

    # -- inside ------------------------------------------------------------------------------------------------

    def _bind(self, socket: "zmq.Socket[bytes]", port: int) -> int:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.IPV6, int(":" in self._where.host))
        socket.bind(f"tcp://{_bracketed(self._where.host)}:{port or '*'}")
        address = socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(address, bytes)
        return int(address.rstrip(b"\0").rpartition(b":")[2])

    def _replay_fd(self) -> int:
        number = self._replay.getsockopt(zmq.FD)
        assert isinstance(number, int)
        return number

    def _answer(self) -> None:
        """Reads questions and sends a slice of the answers. The descriptor tells changes only, so everything that is there is read."""
        if self._context is None:
            return
        while True:
            try:
                frames = self._replay.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if len(frames) == 3 and len(frames[2]) == 8:
                start = int.from_bytes(frames[2], "big")
                self._asked.append((frames[0], iter([one for one in self._ring if one[0] >= start])))
        for _ in range(REPLAY_SLICE):
            if not self._asked:
                return
            who, messages = self._asked[0]
            number, payload = next(messages, (None, b""))
            if number is None:
                self._asked.popleft()
            self._replay.send_multipart([who, b"", self._topic, END if number is None else number.to_bytes(8, "big"), payload])
        asyncio.get_running_loop().call_soon(self._answer)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _batches(events: Iterable[CacheEvent], block_tokens: int) -> Iterator[list[CacheEvent]]:
    """Events in order, cut into messages."""
    batch: list[CacheEvent] = []
    room = MESSAGE_BLOCKS
    for event in events:
        for part in _parts(event, block_tokens):
            size = 1 if isinstance(part, Cleared) else len(part.hashes)
            if batch and size > room:
                yield batch
                batch, room = [], MESSAGE_BLOCKS
            batch.append(part)
            room -= size
    if batch:
        yield batch


def _parts(event: CacheEvent, block_tokens: int) -> Iterator[CacheEvent]:
    """An event in parts that fit a message."""
    if isinstance(event, Cleared) or len(event.hashes) <= MESSAGE_BLOCKS:
        yield event
        return
    for start in range(0, len(event.hashes), MESSAGE_BLOCKS):
        hashes = event.hashes[start : start + MESSAGE_BLOCKS]
        if isinstance(event, Removed):
            yield Removed(hashes)
            continue
        tokens = event.token_ids[start * block_tokens : (start + len(hashes)) * block_tokens]
        yield Stored(hashes, event.hashes[start - 1] if start else event.parent, tokens, event.salt)
