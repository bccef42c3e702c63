"""Cards of engines that are not ours, put together from what each tells of itself, and their clients.

vLLM (measured on 0.32): `/version`, `/v1/models`, `/kv_event_sources`, `/metrics`. SGLang (source of 0.5.23): `/get_server_info`,
`/get_model_info`. llama.cpp's server (build 11549): `/props`.
"""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from antiphon.engines.base import Engine
from antiphon.engines.http_stream import HttpEngine
from antiphon.engines.llamacpp import LlamaCppEngine
from antiphon.engines.sglang import SglangEngine
from antiphon.engines.sglang_http import Manners
from antiphon.engines.vllm import VllmEngine
from antiphon.engines.vllm_wire import GENERATE
from antiphon.workers.asking import Asking
from antiphon.workers.card import KvFeed, WorkerCard
from antiphon_tokenizers import Tokenizer
from antiphon_turns.errors import ConfigError

log = logging.getLogger("antiphon")

# What no model says by itself, and one grammar of our kind can: whoever answers with it has read the grammar.
PROBE_GRAMMAR = '%llguidance {}\nstart: "zq" "zq" "zq"'
PROBE_TEXT = "zqzqzq"
_CACHE_CONFIG = re.compile(r"^vllm:cache_config_info\{(.*)\}", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_STARTED = re.compile(r"^process_start_time_seconds (\S+)", re.MULTILINE)


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _FeedConfig(msgspec.Struct):
    endpoint: str
    enable_kv_cache_events: bool = True
    replay_endpoint: str | None = None
    topic: str = ""


class _SglangInfo(msgspec.Struct):
    """Of `/get_server_info`, which is the server's arguments and more."""

    model_path: str = ""
    served_model_name: str | None = None
    context_length: int | None = None
    max_total_num_tokens: int | None = None
    page_size: int | None = None
    dp_size: int = 1
    chunked_prefill_size: int | None = None
    grammar_backend: str | None = None
    enable_priority_scheduling: bool = False
    schedule_low_priority_values_first: bool = False
    kv_events_config: str | None = None


class _SglangModel(msgspec.Struct):
    model_path: str = ""
    context_length: int | None = None
    max_model_len: int | None = None


class _LlamaSettings(msgspec.Struct):
    n_ctx: int | None = None


class _LlamaProps(msgspec.Struct):
    model_path: str = ""
    model_alias: str | None = None
    n_ctx: int | None = None
    default_generation_settings: _LlamaSettings = msgspec.field(default_factory=_LlamaSettings)
    build_info: str = ""


async def vllm(asking: Asking, *, key: str | None, tokenizer: Tokenizer | None) -> tuple[WorkerCard, Engine]:
    """A vLLM server. Raises as `workers.cards.connect`."""
    models = _read(await asking.get("/v1/models"), _Models, asking.url)
    if not models.data:
        raise ConfigError(f"the vLLM server at {asking.url} serves no model")
    model = models.data[0]
    metrics = await asking.text("/metrics")
    cache = dict(_LABEL.findall(found[1])) if (found := _CACHE_CONFIG.search(metrics)) else {}
    feeds = _vllm_feeds(await asking.get("/kv_event_sources"), asking.url)
    status, answer = await asking.send("POST", GENERATE, _vllm_probe(tokenizer))
    closed = status in (403, 404, 405)
    if closed:
        log.warning("%s does not open %s; --enable-scale-out would. /v1/completions is used, without grammars", asking.url, GENERATE)
    elif status != 200:
        log.warning("%s takes no llguidance grammars: %s", asking.url, answer[:300].decode("utf-8", "replace"))
    spell = _speller(tokenizer) if tokenizer is not None else None
    card = WorkerCard(
        kind="vllm",
        model=model.id,
        context_length=model.max_model_len or 0,
        block_tokens=_number(cache.get("block_size")),
        cache_blocks=_number(cache.get("num_gpu_blocks")),
        ranks=max(1, len({feed.rank for feed in feeds})),
        feeds=feeds,
        constrains=status == 200,
        reports_logprobs=spell is not None,
        incarnation=started[1] if (started := _STARTED.search(metrics)) else "",
    )
    http = HttpEngine(f"vLLM at {asking.url}", asking.url, key=key)
    return card, VllmEngine(http, model=model.id, constrains=card.constrains, spell=spell, completions=closed)


async def sglang(asking: Asking, *, key: str | None, tokenizer: Tokenizer | None) -> tuple[WorkerCard, Engine]:
    """An SGLang server. Raises as `workers.cards.connect`."""
    info = _read(await asking.get("/get_server_info"), _SglangInfo, asking.url)
    model = _read(await asking.get("/get_model_info") or {}, _SglangModel, asking.url)
    config = _feed_config(info.kv_events_config, asking.url)
    manners = Manners(info.enable_priority_scheduling, info.schedule_low_priority_values_first)
    constrains = info.grammar_backend == "llguidance"
    if not constrains:
        log.warning("%s: forced calls and structured output need --grammar-backend llguidance there", asking.url)
    block = info.page_size
    card = WorkerCard(
        kind="sglang",
        model=info.served_model_name or info.model_path,
        context_length=info.context_length or model.context_length or model.max_model_len or info.max_total_num_tokens or 0,
        block_tokens=block,
        cache_blocks=info.max_total_num_tokens // block if info.max_total_num_tokens and block else None,
        ranks=info.dp_size,
        feeds=_ranked(config, info.dp_size, asking.url) if config is not None else (),
        constrains=constrains,
        reports_logprobs=True,
        batch_tokens=info.chunked_prefill_size if (info.chunked_prefill_size or 0) > 0 else None,
        prioritizes=manners.priorities,
    )
    http = HttpEngine(f"SGLang at {asking.url}", asking.url, key=key)
    return card, SglangEngine(http, manners=manners, constrains=constrains)


async def llamacpp(asking: Asking, *, key: str | None, tokenizer: Tokenizer | None) -> tuple[WorkerCard, Engine]:
    """A llama.cpp server. Raises as `workers.cards.connect`."""
    props = _read(await asking.get("/props"), _LlamaProps, asking.url)
    constrains = await _llama_constrains(asking)
    if not constrains:
        log.warning("%s: forced calls and structured output need a llama.cpp that was built with llguidance", asking.url)
    card = WorkerCard(
        kind="llamacpp",
        model=props.model_alias or props.model_path.rpartition("/")[2],
        context_length=props.default_generation_settings.n_ctx or props.n_ctx or 0,
        constrains=constrains,
        reports_logprobs=True,
    )
    http = HttpEngine(f"llama-server at {asking.url}", asking.url, key=key)
    encode = _encoder(tokenizer) if tokenizer is not None else None
    return card, LlamaCppEngine(http, constrains=constrains, encode=encode)


def probe_request(kind: str, text: str) -> dict[str, Any]:
    """The body that asks an engine for the ids of a text, control tokens read as such."""
    if kind == "llamacpp":
        return {"content": text, "add_special": False, "parse_special": True}
    return {"prompt": text, "add_special_tokens": False}


def _vllm_probe(tokenizer: Tokenizer | None) -> bytes:
    """One token under a grammar; the end of a turn in it shows that control tokens can be named."""
    end = f" <[{min(tokenizer.control_tokens.values())}]>" if tokenizer is not None and tokenizer.control_tokens else ""
    grammar = PROBE_GRAMMAR + end
    params = {"max_tokens": 1, "temperature": 0, "structured_outputs": {"grammar": grammar}}
    return msgspec.json.encode({"token_ids": [0], "sampling_params": params})


async def _llama_constrains(asking: Asking) -> bool:
    """The server generates freely under a grammar that it cannot read, so what it says is looked at."""
    body = {"prompt": "a", "n_predict": 8, "temperature": 0, "grammar": PROBE_GRAMMAR}
    status, answer = await asking.send("POST", "/completion", msgspec.json.encode(body))
    try:
        said = msgspec.json.decode(answer) if status == 200 else {}
    except msgspec.MsgspecError:
        return False
    return isinstance(said, dict) and PROBE_TEXT.startswith(str(said.get("content") or "-"))


def _vllm_feeds(answer: Any, url: str) -> tuple[KvFeed, ...]:
    """One a data-parallel rank; a server without events tells none."""
    if not answer:
        return ()
    configs = _read(answer, dict[int, _FeedConfig], url)
    return tuple(_feed(config, rank, 0, url) for rank, config in sorted(configs.items()) if config.enable_kv_cache_events)


def _feed_config(text: str | None, url: str) -> _FeedConfig | None:
    """SGLang's setting is JSON in a string, with vLLM's names."""
    if not text:
        return None
    try:
        fields = msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"kv_events_config of the server at {url} cannot be read: {error}") from None
    if not isinstance(fields, dict) or fields.get("publisher", "null") == "null":
        return None
    config: _FeedConfig = _read({"endpoint": "tcp://*:5557", **fields}, _FeedConfig, url)
    return config


def _ranked(config: _FeedConfig, ranks: int, url: str) -> tuple[KvFeed, ...]:
    return tuple(_feed(config, rank, rank, url) for rank in range(ranks))


def _feed(config: _FeedConfig, rank: int, shift: int, url: str) -> KvFeed:
    """An engine that is told `*` binds; one that is told a host connects to it, and so the subscriber binds."""
    wild = "*" in config.endpoint
    replay = None if config.replay_endpoint is None else _reachable(config.replay_endpoint, shift, url)
    events = _reachable(config.endpoint, shift, url)
    return KvFeed(events=events, replay=replay, topic=config.topic, rank=rank, bind=not wild and events.startswith("tcp"))


def _reachable(endpoint: str, shift: int, url: str) -> str:
    """The address as we reach it, `shift` ports on: each rank has a port of its own."""
    place, _, port = endpoint.rpartition(":")
    if not endpoint.startswith("tcp://") or not port.isdecimal():
        return endpoint
    host = urlsplit(url).hostname or "127.0.0.1"
    return f"{place.replace('*', f'[{host}]' if ':' in host else host)}:{int(port) + shift}"


def _read(answer: Any, kind: Any, url: str) -> Any:
    try:
        return msgspec.convert(answer, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"what the server at {url} says of itself cannot be read: {error}") from None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _speller(tokenizer: Tokenizer) -> Callable[[int], tuple[str, bytes]]:
    return lambda token_id: (tokenizer.decode([token_id]), tokenizer.token_bytes(token_id))


def _encoder(tokenizer: Tokenizer) -> Callable[[str], list[int]]:
    return lambda text: tokenizer.encode(text, added=False)


KINDS: Sequence[tuple[str, str, Callable[..., Any]]] = (
    ("vllm", "/version", vllm),
    ("sglang", "/get_server_info", sglang),
    ("llamacpp", "/props", llamacpp),
)
"""Kind, the path that only servers of the kind have, and the way to its card."""
