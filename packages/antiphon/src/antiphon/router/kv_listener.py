"""The process beside a frontend that follows all KV events: decoding and hashing 300,000 blocks a second takes half a core, which the
frontend's streams need. Started by `kv_process.py` as `python -m antiphon.router.kv_listener FD`; ends with the socket."""

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence

import zmq

from antiphon.router import kv_snapshot
from antiphon.router.feed import WorkerFeed
from antiphon.router.feed_blocks import Change
from antiphon.router.kv_pipe import (
    Command,
    Dump,
    Dumped,
    Follow,
    Forget,
    Frames,
    Load,
    Pulse,
    Report,
    SourceStatus,
    Warned,
    changes_frames,
    message_frame,
)
from antiphon.router.kv_socket import PublisherSocket

# Changes leave this often: seldom enough to be cheap at the other end, much sooner than predicted entries expire.
FLUSH_SECONDS = 0.02
PULSE_SECONDS = 1.0
# How exact times of the sockets are while nothing comes.
IDLE_SECONDS = 0.1
# A worker that is in trouble again and again is told of once in so long.
REPEAT_SECONDS = 60.0
# Streams go first where cores are short.
NICENESS = 15


class Listener:
    """Follows what it is told to and reports over `pipe` until that is closed."""

    def __init__(self, pipe: socket.socket) -> None:
        self._pipe = pipe
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._poller = zmq.Poller()
        self._poller.register(pipe, zmq.POLLIN)
        self._commands = Frames()
        self._sources: dict[int, tuple[Follow, PublisherSocket]] = {}
        self._readers: dict[zmq.Socket[bytes], PublisherSocket] = {}
        self._reported: dict[int, SourceStatus] = {}
        self._snapshot: dict[str, kv_snapshot.SourceSnapshot] = {}
        self._is_dirty = True
        self._warned: dict[str, float] = {}

    def run(self) -> None:
        """Until the frontend is gone."""
        flush_at = pulse_at = 0.0
        try:
            while True:
                now = time.monotonic()
                wait = flush_at - now if self._is_dirty else IDLE_SECONDS
                ready = self._poller.poll(max(0, round(1000 * wait)))
                now = time.monotonic()
                if not self._read(ready, now):
                    return
                if now < flush_at:
                    continue
                flush_at = now + FLUSH_SECONDS
                for _, one in list(self._sources.values()):
                    one.tick(now)
                self._flush()
                if now >= pulse_at:
                    pulse_at = now + PULSE_SECONDS
                    self._say(Pulse(time.process_time()))
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            for _, one in self._sources.values():
                one.close()
            self._context.destroy(0)

    def _read(self, ready: "Sequence[tuple[object, int]]", now: float) -> bool:
        """False: the frontend has gone."""
        for which, _ in ready:
            self._is_dirty = True
            # A plain socket is known to the poller by its number.
            if which == self._pipe.fileno():
                data = self._pipe.recv(1 << 20)
                if not data:
                    return False
                self._commands.push(data)
                for command in self._commands.commands():
                    self._obey(command, now)
            elif isinstance(which, zmq.Socket):
                owner = self._owner(which)
                if owner is not None:
                    owner.read(which, now)
        return True

    def _owner(self, which: "zmq.Socket[bytes]") -> PublisherSocket | None:
        owner = self._readers.get(which)
        if owner is None or which not in owner.sockets():
            # Replay sockets come and go.
            self._readers = {socket: one for _, one in self._sources.values() for socket in one.sockets()}
            owner = self._readers.get(which)
        return owner

    def _obey(self, command: Command, now: float) -> None:
        if isinstance(command, Follow):
            self._follow(command, now)
        elif isinstance(command, Forget):
            self._forget(command.source)
        elif isinstance(command, Load):
            self._load(command.snapshot)
        elif isinstance(command, Dump):
            self._say(Dumped(self._dump()))

    def _follow(self, wish: Follow, now: float) -> None:
        before = self._sources.get(wish.source)
        if before is not None:
            known, one = before
            if known.feed == wish.feed and known.block_tokens == wish.block_tokens:
                self._sources[wish.source] = wish, one
                if known.incarnation != wish.incarnation:
                    one.restart(now)
                return
            self._forget(wish.source)
        feed = WorkerFeed(wish.target, block_tokens=wish.block_tokens, replays=wish.feed.replay is not None, warn=self._warn)
        self._resume(feed, wish)
        one = PublisherSocket(self._context, self._poller, wish.feed, feed)
        self._sources[wish.source] = wish, one
        one.open(now, self._warn)

    def _forget(self, source: int) -> None:
        _, one = self._sources.pop(source)
        one.close()
        one.feed.blocks.clear()
        self._send_changes([(source, change) for change in one.feed.take_changes()])
        self._reported.pop(source, None)

    def _load(self, body: bytes) -> None:
        try:
            self._snapshot = {one.target: one for one in kv_snapshot.unpack(body)}
        except ValueError as error:
            self._warn(f"the sibling's snapshot is not used: {error}")

    def _resume(self, feed: WorkerFeed, wish: Follow) -> None:
        """Goes on from the sibling's snapshot, if it is of this very engine."""
        found = self._snapshot.pop(wish.target, None)
        size = wish.block_tokens
        if found is None or found.incarnation != wish.incarnation or (size is not None and size != found.block_tokens):
            return
        try:
            kv_snapshot.load(found, feed.blocks)
        except ValueError as error:
            self._warn(f"the sibling's snapshot is not used: {error}")
            return
        feed.resume(found.mark, is_stale=found.is_stale)

    def _dump(self) -> bytes:
        return kv_snapshot.pack(
            kv_snapshot.take(
                one.feed.blocks,
                target=wish.target,
                incarnation=wish.incarnation,
                mark=one.feed.mark,
                is_stale=one.feed.is_stale,
            )
            for wish, one in self._sources.values()
            if one.feed.mark.next_seq and one.feed.blocks.mismatched is None
        )

    def _flush(self) -> None:
        changes: list[tuple[int, Change]] = []
        statuses: list[bytes] = []
        self._is_dirty = False
        for source, (_, one) in self._sources.items():
            if one.dirty:
                one.dirty = False
                changes += [(source, change) for change in one.feed.take_changes()]
                status = _status(source, one)
                if status != self._reported.get(source):
                    self._reported[source] = status
                    statuses.append(message_frame(status))
        self._send_changes(changes)
        if statuses:
            self._send(b"".join(statuses))

    def _warn(self, text: str) -> None:
        now = time.monotonic()
        if now - self._warned.get(text, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._warned[text] = now
            self._say(Warned(text))

    def _say(self, report: Report) -> None:
        self._send(message_frame(report))

    def _send_changes(self, changes: list[tuple[int, Change]]) -> None:
        for frame in changes_frames(changes):
            self._send(frame)

    def _send(self, data: bytes) -> None:
        # Blocks while the frontend is behind: events then wait in their sockets' queues.
        self._pipe.sendall(data)


def _status(source: int, one: PublisherSocket) -> SourceStatus:
    feed = one.feed
    return SourceStatus(
        source=source,
        state=feed.state,
        block_tokens=feed.blocks.block_tokens,
        blocks=len(feed.blocks),
        next_seq=feed.mark.next_seq,
        messages=feed.messages,
        gaps=feed.gaps,
        lost=feed.lost,
        restarts=feed.restarts,
        skipped=feed.blocks.skipped,
        unanswered=one.unanswered,
        unreadable=one.unreadable,
    )


def main() -> None:
    """The argument is the number of the inherited socket."""
    # What a terminal or a supervisor sends to the whole group is meant for the frontend, which closes the socket when it is done.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    # Millions of small tuples live here, and no cycles.
    gc.disable()
    with socket.socket(fileno=int(sys.argv[1])) as pipe:
        Listener(pipe).run()


if __name__ == "__main__":
    main()
