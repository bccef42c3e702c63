"""Answers as data, so that a test can break them before they become bytes."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from antiphon.conformance.exchange import Chunk, Exchange

KEEPALIVE_SECONDS = 5.0


@dataclass
class Out:
    """One event to be sent at a time. `data` None: a comment."""

    at: float
    event: str | None
    data: Any

    def encode(self) -> bytes:
        if self.data is None:
            return b": keepalive\n\n"
        line = f"event: {self.event}\n".encode() if self.event else b""
        payload = self.data.encode() if isinstance(self.data, str) else msgspec.json.encode(self.data)
        return line + b"data: " + payload + b"\n\n"


@dataclass
class Answer:
    """Either a stream (`out`) or a body. `broken` says how the line broke, if it did."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    body: Any = None
    out: list[Out] | None = None
    ends: float = 0.0
    broken: str = ""

    def chunks(self) -> tuple[Chunk, ...]:
        if self.out is not None:
            return tuple(Chunk(out.at, out.encode()) for out in self.out)
        data = self.body if isinstance(self.body, bytes) else msgspec.json.encode(self.body)
        return (Chunk(self.ends, data),)

    def exchange(self) -> Exchange:
        return Exchange(ask="", status=self.status, headers=self.headers, chunks=self.chunks(), ended_at=self.ends, failure=self.broken)

    def events(self, kind: str) -> list[dict]:
        """The data of all events of a type."""
        return [out.data for out in self.out or [] if isinstance(out.data, dict) and out.data.get("type") == kind]


def stream(out: list[Out], ends: float, keepalive: Out) -> Answer:
    """A streamed answer; silence is filled with keep-alives by the clock."""
    filled: list[Out] = []
    last = 0.0
    for event in out:
        while event.at - last > KEEPALIVE_SECONDS:
            last += KEEPALIVE_SECONDS
            filled.append(Out(last, keepalive.event, keepalive.data))
        filled.append(event)
        last = event.at
    return Answer(headers={"content-type": "text/event-stream; charset=utf-8"}, out=filled, ends=ends)


def pieces(text: str) -> list[str]:
    """A text in deltas."""
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def spread(begins: float, ends: float, count: int) -> list[float]:
    """The times of `count` deltas, the first a token's time behind the start."""
    step = (ends - begins) / max(count, 1)
    return [begins + step * (place + 1) for place in range(count)]
