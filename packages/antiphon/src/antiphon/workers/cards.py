"""Who is there: a worker's card, and the client that speaks to it."""

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec

from antiphon.engines.base import Engine
from antiphon.engines.stream_client import StreamClient
from antiphon.workers.asking import Asking
from antiphon.workers.card import KvFeed, WorkerCard
from antiphon.workers.directory import WorkerAddress
from antiphon.workers.vocabulary import check_ids, own_ids, probe_text
from antiphon_tokenizers import Tokenizer
from antiphon_turns.errors import ConfigError, WorkerProtocolError


async def connect(
    address: WorkerAddress, *, tokenizer: Tokenizer | None = None, key: str | None = None, feeds: Sequence[KvFeed] = ()
) -> tuple[WorkerCard, Engine]:
    """Asks what is at an address; its card, and a client that is not started yet. With a `tokenizer` the worker must give its ids for a
    probe text. `key` is the workers' shared key, or an engine's API key. What the operator says of the worker (`address.block_tokens`,
    `feeds`) goes before what it says itself.

    Raises WorkerUnavailable when nobody answers there, ConfigError when whoever answers cannot be used, WorkerProtocolError for an answer
    that cannot be read."""
    async with Asking(address.url, key=key) as asking:
        card, engine = await _ours(asking, key)
        if tokenizer is not None:
            answer = await asking.post("/tokenize", {"prompt": probe_text(tokenizer)})
            check_ids(own_ids(tokenizer), _ids(answer, asking.url), where=asking.url, model=card.model)
    return msgspec.structs.replace(card, block_tokens=address.block_tokens or card.block_tokens, feeds=tuple(feeds) or card.feeds), engine


async def _ours(asking: Asking, key: str | None) -> tuple[WorkerCard, Engine]:
    answer = await asking.get("/card")
    if answer is None:
        raise ConfigError(f"{asking.url} is no worker of ours")
    try:
        card = msgspec.convert(answer, WorkerCard)
    except msgspec.ValidationError as error:
        raise WorkerProtocolError(f"the card of the worker at {asking.url} cannot be read: {error}") from error
    host, port = stream_address(card.stream or "", asking.url)
    return card, StreamClient(host, port, key=key, constrains=card.constrains, reports_logprobs=card.reports_logprobs)


def stream_address(stream: str, url: str) -> tuple[str, int]:
    """Host and port of a worker's token stream; without a host of its own it is at that of the `url`. Raises WorkerProtocolError."""
    host, _, port = stream.rpartition(":")
    if not port.isdecimal():
        raise WorkerProtocolError(f"the card of the worker at {url} names no token stream")
    return host.strip("[]") or urlsplit(url).hostname or "", int(port)


def _ids(answer: object, where: str) -> list[int]:
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(token_id, int) for token_id in tokens):
        raise ConfigError(f"the worker at {where} does not tokenize a text, so its tokenizer cannot be compared with this frontend's")
    return tokens
