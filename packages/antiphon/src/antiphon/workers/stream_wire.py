"""The token stream between a frontend and a worker of ours: frames of 4 bytes of length (big endian) and msgpack, no I/O.

One connection carries many jobs. The frontend says hello, and the worker answers with its own; then the frontend submits and cancels,
under numbers that it never uses twice on a connection, and the worker tells what was sampled. Frames are arrays that begin with their
kind. Most of what is sampled is one id of one job, so a frame holds those as two long lists, and only chunks that say more are
written out.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon_turns import SampledLogprob
from antiphon_turns.errors import (
    StreamInterrupted,
    WorkerError,
    WorkerProtocolError,
    WorkerRefusal,
    WorkerTimeout,
    WorkerUnavailable,
)

VERSION = 1
MAX_FRAME_BYTES = 64 << 20
_LENGTH_BYTES = 4


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """First in both directions. `key` is what both share; the worker sends none. `incarnation` is that of its card."""

    version: int = VERSION
    key: str = ""
    incarnation: str = ""


class Submit(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """One more job."""

    number: int
    job: Job


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Nobody reads the job any more. Nothing answers it; what is on its way may still come."""

    number: int


class Told(msgspec.Struct, frozen=True, array_like=True):
    """A chunk of job `number` that says more than ids; fields as those of `Chunk`."""

    number: int
    ids: list[int]
    finish: Literal["stop", "length"] | None = None
    cached_tokens: int | None = None
    queue_seconds: float | None = None
    logprobs: list[SampledLogprob | None] | None = None


class Sampled(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """What was sampled together: id `ids[i]` of job `numbers[i]`, and chunks. A job is in one of the two, its ids in order."""

    numbers: list[int]
    ids: list[int]
    told: list[Told] = []


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The job is over. `code` is that of a WorkerError. Number 0 is the connection itself."""

    number: int
    code: str
    message: str


FromFrontend = Hello | Submit | Cancel
FromWorker = Hello | Sampled | Failed
Frame = TypeVar("Frame")

_ERRORS: dict[str, type[WorkerError]] = {
    kind.code: kind for kind in (WorkerError, WorkerUnavailable, WorkerTimeout, WorkerProtocolError, WorkerRefusal, StreamInterrupted)
}


def _plain(ids: Any) -> list[Any]:
    """Token ids may be in arrays, which msgpack does not know."""
    return list(ids)


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode
read_frontend: Callable[[memoryview], FromFrontend] = msgspec.msgpack.Decoder(FromFrontend).decode
read_worker: Callable[[memoryview], FromWorker] = msgspec.msgpack.Decoder(FromWorker).decode


def frame_of(message: FromFrontend | FromWorker) -> bytes:
    """A message as bytes. Raises WorkerRefusal for one that is longer than anybody reads."""
    body = _encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise WorkerRefusal(f"a frame of {len(body)} bytes is longer than the {MAX_FRAME_BYTES} that a worker reads")
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def failure(number: int, error: WorkerError) -> Failed:
    """An error on its way to the frontend."""
    return Failed(number, error.code, error.message)


def error_of(failed: Failed) -> WorkerError:
    """The error that a worker reports, as the same class."""
    return _ERRORS.get(failed.code, WorkerError)(failed.message)


def sampled(pending: dict[int, Chunk]) -> Sampled:
    """One frame for what was sampled of each job since the last."""
    numbers: list[int] = []
    ids: list[int] = []
    told: list[Told] = []
    for number, chunk in pending.items():
        if chunk.finish is None and chunk.cached_tokens is None and chunk.queue_seconds is None and chunk.logprobs is None:
            ids += chunk.ids
            numbers += [number] * len(chunk.ids)
        else:
            logprobs = None if chunk.logprobs is None else list(chunk.logprobs)
            told.append(Told(number, chunk.ids, chunk.finish, chunk.cached_tokens, chunk.queue_seconds, logprobs))
    return Sampled(numbers, ids, told)


class FrameReader(Generic[Frame]):
    """Cuts bytes, as they arrive, into frames. Each byte is copied once, however many pieces a long frame comes in."""

    def __init__(self, read: Callable[[memoryview], Frame]) -> None:
        self._read = read
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = _LENGTH_BYTES

    def feed(self, data: bytes) -> list[Frame]:
        """The frames completed by `data`. Raises WorkerProtocolError on what is not the protocol."""
        if self._pieces or len(data) < self._wanted:
            self._pieces.append(data)
            self._size += len(data)
            if self._size < self._wanted:
                return []
            data = b"".join(self._pieces)
            self._pieces, self._size = [], 0
        frames: list[Frame] = []
        view = memoryview(data)
        at, whole = 0, len(data)
        self._wanted = _LENGTH_BYTES
        while whole - at >= _LENGTH_BYTES:
            length = int.from_bytes(view[at : at + _LENGTH_BYTES], "big")
            if length > MAX_FRAME_BYTES:
                raise WorkerProtocolError(f"a frame of {length} bytes was announced; whoever speaks here is no worker or frontend of ours")
            end = at + _LENGTH_BYTES + length
            if end > whole:
                self._wanted = end - at
                break
            try:
                frames.append(self._read(view[at + _LENGTH_BYTES : end]))
            except msgspec.MsgspecError as error:
                raise WorkerProtocolError(f"a frame that cannot be read: {error}; both sides should be of one version") from None
            at = end
        if at < whole:
            self._pieces, self._size = [data[at:]], whole - at
        return frames
