"""The way to workers over the network."""

from antiphon.engines.base import Engine
from antiphon.workers.asking import Asking
from antiphon.workers.card import WorkerCard
from antiphon.workers.cards import connect
from antiphon.workers.directory import WorkerAddress
from antiphon.workers.static import parse_feed
from antiphon_tokenizers import Tokenizer
from antiphon_turns.errors import WorkerUnavailable

OURS = ("embedded", "mock")


class NetworkConnector:
    """A `Connector`. Each worker must read a probe text as the frontend's `tokenizer` does. `key`: what the workers ask for."""

    def __init__(self, tokenizer: Tokenizer, *, key: str | None) -> None:
        self._tokenizer = tokenizer
        self._key = key
        self._cards: dict[WorkerAddress, WorkerCard] = {}

    async def connect(self, address: WorkerAddress) -> tuple[WorkerCard, Engine]:
        """Asks for everything, and compares the tokenizers."""
        feeds = [parse_feed(feed) for feed in address.feeds]
        card, engine = await connect(address, tokenizer=self._tokenizer, key=self._key, feeds=feeds)
        self._cards[address] = card
        return card, engine

    async def probe(self, address: WorkerAddress) -> WorkerCard:
        """Whether it is well, and which start of it that is. Only workers of ours tell one start from another."""
        known = self._cards.get(address)
        async with Asking(address.url, key=self._key) as asking:
            status, _ = await asking.send("GET", "/health")
        if status != 200:
            raise WorkerUnavailable(f"the worker at {address.url} says that it is not well ({status})")
        if known is not None and known.kind not in OURS:
            return known
        card, _ = await connect(address, key=self._key, feeds=[parse_feed(feed) for feed in address.feeds])
        self._cards[address] = card
        return card
