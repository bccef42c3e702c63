"""The mock engine's prefix cache and delays by rule."""

import asyncio

import pytest

from antiphon.engines import mock_cache
from antiphon.engines.mock import load_script
from antiphon.engines.mock_cache import BLOCK_TOKENS, PrefixCache


@pytest.mark.parametrize(
    ("shared", "cached"), [(0, 0), (BLOCK_TOKENS - 1, 0), (BLOCK_TOKENS, BLOCK_TOKENS), (3 * BLOCK_TOKENS + 5, 3 * BLOCK_TOKENS)]
)
def test_whole_blocks_of_a_shared_prefix_are_cached(shared, cached):
    cache = PrefixCache()
    cache.hold(range(10 * BLOCK_TOKENS))
    assert cache.match([*range(shared), *[-1] * 40]) == cached


def test_the_last_token_is_never_cached():
    cache = PrefixCache()
    cache.hold(range(2 * BLOCK_TOKENS))
    assert cache.match(range(2 * BLOCK_TOKENS)) == BLOCK_TOKENS


def test_a_block_counts_only_behind_its_own_prefix():
    cache = PrefixCache()
    cache.hold(range(2 * BLOCK_TOKENS))
    assert cache.match([*[-1] * BLOCK_TOKENS, *range(BLOCK_TOKENS, 2 * BLOCK_TOKENS), 0]) == 0


def test_the_oldest_blocks_are_forgotten(monkeypatch):
    monkeypatch.setattr(mock_cache, "BLOCKS_KEPT", 2)
    cache = PrefixCache()
    cache.hold(range(BLOCK_TOKENS))
    cache.hold(range(100, 100 + 2 * BLOCK_TOKENS))
    assert cache.match(range(BLOCK_TOKENS + 1)) == 0
    assert cache.match(range(100, 101 + 2 * BLOCK_TOKENS)) == 2 * BLOCK_TOKENS


def test_the_server_reports_what_the_mock_engine_has_cached(serve_mock):
    server = serve_mock([{"when": "", "say": "</think>\n\nHi."}], mock_prefix_cache=True)
    body = {"model": "antiphon-mock", "max_tokens": 20, "messages": [{"role": "user", "content": "one two three " * 30}]}
    first, second = (server.http.post("/v1/messages", json=body).json()["usage"] for _ in range(2))
    assert first["cache_read_input_tokens"] == 0
    assert second["cache_read_input_tokens"] > 0
    assert first["input_tokens"] == second["input_tokens"] + second["cache_read_input_tokens"]


def test_a_rule_has_a_delay_of_its_own(tmp_path, monkeypatch, serve_mock):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    server = serve_mock([{"when": "slow", "say": "</think>\n\nHi.", "token_delay_ms": 250}, {"when": "", "say": "</think>\n\nHi."}])
    monkeypatch.setattr("antiphon.engines.mock.asyncio.sleep", sleep)
    script = tmp_path / "one.jsonl"
    script.write_text('{"when": "a", "say": "b", "token_delay_ms": 2}\n')
    assert load_script(script)[0].token_delay_ms == 2
    engine = server.pipeline.engine

    def delays(text):
        slept.clear()
        ids = server.pipeline.model.tokenizer.encode(text, added=True)
        asyncio.run(spoken(engine, ids))
        return set(slept)

    assert delays("be slow") == {0.25}
    assert delays("be quick") == {0}


async def spoken(engine, ids):
    from antiphon.engines.base import Job
    from antiphon_turns.request import Sampling

    job = Job(request_id="r", prompt_ids=ids, max_tokens=50, sampling=Sampling(), stop_ids=frozenset())
    return [chunk async for chunk in engine.generate(job)]
