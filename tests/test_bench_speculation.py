"""What the first token of the next turn waits for, with and without speculative prefill: exact, because the clock is virtual."""

import asyncio

import msgspec
import pytest
from bench.speculation import BLOCK_TOKENS, FRAME_TOKENS, NEWS_WORDS, REASONING_WORDS, WRITTEN_WORDS, figure_table, figures, shortfalls


@pytest.fixture(scope="module")
def found():
    return asyncio.run(figures())


def test_with_speculation_a_turn_pays_only_for_what_is_new(found):
    assert shortfalls(found) == []
    for one in (one for one in found if one.ahead):
        assert NEWS_WORDS <= one.news_tokens <= one.computed_tokens <= one.news_tokens + FRAME_TOKENS + BLOCK_TOKENS


def test_without_it_a_turn_pays_for_what_the_policy_has_moved(found):
    kept, left_out, behind_an_answer = (one for one in found if not one.ahead)
    # Where nothing moves there is nothing to gain.
    assert kept.computed_tokens <= kept.news_tokens + FRAME_TOKENS + BLOCK_TOKENS
    assert left_out.computed_tokens > WRITTEN_WORDS and behind_an_answer.computed_tokens > WRITTEN_WORDS
    assert left_out.prompt_tokens < kept.prompt_tokens - REASONING_WORDS
    for without, ahead in zip(found[::2], found[1::2], strict=True):
        assert without.prompt_tokens == ahead.prompt_tokens
        assert ahead.ttft_ms <= without.ttft_ms
    (line,) = shortfalls([msgspec.structs.replace(left_out, ahead=True)])
    assert str(left_out.computed_tokens) in line
    assert "result, reasoning left out" in figure_table(found)
