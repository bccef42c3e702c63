"""The experiments on prefixes, on a virtual clock: what the simulated engine says is exact."""

import asyncio

import pytest
from bench.prefix import (
    LEAST_RATIO,
    REASONING_WORDS,
    REPLAY_CHUNK,
    REPLAY_RULES,
    SIZE,
    arm_table,
    header_figures,
    mock_bench,
    mock_request,
    replay_figures,
    shortfalls,
)

from antiphon.simulation.clock import VirtualClock

BLOCK = 16


def opened(**extra):
    def fresh(strip):
        clock = VirtualClock()
        return mock_bench(strip=strip, clock=clock, passing=clock.run, **extra)

    return fresh


@pytest.fixture(scope="module")
def header_arms():
    return asyncio.run(header_figures(opened(), mock_request, turns=2))


def test_a_varying_header_costs_the_whole_prompt(header_arms):
    stable, varying, _ = header_arms
    assert varying.engine_ms >= LEAST_RATIO * stable.engine_ms
    assert varying.cached_tokens < 4 * BLOCK
    # The source's figures: 168, 912 and 169 ms for 52K tokens.
    assert [arm.engine_ms for arm in header_arms] == pytest.approx([168, 912, 168], rel=0.03)
    assert abs(stable.prompt_tokens - SIZE) < 0.02 * SIZE
    assert varying.first_ms == pytest.approx(varying.engine_ms, rel=0.01)


def test_a_stripped_header_costs_nothing(header_arms):
    stable, _, stripped = header_arms
    assert (stripped.prompt_tokens, stripped.cached_tokens) == (stable.prompt_tokens, stable.cached_tokens)
    assert stripped.engine_ms == stable.engine_ms
    # All but the end that differs in every request.
    assert 0 < stable.prompt_tokens - stable.cached_tokens < 100
    assert shortfalls(header_arms) == []


def test_shortfalls_are_named(header_arms):
    stable, varying, _ = header_arms
    found = shortfalls([stable, stable, varying])
    assert len(found) == 2 and "only 1.0x" in found[0] and str(varying.cached_tokens) in found[1]
    assert arm_table(header_arms).count("\n") == 4


def test_an_exact_turn_adds_nothing_and_an_edited_one_its_length():
    exact, edited = asyncio.run(replay_figures(opened(rules=REPLAY_RULES, chunk_tokens=REPLAY_CHUNK), turns=1))
    # Behind the sampled turn only the result is new.
    assert exact.prompt_tokens - exact.cached_tokens <= 3 * BLOCK
    assert exact.cached_tokens - edited.cached_tokens >= REASONING_WORDS
    assert edited.engine_ms > exact.engine_ms
