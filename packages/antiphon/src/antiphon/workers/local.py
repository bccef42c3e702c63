"""The engine of this process as one worker among others: the embedded provider."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from antiphon.engines.base import Engine
from antiphon.workers.card import WorkerCard
from antiphon.workers.directory import WorkerAddress, WorkerDirectory
from antiphon.workers.probe import Connector
from antiphon_turns.errors import WorkerUnavailable

LOCAL = WorkerAddress(name="local", url="local:")


class WithLocal:
    """A `WorkerDirectory`: the others' list, with this process in front."""

    def __init__(self, others: WorkerDirectory) -> None:
        self._others = others

    async def changes(self) -> AsyncGenerator[tuple[WorkerAddress, ...], None]:
        """See `WorkerDirectory`."""
        async with aclosing(self._others.changes()) as lists:
            async for others in lists:
                yield (LOCAL, *others)


class LocalConnector:
    """A `Connector`: `engine` is reached without a way, the others as before."""

    def __init__(self, card: WorkerCard, engine: Engine, others: Connector) -> None:
        self._card = card
        self._engine = engine
        self._others = others

    async def connect(self, address: WorkerAddress) -> tuple[WorkerCard, Engine]:
        """See `Connector`."""
        return (self._card, self._engine) if address == LOCAL else await self._others.connect(address)

    async def probe(self, address: WorkerAddress) -> WorkerCard:
        """See `Connector`."""
        if address != LOCAL:
            return await self._others.probe(address)
        if not self._engine.ready():
            raise WorkerUnavailable("the engine of this process is not running; see the log")
        return self._card
