"""What the simulated engine does beside its requests: prompts kept on somebody's behalf, prefixes computed ahead, and nobody who waits
for ever."""

import pytest
from packages.antiphon.tests.mock_stage import Stage

from antiphon.config import Settings
from antiphon.engines.base import Placement
from antiphon.serve import build
from antiphon.simulation.batch import Batch, BatchLimits, Request
from antiphon.simulation.paged_cache import PagedCache
from antiphon.simulation.timing import PRESETS, Timing

BLOCK = 16


@pytest.fixture(scope="module")
def model():
    return build(Settings(engine="mock"))[0]


SPEEDS = pytest.mark.parametrize("speed", ["none", "b200"])


class Run:
    """A batch on a clock of its own."""

    def __init__(self, *, blocks: int = 1000, timing: Timing | None = None, limits: BatchLimits | None = None) -> None:
        self.now = 0.0
        self.cache = PagedCache(blocks, 4, clock=lambda: self.now)
        self.batch = Batch(self.cache, timing or Timing(step=1.0), limits)
        self.ended: dict[int, float] = {}
        self.first: dict[int, float] = {}

    def step(self) -> None:
        step = self.batch.step()
        self.now += step.seconds
        for sampled in step.sampled:
            self.first.setdefault(sampled.key, self.now)
            if sampled.ended:
                self.ended[sampled.key] = self.now

    def until_ended(self, key: int, *, limit: int = 1000) -> float:
        for _ in range(limit):
            if key in self.ended:
                return self.ended[key]
            self.step()
        raise AssertionError("it does not end")


def ids(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


def test_a_pin_belongs_to_who_wanted_it() -> None:
    now = [0.0]
    cache = PagedCache(12, 4, clock=lambda: now[0])
    for owner, tail in (("a", 100), ("b", 200)):
        prompt = [*ids(8), *ids(4, tail)]
        pages = cache.open(prompt)
        pages.add(prompt[pages.held_tokens :])
        pages.close()
        assert cache.pin(prompt, 60, owner=owner) == 12

    def flood() -> None:
        pages = cache.open(ids(48, 1000 + int(now[0])))
        pages.add(ids(48, 1000 + int(now[0])))
        pages.close()

    def held() -> list[int]:
        return [cache.match([*ids(8), *ids(4, tail)]) for tail in (100, 200)]

    flood()
    assert held() == [12, 12]
    cache.unpin("a")
    cache.unpin("nobody")
    flood()
    assert held() == [8, 12]
    now[0] = 61
    flood()
    assert held() == [0, 0]


def test_expired_pins_make_room_for_new_ones() -> None:
    now = [0.0]
    cache = PagedCache(8, 4, clock=lambda: now[0])
    pages = cache.open([])
    pages.add(ids(32))
    pages.close()
    assert cache.pin(ids(32), 10, owner="a") == 16
    assert cache.pin(ids(32), 10, owner="b") == 16
    now[0] = 11
    assert cache.pin(ids(32), 10, owner="c") == 16


@SPEEDS
def test_a_prompt_is_kept_and_its_session_lets_it_go(model, speed):
    def cached(*, retain, ends):
        stage = Stage(model, speed=speed, cache_blocks=100)
        place = Placement(session="s")
        stage.run(stage.played(stage.job(tokens=400, seed=1, retain_seconds=retain, placement=place)))
        if ends:
            stage.run(stage.played(stage.job(placement=Placement(session="s", session_ends=True))))
            stage.run(stage.played(stage.job(placement=Placement(session="t", session_ends=True))))
        for seed in range(2, 8):
            stage.run(stage.played(stage.job(tokens=900, seed=seed)))
        return stage.engine.cache.match(stage.job(tokens=400, seed=1).prompt_ids)

    assert cached(retain=0, ends=False) < 100
    assert cached(retain=300, ends=False) >= 400 - BLOCK
    assert cached(retain=300, ends=True) < 100


@SPEEDS
def test_a_prefill_fills_the_cache_and_says_nothing(model, speed):
    stage = Stage(model, speed=speed)
    job = stage.job(tokens=3000, prefill_only=True)
    (chunks,) = stage.run(stage.played(job))
    assert [(chunk.ids, chunk.finish, chunk.cached_tokens) for _, chunk in chunks] == [([], "length", 0)]
    assert stage.engine.cache.match(job.prompt_ids) >= len(job.prompt_ids) - BLOCK
    (real,) = stage.run(stage.played(stage.job(tokens=3000)))
    assert real[0][1].cached_tokens >= len(job.prompt_ids) - BLOCK


def test_a_prefill_leaves_the_others_their_time(model):
    def first_token(*others):
        stage = Stage(model, speed="b200")
        urgent = stage.played(stage.job(tokens=2000, seed=1), after=0.1)
        return stage.run(urgent, *(stage.played(stage.job(**other)) for other in others))[0][0][0]

    alone = first_token()
    beside_a_prefill = first_token({"tokens": 100_000, "seed": 2, "prefill_only": True})
    beside_a_request = first_token({"tokens": 100_000, "seed": 2})
    # It waits for the running step to end, and shares the next one.
    step = PRESETS["b200"].seconds(computed=8192 // 16)
    assert alone < beside_a_prefill < alone + 2.5 * step
    assert beside_a_request > beside_a_prefill + 5 * step


def test_a_prefill_ends_when_a_request_needs_its_room() -> None:
    run = Run(blocks=20, limits=BatchLimits(step_tokens=64))
    spare = run.batch.add(Request(prompt_ids=ids(70), output_ids=(), prefill_only=True))
    for _ in range(10):
        run.step()
    real = run.batch.add(Request(prompt_ids=ids(60, 500), output_ids=ids(4)))
    run.until_ended(real)
    assert run.ended[spare] <= run.ended[real] and run.batch.preempted == 0
    assert run.cache.match(ids(60, 500)) == 60


def test_a_prefill_yields_its_place_in_the_batch() -> None:
    run = Run(limits=BatchLimits(step_tokens=16, sequences=1))
    spare = run.batch.add(Request(prompt_ids=ids(400), output_ids=(), prefill_only=True))
    run.step()
    first = run.batch.add(Request(prompt_ids=ids(8, 500), output_ids=[1]))
    later = run.batch.add(Request(prompt_ids=ids(400, 900), output_ids=(), prefill_only=True))
    run.step()
    assert spare in run.ended and first in run.ended
    run.until_ended(later)


def test_a_prefill_that_finds_no_room_ends_and_leaves_pins_alone() -> None:
    run = Run(blocks=4)
    real = run.batch.add(Request(prompt_ids=ids(8), output_ids=[1], retain_seconds=600))
    run.until_ended(real)
    run.until_ended(run.batch.add(Request(prompt_ids=ids(16, 100), output_ids=(), prefill_only=True)))
    assert run.cache.match(ids(8)) == 8


def overloaded(*, max_wait: float) -> tuple[float, int]:
    """How long one low request waits for its first token under a stream of high ones at 110% of capacity, and how many of these went
    before it; at most 400 s."""
    service = 1.0
    run = Run(blocks=100_000, timing=Timing(step=service), limits=BatchLimits(step_tokens=16, sequences=1, max_wait=max_wait))
    low, arrived, sent = 0, 0.0, 0
    while run.now < 400 and low not in run.first:
        while arrived <= run.now:
            run.batch.add(Request(prompt_ids=ids(8, 100 * sent), output_ids=[1], priority=10))
            sent, arrived = sent + 1, arrived + service / 1.1
            if sent == 5:
                low = run.batch.add(Request(prompt_ids=ids(8, 7), output_ids=[1]))
        run.step()
    return run.first.get(low, 400.0), len(run.first)


def test_without_a_bound_a_low_request_would_starve() -> None:
    assert overloaded(max_wait=1e9)[0] == 400.0


def test_a_low_request_goes_on_decoding() -> None:
    run = Run(blocks=100_000, limits=BatchLimits(step_tokens=16, sequences=8, max_wait=10))
    low = run.batch.add(Request(prompt_ids=ids(4), output_ids=ids(5)))
    run.step()
    for number in range(100):
        run.batch.add(Request(prompt_ids=ids(16, 100 * number), output_ids=[1], priority=5))
        run.step()
    assert run.ended[low] <= 1 + 4 * 11
