"""Workers with caches that publish KV events on loopback, and an index that follows them: real sockets, waited for by their effects."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from antiphon.router.hashing import extend, root_of
from antiphon.router.kv_source import KvIndex, TargetState
from antiphon.simulation.kv_wire import WireForm
from antiphon.simulation.paged_cache import PagedCache
from antiphon.workers.card import KvFeed, WorkerCard
from antiphon.workers.kv_publisher import RING_MESSAGES, KvPublisher, PublishAt

BLOCK = 4
PATIENCE = 30


def ids(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


def chain(tokens: Sequence[int], salt: str = "") -> list[int]:
    return extend(tokens, root_of(salt), BLOCK)


def card_of(*feeds: KvFeed, incarnation: str = "", ranks: int = 1, block_tokens: int | None = BLOCK) -> WorkerCard:
    return WorkerCard(
        kind="mock",
        model="m",
        context_length=10_000,
        block_tokens=block_tokens,
        feeds=feeds,
        incarnation=incarnation,
        ranks=ranks,
    )


class Worker:
    """A cache and its publisher. Starts on the running loop."""

    def __init__(
        self, blocks: int = 1000, *, where: PublishAt | None = None, form: WireForm = "maps", ring_messages: int = RING_MESSAGES
    ) -> None:
        self.cache = PagedCache(blocks, BLOCK, clock=lambda: 0.0)
        self.publisher = KvPublisher(BLOCK, where, form=form, ring_messages=ring_messages)
        self.publisher.start()

    def fill(self, tokens: Sequence[int], *, salt: str = "") -> None:
        """A prompt is computed, and its events leave."""
        pages = self.cache.open(tokens, salt=salt)
        pages.add(tokens[pages.held_tokens :])
        pages.close()
        self.publish()

    def publish(self) -> None:
        self.publisher.publish(self.cache.take_events())

    def forget_to_publish(self, tokens: Sequence[int]) -> None:
        """As `fill`; the messages get into the ring and are lost on their way."""
        pub = self.publisher._pub
        self.publisher._pub = _Lossy()  # type: ignore[assignment]
        self.fill(tokens)
        self.publisher._pub = pub

    @property
    def same_ports(self) -> PublishAt:
        """Where one that takes its place publishes."""
        return PublishAt(port=self.publisher._events_port, replay_port=self.publisher._replay_port)

    def close(self) -> None:
        self.publisher.close()


class _Lossy:
    def send_multipart(self, frames: list[bytes], flags: int) -> None:
        assert len(frames) == 3


@asynccontextmanager
async def index_of(**options: object) -> AsyncIterator[KvIndex]:
    index = KvIndex(**options)  # type: ignore[arg-type]
    try:
        yield index
    finally:
        await index.close()


def state(index: KvIndex, target: str = "w") -> TargetState:
    return next(one for one in index.states() if one.target == target)


async def until(index: KvIndex, check: Callable[[], bool]) -> None:
    await asyncio.wait_for(index.until(check), PATIENCE)


async def in_step(index: KvIndex, worker: Worker, target: str = "w") -> None:
    """Waits until the index has all that the worker has published."""
    wanted = worker.publisher.next_seq

    def there() -> bool:
        found = state(index, target)
        return found.next_seq == wanted and found.state != "gap"

    await until(index, there)


def held_by(worker: Worker) -> set[int]:
    return set(worker.cache._held)
