"""Who is there: a worker's card, and the client that speaks to it."""

import logging
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from antiphon.engines.base import Engine
from antiphon.engines.stream_client import StreamClient
from antiphon.workers.asking import Asking
from antiphon.workers.card import KvFeed, WorkerCard
from antiphon.workers.directory import WorkerAddress
from antiphon.workers.foreign import KINDS, probe_request
from antiphon.workers.vocabulary import check_ids, own_ids, probe_text
from antiphon_tokenizers import Tokenizer
from antiphon_turns.errors import ConfigError, WorkerProtocolError

log = logging.getLogger("antiphon")


async def connect(
    address: WorkerAddress, *, tokenizer: Tokenizer | None = None, key: str | None = None, feeds: Sequence[KvFeed] = ()
) -> tuple[WorkerCard, Engine]:
    """Asks what is at an address; its card, and a client that is not started yet. With a `tokenizer` the worker must give its ids for a
    probe text. `key` is the workers' shared key, or an engine's API key. What the operator says of the worker (`address.block_tokens`,
    `feeds`) goes before what it says itself.

    Raises WorkerUnavailable when nobody answers there, ConfigError when whoever answers cannot be used, WorkerProtocolError for an answer
    that cannot be read."""
    async with Asking(address.url, key=key) as asking:
        card, engine = await _found(asking, address, key=key, tokenizer=tokenizer)
        if tokenizer is not None:
            answer = await asking.post("/tokenize", probe_request(card.kind, probe_text(tokenizer)))
            if answer is None:
                log.warning("%s does not tokenize a text, so nobody knows whether it means the same tokens as this frontend", asking.url)
            else:
                check_ids(own_ids(tokenizer), _ids(answer, asking.url), where=asking.url, model=card.model)
    return msgspec.structs.replace(card, block_tokens=address.block_tokens or card.block_tokens, feeds=tuple(feeds) or card.feeds), engine


async def _found(asking: Asking, address: WorkerAddress, *, key: str | None, tokenizer: Tokenizer | None) -> tuple[WorkerCard, Engine]:
    if address.kind in ("mock", "embedded", None):
        answer = await asking.get("/card")
        if answer is not None:
            return _ours(answer, asking.url, key)
    for kind, path, found in KINDS:
        if address.kind == kind or (address.kind is None and await asking.get(path) is not None):
            card: WorkerCard
            engine: Engine
            card, engine = await found(asking, key=key, tokenizer=tokenizer)
            return card, engine
    raise ConfigError(f"what answers at {asking.url} is no worker of ours, and no vLLM, SGLang or llama.cpp server")


def _ours(answer: Any, url: str, key: str | None) -> tuple[WorkerCard, Engine]:
    try:
        card = msgspec.convert(answer, WorkerCard)
    except msgspec.ValidationError as error:
        raise WorkerProtocolError(f"the card of the worker at {url} cannot be read: {error}") from error
    host, port = stream_address(card.stream or "", url)
    card = msgspec.structs.replace(card, feeds=tuple(at_home(feed, url) for feed in card.feeds))
    client = StreamClient(
        host, port, key=key, incarnation=card.incarnation, constrains=card.constrains, reports_logprobs=card.reports_logprobs
    )
    return card, client


def stream_address(stream: str, url: str) -> tuple[str, int]:
    """Host and port of a worker's token stream; without a host of its own it is at that of the `url`. Raises WorkerProtocolError."""
    host, _, port = stream.rpartition(":")
    if not port.isdecimal():
        raise WorkerProtocolError(f"the card of the worker at {url} names no token stream")
    return host.strip("[]") or urlsplit(url).hostname or "", int(port)


def at_home(feed: KvFeed, url: str) -> KvFeed:
    """A feed on every address of its machine is at the one of the `url`."""
    host = urlsplit(url).hostname or ""
    host = f"[{host}]" if ":" in host else host

    def at(address: str) -> str:
        return re.sub(r"^tcp://(0\.0\.0\.0|\[::\]|\*):", f"tcp://{host}:", address)

    return msgspec.structs.replace(feed, events=at(feed.events), replay=None if feed.replay is None else at(feed.replay))


def _ids(answer: object, where: str) -> list[int]:
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(token_id, int) for token_id in tokens):
        raise WorkerProtocolError(f"the worker at {where} answers /tokenize without a list of ids")
    return tokens
