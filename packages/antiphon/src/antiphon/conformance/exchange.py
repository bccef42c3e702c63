"""Recorded exchanges: what was asked, what came back, and when each piece of it arrived."""

from collections.abc import Mapping
from typing import Any

import msgspec

from antiphon.conformance.sayings import Saying
from antiphon.conformance.verdict import Broken, require

_EXCERPT = 160


class Chunk(msgspec.Struct, frozen=True):
    """Bytes of the answer's body; `at` in seconds since the request left."""

    at: float
    data: bytes


class Frame(msgspec.Struct, frozen=True):
    """One server-sent event, whole. `event` is None where no `event:` line stood; a comment has `data` None."""

    at: float
    event: str | None
    data: str | None

    def json(self) -> Any:
        """The data line as JSON. Raises Broken."""
        try:
            return msgspec.json.decode(self.data or "")
        except msgspec.DecodeError as error:
            raise Broken(f"a data line is no JSON: {(self.data or '')[:_EXCERPT]!r}") from error


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer. `failure` says why there is no whole answer, "" if there is one; `status` is 0 if not even
    headers came. `said` is what the model was made to say, None where it was only asked to.
    `silence` is how long a client may be left without a byte, in seconds."""

    ask: str
    method: str = "POST"
    path: str = "/"
    request: Any = None
    status: int = 0
    headers: Mapping[str, str] = {}
    chunks: tuple[Chunk, ...] = ()
    ended_at: float = 0.0
    failure: str = ""
    said: Saying | None = None
    silence: float = 20.0

    def body(self) -> bytes:
        """All bytes of the answer."""
        return b"".join(chunk.data for chunk in self.chunks)

    def excerpt(self) -> str:
        """The start of the body as one line."""
        return " ".join(self.body()[:_EXCERPT].decode("utf-8", "replace").split())

    def json(self) -> Any:
        """The body as JSON. Raises Broken."""
        try:
            return msgspec.json.decode(self.body())
        except msgspec.DecodeError as error:
            raise Broken(f"the body is no JSON: {self.excerpt()!r}") from error

    def is_stream(self) -> bool:
        """Whether the answer came as server-sent events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def frames(self) -> list[Frame]:
        """The events of the stream in order, comments included. Raises Broken when the answer is no event stream."""
        require(self.is_stream(), f"content-type is {self.headers.get('content-type', 'missing')!r}, not text/event-stream")
        return read_frames(self.chunks)

    def events(self) -> list[Frame]:
        """The frames that carry data."""
        return [frame for frame in self.frames() if frame.data is not None]


def read_frames(chunks: tuple[Chunk, ...]) -> list[Frame]:
    """Splits a body into events (WHATWG HTML, section 9.2); each has the time at which its last byte came."""
    frames: list[Frame] = []
    rest = b""
    for chunk in chunks:
        text = (rest + chunk.data).replace(b"\r\n", b"\n")
        *whole, rest = text.split(b"\n\n")
        frames += [_frame(chunk.at, block.decode("utf-8", "replace")) for block in whole if block.strip()]
    if rest.strip() and chunks:
        frames.append(_frame(chunks[-1].at, rest.decode("utf-8", "replace")))
    return frames


def _frame(at: float, block: str) -> Frame:
    event, data = None, []
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
    return Frame(at, event, "\n".join(data) if data else None)


def answered(exchange: Exchange, status: int = 200) -> Exchange:
    """The exchange, when the answer is whole and has the status. Raises Broken, or Unclear when it could not be asked."""
    require(exchange.status != 0 or not exchange.failure, f"{exchange.ask}: {exchange.failure}")
    require(exchange.status == status, f"{exchange.method} {exchange.path} answered {exchange.status}, not {status}: {exchange.excerpt()}")
    require(not exchange.failure, f"{exchange.ask}: {exchange.failure}")
    return exchange
