"""A load client that costs little and hides nothing: raw HTTP/1.1 over sockets with TCP_NODELAY, one `select` loop, no threads."""

import re
import selectors
import socket
import time
from collections.abc import Iterable, Sequence

import msgspec

from bench.measure import BenchError
from bench.prompts import PATHS, SurfaceName

_FIRST_DELTA: dict[SurfaceName, bytes] = {"messages": b'"type":"content_block_delta"', "chat": b'"content":"'}
_PROMPT = re.compile(rb'"(?:input_tokens|prompt_tokens)":\s*(\d+)')
# Messages counts what was cached apart; elsewhere it is part of the prompt's tokens.
_CACHED = re.compile(rb'"cache_read_input_tokens":\s*(\d+)')
_OUTPUT = re.compile(rb'"(?:output_tokens|completion_tokens)":\s*(\d+)')
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_TAIL = 2048


class Answer(msgspec.Struct, frozen=True):
    """One streamed answer. Seconds count from the first byte sent."""

    first_delta_s: float
    whole_s: float
    prompt_tokens: int
    output_tokens: int
    received: int


class Connection:
    """One keep-alive connection that asks one thing after the other."""

    def __init__(self, address: tuple[str, int], surface: SurfaceName) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._surface = surface
        self._marker = _FIRST_DELTA[surface]

    def ask(self, body: bytes) -> None:
        """Sends one request."""
        head = (
            f"POST {PATHS[self._surface]} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
            f"anthropic-version: 2023-06-01\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._first: float | None = None
        self._tail = b""
        self._received = 0
        self._started = time.perf_counter()
        self.socket.sendall(head.encode() + body)

    def receive(self) -> Answer | None:
        """Takes what has come; the answer once it is whole. Raises BenchError when it is not a streamed answer."""
        data = self.socket.recv(262_144)
        now = time.perf_counter()
        if not data:
            raise BenchError("the server closed the connection")
        if not self._received and not data.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"the server answered {data[:400]!r}")
        self._received += len(data)
        text = self._tail + data
        if self._first is None and self._marker in text:
            self._first = now - self._started
        self._tail = text[-_TAIL:]
        if not text.endswith(_LAST_CHUNK):
            return None
        return self._answer(now)

    def _answer(self, now: float) -> Answer:
        prompt, output = _PROMPT.findall(self._tail), _OUTPUT.findall(self._tail)
        if self._first is None or not prompt or not output:
            raise BenchError(f"a stream without text or usage; it ended {self._tail[-200:]!r}")
        cached = _CACHED.findall(self._tail) or [0]
        return Answer(self._first, now - self._started, int(prompt[-1]) + int(cached[-1]), int(output[-1]), self._received)


def ask_all(address: tuple[str, int], surface: SurfaceName, bodies: Sequence[bytes], *, streams: int, seconds: float = 60) -> list[Answer]:
    """Asks every body over `streams` connections; each takes the next one when it is free. Raises BenchError for an answer
    that is none, and when it takes longer than `seconds`."""
    waiting = iter(bodies)
    answers: list[Answer] = []
    deadline = time.monotonic() + seconds
    connections = [Connection(address, surface) for _ in range(min(streams, len(bodies)))]
    try:
        with selectors.DefaultSelector() as selector:
            for connection, first in zip(connections, waiting, strict=False):
                selector.register(connection.socket, selectors.EVENT_READ, connection)
                connection.ask(first)
            while len(answers) < len(bodies):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise BenchError(f"no whole set of answers within {seconds:.0f} s")
                for key, _ in ready:
                    connection = key.data
                    answer = connection.receive()
                    if answer is not None:
                        answers.append(answer)
                        following = next(waiting, None)
                        if following is not None:
                            connection.ask(following)
    finally:
        for connection in connections:
            connection.socket.close()
    return answers


def ask_in_turn(address: tuple[str, int], surface: SurfaceName, bodies: Iterable[bytes]) -> list[Answer]:
    """Asks one after the other over one connection."""
    return ask_all(address, surface, list(bodies), streams=1)
