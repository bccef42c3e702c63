"""The mock engine in simulated time, on a clock that the test moves: prefill, decoding, priorities, delays."""

import asyncio
from itertools import takewhile

import pytest
from mock_stage import Stage

from antiphon.config import Settings
from antiphon.engines.mock_script import Rule
from antiphon.router.feed import WorkerFeed
from antiphon.router.feed_blocks import DEVICE
from antiphon.router.hashing import extend, root_of
from antiphon.router.kv_events import read_batch
from antiphon.serve import build
from antiphon.simulation.clock import RealClock, VirtualClock
from antiphon.simulation.kv_wire import encode_batch
from antiphon.simulation.timing import PRESETS
from antiphon_turns.errors import StreamInterrupted, WorkerRefusal


@pytest.fixture(scope="module")
def model():
    return build(Settings(engine="mock"))[0]


def test_b200_has_the_source_figures(model):
    stage = Stage(model, speed="b200")
    job = stage.job(tokens=52_000, words=10)
    (cold,) = stage.run(stage.played(job))
    (warm,) = stage.run(stage.played(job))
    assert cold[0][0] == pytest.approx(0.912, rel=0.02) and cold[0][1].cached_tokens == 0
    assert warm[0][0] == pytest.approx(0.168, rel=0.02) and warm[0][1].cached_tokens >= 51_990
    # One decoding sequence: a step a token.
    assert warm[-1][0] - warm[0][0] == pytest.approx((len(warm) - 1) * (PRESETS["b200"].step + PRESETS["b200"].sequence))
    assert warm[-1][1].finish == "stop"


def test_a_long_prefill_takes_turns_with_others(model):
    stage = Stage(model, speed="b200")
    (long, short) = stage.run(stage.played(stage.job(tokens=52_000)), stage.played(stage.job(tokens=100, seed=1, words=20), after=0.01))
    # The short one does not wait for the whole of the long prefill, and both are right.
    assert short[0][0] < long[0][0]
    assert len(short) == 21 and len(long) == 2


def test_urgent_jobs_go_first(model):
    stage = Stage(model, speed="laptop")
    normal = [stage.played(stage.job(tokens=4000, seed=seed)) for seed in range(4)]
    *others, urgent = stage.run(*normal, stage.played(stage.job(tokens=500, seed=9, priority=5), after=0.1))
    assert urgent[0][0] < min(other[0][0] for other in others)
    alone = Stage(model, speed="laptop")
    (unloaded,) = alone.run(alone.played(alone.job(tokens=500, seed=9)))
    # It waits for the step that runs, and shares its own with the next in line.
    step = PRESETS["laptop"].seconds(computed=512)
    assert urgent[0][0] <= unloaded[0][0] + 2 * step


def test_the_wait_for_the_batch_is_told(model):
    stage = Stage(model, speed="laptop")
    first, second = stage.run(stage.played(stage.job(tokens=4000)), stage.played(stage.job(tokens=10, seed=1), after=0.5))
    assert first[0][1].queue_seconds == 0
    assert second[0][1].queue_seconds == pytest.approx(PRESETS["laptop"].seconds(computed=512) - 0.5, rel=0.05)
    assert all(chunk.queue_seconds is None for _, chunk in second[1:])


def test_tokens_leave_together_and_delays_add_up(model):
    rule = Rule(when="slow", say="one two three four five six seven", token_delay_ms=500)
    stage = Stage(model, [rule], speed="b200", chunk_tokens=4)
    (slow,) = stage.run(stage.played(stage.job(text="slow")))
    (quick,) = stage.run(stage.played(stage.job(words=7)))
    assert [len(chunk.ids) for _, chunk in slow] == [len(chunk.ids) for _, chunk in quick] == [4, 4]
    assert slow[-1][0] == pytest.approx(quick[-1][0] + 8 * 0.5, rel=0.01)


@pytest.mark.parametrize(("text", "seconds"), [("be slow", 0.25), ("be quick", 0.0)])
def test_a_rule_has_a_delay_of_its_own(model, text, seconds):
    rules = [Rule(when="slow", say="Hi.", token_delay_ms=250), Rule(when="", say="Hi.")]
    stage = Stage(model, rules)
    (made,) = stage.run(stage.played(stage.job(text=text)))
    assert [at for at, _ in made] == [pytest.approx(seconds * (number + 1)) for number in range(len(made))]


def test_salts_share_nothing(model):
    stage = Stage(model)
    found = [stage.run(stage.played(stage.job(tokens=100, cache_salt=salt)))[0][0][1].cached_tokens for salt in ("a", "b", "a", "")]
    assert found[2] >= 100 and [found[0], found[1], found[3]] == [0, 0, 0]


def test_what_was_sampled_before_a_client_left_is_cached(model):
    for speed in ("none", "b200"):
        stage = Stage(model, speed=speed)
        job = stage.job(tokens=100, words=200)

        async def leave_early(stage=stage, job=job):
            said = []
            generation = stage.engine.generate(job)
            async for chunk in generation:
                said += chunk.ids
                if len(said) == 60:
                    break
            await generation.aclose()
            assert stage.engine.running == 0
            return said

        (said,) = stage.run(leave_early())
        next_prompt = [*job.prompt_ids, *said]
        assert stage.engine.cache.match(next_prompt) >= len(next_prompt) - 32


@pytest.mark.parametrize("speed", ["none", "b200"])
def test_a_router_can_follow_the_cache(model, speed):
    stage = Stage(model, speed=speed, kv_events=True, cache_blocks=40)
    feed = WorkerFeed("w", block_tokens=16, replays=False, warn=pytest.fail)
    held = feed.blocks.held[DEVICE]
    jobs = [stage.job(tokens=200, seed=seed, words=50) for seed in range(5)]
    for number, job in enumerate(jobs):
        stage.run(stage.played(job))
        events = stage.engine.cache.take_events()
        feed.receive(number, read_batch(encode_batch(events, block_tokens=16, at=stage.clock.now())))
        for one in jobs:
            depth = len(list(takewhile(held.__contains__, extend(one.prompt_ids, root_of(""), 16))))
            assert 16 * depth == stage.engine.cache.match(one.prompt_ids)
    assert stage.engine.cache.evicted > 0 and len(feed.blocks) == stage.engine.cache.used_blocks


def test_a_prompt_that_never_fits_is_refused_where_time_counts(model):
    with pytest.raises(WorkerRefusal, match="mock-cache-blocks"):
        stage = Stage(model, speed="b200", cache_blocks=10)
        stage.run(stage.played(stage.job(tokens=1000)))
    stage = Stage(model, cache_blocks=10)
    (made,) = stage.run(stage.played(stage.job(tokens=1000)))
    assert made[-1][1].finish == "stop" and stage.engine.cache.used_blocks == 10


def test_a_stop_ends_the_jobs_in_the_batch(model):
    stage = Stage(model, speed="laptop")

    async def close_soon():
        await stage.clock.sleep(0.5)
        await stage.engine.close()

    with pytest.raises(StreamInterrupted, match="stopped"):
        stage.run(stage.played(stage.job(words=1000)), close_soon())
    assert stage.engine.running == 0


def test_the_clock_ends_what_would_wait_for_ever():
    clock = VirtualClock()

    async def never():
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="after 0 simulated"):
        asyncio.run(clock.run(never()))
    with pytest.raises(TimeoutError):
        asyncio.run(VirtualClock().run(VirtualClock().sleep(1)))


def test_the_clock_wakes_sleepers_in_order():
    clock = VirtualClock()
    woken = []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        woken.append((seconds, clock.now()))

    async def both():
        await asyncio.gather(*map(sleeper, (3, 1, 2, 1)))

    asyncio.run(clock.run(both()))
    assert woken == [(1, 1), (1, 1), (2, 2), (3, 3)]
    with pytest.raises(TimeoutError):
        asyncio.run(clock.run(clock.sleep(10), limit=5))


def test_real_time_passes():
    clock = RealClock()
    before = clock.now()
    asyncio.run(clock.sleep(0.001))
    assert clock.now() > before
