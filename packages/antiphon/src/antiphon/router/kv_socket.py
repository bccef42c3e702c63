"""One publisher of KV events by its sockets: SUB for what comes live, DEALER for replays.

Formats (vLLM; SGLang and our own workers speak the same): live `[topic, number, payload]`, the number 8 bytes big endian from 0; a replay
is asked for with `[b"", number]` and answered with `[b"", (topic,) number, payload]...` up to number -1."""

from collections.abc import Callable

import zmq

from antiphon.router.feed import WorkerFeed
from antiphon.router.kv_events import EventBatch, read_batch
from antiphon.workers.card import KvFeed

END = b"\xff" * 8
# A full live queue drops messages; that shows as a gap, which a replay mends. So memory stays bounded (about 3 KB a message).
LIVE_QUEUE = 20_000
# Messages taken from one publisher before the others have their turn.
TURN_MESSAGES = 64
REPLY_SECONDS = 3.0
# While nothing comes live the end of what is known is compared with the engine's, soon after the beginning and then now and then.
FIRST_AUDIT_SECONDS = 0.5
AUDIT_SECONDS = 5.0


class PublisherSocket:
    """Drives a `WorkerFeed`. Times are those of the given `now`, in seconds. Raises nothing: trouble is warned of and tried again."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", poller: zmq.Poller, address: KvFeed, feed: WorkerFeed) -> None:
        self.address = address
        self.feed = feed
        self.unanswered = 0
        self.unreadable = 0
        self.dirty = True
        self._context = context
        self._poller = poller
        self._live: zmq.Socket[bytes] | None = None
        self._replay: zmq.Socket[bytes] | None = None
        self._reply_by: float | None = None
        self._audit_at = 0.0
        self._audit_gap = FIRST_AUDIT_SECONDS
        self._said: set[str] = set()

    def open(self, now: float, warn: Callable[[str], None]) -> None:
        """Connects or binds, and asks for everything from the feed's mark on."""
        self._warn = warn
        self._listen()
        self._audit(now)

    def close(self) -> None:
        """Frees the sockets."""
        for socket in (self._live, self._replay):
            if socket is not None:
                self._drop(socket)
        self._live = self._replay = None

    def sockets(self) -> list["zmq.Socket[bytes]"]:
        """Those that may become readable."""
        return [socket for socket in (self._live, self._replay) if socket is not None]

    def restart(self, now: float) -> None:
        """The worker is known to be a new one."""
        self.feed.restart()
        self._ask(now)

    def read(self, socket: "zmq.Socket[bytes]", now: float) -> None:
        """Takes what is readable, up to a turn's worth."""
        for _ in range(TURN_MESSAGES):
            if socket is self._live and self.feed.wanted is not None:
                return
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.dirty = True
            if socket is self._live:
                self._audit_at = now + AUDIT_SECONDS
                self._take_live(frames, now)
            else:
                self._take_replayed(frames, now)

    def due(self) -> float:
        """When `tick` has something to do."""
        return self._audit_at if self._reply_by is None else self._reply_by

    def tick(self, now: float) -> None:
        """What the time asks for: a replay that nobody answered is given up, an idle feed is compared."""
        if now < self.due():
            return
        self.dirty = True
        if self._reply_by is None:
            self._listen()
            self._audit(now)
            return
        self.unanswered += 1
        self._reply_by = None
        if self._replay is not None:
            # A late answer must not be taken for that of the next question.
            self._drop(self._replay)
            self._replay = None
        self.feed.replay_failed()
        self._ask(now)

    # -- inside ------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if self._live is not None:
            return
        socket = self._context.socket(zmq.SUB)
        socket.setsockopt(zmq.RCVHWM, LIVE_QUEUE)
        socket.setsockopt(zmq.SUBSCRIBE, self.address.topic.encode())
        if self._attach(socket, self.address.events, bind=self.address.bind):
            self._live = socket
            if self.feed.wanted is None:
                self._poller.register(socket, zmq.POLLIN)

    def _attach(self, socket: "zmq.Socket[bytes]", address: str, *, bind: bool) -> bool:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5000)
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
        socket.setsockopt(zmq.IPV6, int("[" in address))
        try:
            if bind:
                socket.bind(address)
            else:
                socket.connect(address)
        except zmq.ZMQError as error:
            socket.close(0)
            self._say(f"worker {self.feed.name}: KV events at {address} cannot be followed ({error}); check the address")
            return False
        return True

    def _drop(self, socket: "zmq.Socket[bytes]") -> None:
        if socket in self._poller:
            self._poller.unregister(socket)
        socket.close(0)

    def _audit(self, now: float) -> None:
        self._audit_at = now + self._audit_gap
        self._audit_gap = AUDIT_SECONDS
        self.feed.audit()
        self._ask(now)

    def _ask(self, now: float) -> None:
        """Asks for what the feed wants, and lets live messages wait in their queue until that has come."""
        wanted = self.feed.wanted
        if wanted is None:
            if self._live is not None and self._live not in self._poller:
                self._poller.register(self._live, zmq.POLLIN)
            return
        if self._live is not None and self._live in self._poller:
            self._poller.unregister(self._live)
        self._reply_by = now + REPLY_SECONDS
        if self._replay is None and not self._connect_replay():
            return
        assert self._replay is not None
        self._replay.send_multipart([b"", wanted.to_bytes(8, "big")])

    def _connect_replay(self) -> bool:
        if self.address.replay is None:
            return False
        socket = self._context.socket(zmq.DEALER)
        # What is asked for is wanted whole.
        socket.setsockopt(zmq.RCVHWM, 0)
        if not self._attach(socket, self.address.replay, bind=False):
            return False
        self._poller.register(socket, zmq.POLLIN)
        self._replay = socket
        return True

    def _take_live(self, frames: list[bytes], now: float) -> None:
        if len(frames) != 3 or len(frames[1]) != 8:
            self._unreadable("not [topic, number, payload]")
            return
        self.feed.receive(int.from_bytes(frames[1], "big"), self._batch(frames[2]))
        if self.feed.wanted is not None:
            self._ask(now)

    def _take_replayed(self, frames: list[bytes], now: float) -> None:
        if self._reply_by is None or len(frames) < 3 or len(frames[-2]) != 8:
            self._unreadable("not [number, payload] in a replay")
            return
        self._reply_by = now + REPLY_SECONDS
        if frames[-2] != END:
            self.feed.replayed(int.from_bytes(frames[-2], "big"), self._batch(frames[-1]))
            return
        self._reply_by = None
        self.feed.replay_ended()
        self._ask(now)

    def _batch(self, payload: bytes) -> EventBatch:
        try:
            return read_batch(payload)
        except ValueError as error:
            self._unreadable(str(error))
            return EventBatch((), 0)

    def _unreadable(self, why: str) -> None:
        self.unreadable += 1
        self._say(f"worker {self.feed.name}: a message at {self.address.events} that is no KV event: {why}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._warn(text)
