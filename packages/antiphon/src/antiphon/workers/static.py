"""Workers from the command line and from a TOML file, which is read again when it changes.

The file::

    [[worker]]
    name = "left"                    # default: host and port of the URL
    url = "http://10.0.0.7:8000"
    kind = "vllm"                    # default: found out by asking
    draining = true                  # finish what runs, take nothing new
    block_tokens = 16                # where the engine does not say
    kv_events = ["tcp://10.0.0.7:5557,replay=tcp://10.0.0.7:5558,rank=0"]
    every_address = true             # one worker for each address of the host's name

A flag is `URL` or `NAME=URL`, then any of `,kind=KIND`, `,block_tokens=N`, `,every_address`.
"""

import asyncio
import logging
import tomllib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from antiphon.simulation.clock import Clock
from antiphon.workers.card import KvFeed, WorkerKind
from antiphon.workers.directory import WorkerAddress
from antiphon_turns.errors import ConfigError

log = logging.getLogger("antiphon")

LOOK_SECONDS = 2.0

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class StaticWorker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry as written."""

    url: str
    name: str | None = None
    kind: WorkerKind | None = None
    draining: bool = False
    block_tokens: int | None = None
    kv_events: tuple[str, ...] = ()
    every_address: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    worker: list[StaticWorker] = []


def parse_worker(text: str) -> StaticWorker:
    """Reads a flag. Raises ConfigError."""
    place, *extras = text.split(",")
    name, equals, url = place.partition("=")
    if not equals or "://" in name:
        name, url = "", place
    fields: dict[str, Any] = {"url": url, "name": name or None}
    for extra in extras:
        key, equals, value = extra.partition("=")
        if key not in ("kind", "block_tokens", "every_address") or bool(equals) == (key == "every_address"):
            raise ConfigError(f"--worker {text}: {extra!r} is none of kind=KIND, block_tokens=N, every_address")
        fields[key] = value or True
    try:
        return _checked(msgspec.convert(fields, StaticWorker, strict=False))
    except msgspec.ValidationError as error:
        raise ConfigError(f"--worker {text}: {error}") from None


def parse_workers(text: str, where: str) -> list[StaticWorker]:
    """Reads a file. Raises ConfigError."""
    try:
        return [_checked(worker) for worker in msgspec.convert(tomllib.loads(text), _File).worker]
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"the file of workers {where}: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"the file of workers {where}: {error.message}") from None


def parse_feed(text: str) -> KvFeed:
    """Reads `EVENTS[,replay=ADDRESS][,topic=TOPIC][,rank=N][,bind]`, addresses as ZMQ has them. Raises ConfigError."""
    events, *extras = text.split(",")
    fields: dict[str, Any] = {"events": events}
    for extra in extras:
        key, equals, value = extra.partition("=")
        if key not in ("replay", "topic", "rank", "bind") or bool(equals) == (key == "bind"):
            raise ConfigError(f"{text!r}: {extra!r} is none of replay=ADDRESS, topic=TOPIC, rank=N, bind")
        fields[key] = value or True
    if "://" not in events:
        raise ConfigError(f"{text!r} must begin with the address of the events, like tcp://host:5557")
    try:
        return msgspec.convert(fields, KvFeed, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{text!r}: {error}") from None


class StaticDirectory:
    """See `WorkerDirectory`. Raises ConfigError for flags and a file that cannot be read at start; later the last good list stands.
    `taken`: names that others have."""

    def __init__(
        self, flags: Sequence[str], file: Path | None, *, clock: Clock, resolve: Resolve | None = None, taken: Sequence[str] = ()
    ) -> None:
        self._flags = [parse_worker(flag) for flag in flags]
        self._file = file
        self._clock = clock
        self._resolve = resolve or resolved
        self._taken = tuple(taken)
        self._seen: bytes | OSError | None = None
        self._workers: list[StaticWorker] = self._flags
        self._addresses: dict[StaticWorker, tuple[WorkerAddress, ...]] = {}
        _unique(self._workers, self._taken)
        if file is not None:
            self._read(file)

    async def changes(self) -> AsyncGenerator[tuple[WorkerAddress, ...], None]:
        """The list, and each one that differs from the last."""
        told: tuple[WorkerAddress, ...] | None = None
        while True:
            if self._file is not None:
                try:
                    self._read(self._file)
                except ConfigError as error:
                    log.warning("%s; the workers stay as they were", error.message)
            found = tuple([address for worker in self._workers for address in await self._of(worker)])
            if found != told:
                told = found
                yield found
            await self._clock.sleep(LOOK_SECONDS)

    def _read(self, file: Path) -> None:
        try:
            data = file.read_bytes()
        except OSError as error:
            before, self._seen = self._seen, error
            if isinstance(before, OSError) and before.errno == error.errno:
                return
            raise ConfigError(f"cannot read the file of workers {file}: {error.strerror}") from None
        if data == self._seen:
            return
        # Remembered even if it is wrong, so that a wrong file is told once, as is one that is not there.
        self._seen = data
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"the file of workers {file}: {error}") from None
        workers = [*self._flags, *parse_workers(text, str(file))]
        try:
            _unique(workers, self._taken)
        except ConfigError as error:
            raise ConfigError(f"the file of workers {file}: {error.message}") from None
        self._workers = workers

    async def _of(self, worker: StaticWorker) -> tuple[WorkerAddress, ...]:
        """Its addresses: the one given, or one for each that its name resolves to; the last known ones where that fails."""
        name = name_of(worker)
        if not worker.every_address:
            return (_address(worker, name, worker.url),)
        parts = urlsplit(worker.url)
        host, port = parts.hostname or "", parts.port or 80
        try:
            hosts = sorted(set(await self._resolve(host, port)))
        except (OSError, UnicodeError) as error:
            # A label that is too long for DNS is the second.
            log.warning("cannot resolve %s: %s", host, error)
            return self._addresses.get(worker, ())
        found = []
        for one in hosts:
            place = f"[{one}]:{port}" if ":" in one else f"{one}:{port}"
            found.append(_address(worker, f"{name}@{one}", f"{parts.scheme}://{place}{parts.path}"))
        self._addresses[worker] = tuple(found)
        return self._addresses[worker]


def name_of(worker: StaticWorker) -> str:
    """Its name: the one given, or host and port."""
    return worker.name or urlsplit(worker.url).netloc


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a host name. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=1)
    return [str(entry[4][0]) for entry in found]


def _address(worker: StaticWorker, name: str, url: str) -> WorkerAddress:
    return WorkerAddress(
        name=name, url=url, kind=worker.kind, draining=worker.draining, block_tokens=worker.block_tokens, feeds=worker.kv_events
    )


def _checked(worker: StaticWorker) -> StaticWorker:
    try:
        parts = urlsplit(worker.url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{worker.url!r} is no address of a worker: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(f"{worker.url!r} is no address of a worker; it must begin with http:// or https:// and a host")
    if worker.every_address and parts.scheme == "https":
        raise ConfigError(f"{worker.url!r}: every_address works with http only, since a certificate names a host and not its addresses")
    for feed in worker.kv_events:
        parse_feed(feed)
    return worker


def _unique(workers: Sequence[StaticWorker], taken: Sequence[str]) -> None:
    names = [*taken, *(name_of(worker) for worker in workers)]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ConfigError(f"two workers are called {twice!r}; give one of them another name")
