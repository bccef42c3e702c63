"""The simulated engine: what its cache holds, who goes first, how long it takes."""

import time
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.simulation.batch import Batch, BatchLimits, Request, Sampled
from antiphon.simulation.cache_events import Cleared, Removed, Stored
from antiphon.simulation.paged_cache import PagedCache
from antiphon.simulation.timing import PRESETS, Timing


def cache(blocks: int = 100, size: int = 4, now: list[float] | None = None) -> PagedCache:
    return PagedCache(blocks, size, clock=lambda: now[0] if now else 0.0)


def fill(pages: PagedCache, ids: list[int], salt: str = "", priority: int = 0) -> None:
    sequence = pages.open(ids, salt=salt, priority=priority)
    sequence.add(ids[sequence.held_tokens :])
    sequence.close()


def ids(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


def test_whole_blocks_are_found_again() -> None:
    pages = cache()
    fill(pages, ids(10))
    assert pages.match(ids(10)) == 8
    assert pages.match([*ids(6), 99, 98]) == 4
    assert pages.match(ids(10, start=1)) == 0
    assert pages.match(ids(10), salt="other tenant") == 0
    assert pages.used_blocks == 2


def test_events_tell_the_whole_story() -> None:
    pages = cache(blocks=3)
    fill(pages, ids(8))
    (stored,) = pages.take_events()
    assert isinstance(stored, Stored) and stored.parent is None and stored.token_ids == tuple(ids(8)) and len(stored.hashes) == 2
    fill(pages, [*ids(4), *ids(8, start=50)])
    one, removed, other = pages.take_events()
    # The second block of the first prompt is the only leaf that nobody holds.
    assert removed == Removed(stored.hashes[1:])
    assert isinstance(one, Stored) and one.parent == stored.hashes[0]
    assert isinstance(other, Stored) and other.parent == one.hashes[0]
    pages.clear()
    assert pages.take_events() == [Cleared()] and pages.used_blocks == 0


def test_eviction_goes_by_priority_then_age_and_spares_pins() -> None:
    now = [0.0]
    pages = cache(blocks=4, now=now)
    fill(pages, ids(4), priority=1)
    fill(pages, ids(4, start=10))
    fill(pages, ids(4, start=20))
    assert pages.pin(ids(4, start=10), 60) == 4
    fill(pages, ids(8, start=30))
    assert [pages.match(ids(4, start=n)) for n in (0, 10, 20)] == [4, 4, 0]
    now[0] = 61
    fill(pages, ids(8, start=40))
    assert [pages.match(ids(4, start=n)) for n in (0, 10)] == [4, 0]


def test_pins_are_bounded() -> None:
    pages = cache(blocks=4)
    fill(pages, ids(16))
    assert pages.pin(ids(16), 60) == 8


def test_pins_yield_to_a_sequence_that_is_alone() -> None:
    pages = cache(blocks=4)
    fill(pages, ids(8))
    pages.pin(ids(8), 60)
    batch = Batch(pages, Timing())
    batch.add(Request(prompt_ids=ids(12, start=50), output_ids=ids(4)))
    assert run(batch)[1][-1][1].ended
    assert pages.match(ids(8)) == 0


def test_clear_spares_what_runs_and_forgets_what_was_pinned() -> None:
    pages = cache(blocks=10)
    running = pages.open([])
    running.add(ids(8))
    fill(pages, [*ids(4), *ids(8, start=50)])
    pages.pin(ids(4), 60)
    pages.take_events()
    pages.clear()
    (removed,) = pages.take_events()
    assert isinstance(removed, Removed) and len(removed.hashes) == 2 and pages.match(ids(8)) == 8
    running.close()
    fill(pages, ids(40, start=100))
    assert pages.match(ids(8)) == 0 and pages.used_blocks == 10


def test_the_same_prompt_again_and_again_costs_no_memory() -> None:
    pages = cache()
    for _ in range(5000):
        fill(pages, ids(8))
    assert len(pages._evictable) < 2000


def test_a_long_answer_is_counted_without_copying_the_prompt() -> None:
    prompt = array("I", range(50_000))
    batch = Batch(PagedCache(10_000, 16, clock=lambda: 0.0), Timing())
    batch.add(Request(prompt_ids=prompt, output_ids=ids(2000)))
    started = time.process_time()
    run(batch)
    # Copied for every token it takes ten times as long.
    assert time.process_time() - started < 0.6


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 2)), max_size=30))
def test_accounting_never_breaks(prompts: list[tuple[int, int, int]]) -> None:
    pages = cache(blocks=8)
    known: set[int] = set()
    open_ones = []
    for base, length, priority in prompts:
        prompt = ids(length, start=base * 7)
        held = pages.match(prompt)
        sequence = pages.open(prompt, priority=priority)
        assert sequence.held_tokens == held
        sequence.add(prompt[held:])
        open_ones.append(sequence)
        if len(open_ones) > 2:
            open_ones.pop(0).close()
        assert 0 <= pages.used_blocks <= 8
        for event in pages.take_events():
            if isinstance(event, Stored):
                assert event.parent is None or event.parent in known
                known.update(event.hashes)
            elif isinstance(event, Removed):
                assert known.issuperset(event.hashes)
                known.difference_update(event.hashes)
    for sequence in open_ones:
        sequence.close()
    pages.clear()
    assert pages.used_blocks == 0


def run(batch: Batch, limit: int = 10_000) -> tuple[float, list[tuple[float, Sampled]]]:
    now, out = 0.0, []
    for _ in range(limit):
        if not len(batch):
            return now, out
        step = batch.step()
        now += step.seconds
        out += [(now, sampled) for sampled in step.sampled]
    raise AssertionError("the batch does not come to an end")


def test_answers_are_whole_and_in_order() -> None:
    batch = Batch(cache(blocks=1000), Timing())
    keys = [batch.add(Request(prompt_ids=ids(20, start=n), output_ids=ids(7, start=100 * n))) for n in range(5)]
    _, out = run(batch)
    for number, key in enumerate(keys):
        mine = [sampled for _, sampled in out if sampled.key == key]
        assert [token for sampled in mine for token in sampled.ids] == ids(7, start=100 * number)
        assert [sampled.ended for sampled in mine] == [False] * 6 + [True]
        assert mine[0].cached_tokens == 0 and all(sampled.cached_tokens is None for sampled in mine[1:])


def test_the_next_turn_finds_prompt_and_answer() -> None:
    batch = Batch(cache(blocks=1000), Timing())
    batch.add(Request(prompt_ids=ids(20), output_ids=ids(8, start=20)))
    run(batch)
    batch.add(Request(prompt_ids=ids(40), output_ids=[1]))
    assert run(batch)[1][0][1].cached_tokens == 28


@pytest.mark.parametrize(("cold", "seconds"), [(True, 0.912), (False, 0.168)])
def test_b200_shows_the_source_figures(cold: bool, seconds: float) -> None:  # noqa: FBT001 - a table's column
    batch = Batch(PagedCache(10_000, 16, clock=lambda: 0.0), PRESETS["b200"])
    if not cold:
        batch.add(Request(prompt_ids=ids(52_000), output_ids=[1]))
        run(batch)
    batch.add(Request(prompt_ids=ids(52_000), output_ids=[1]))
    assert run(batch)[0] == pytest.approx(seconds, rel=0.02)


def test_an_urgent_request_overtakes_those_that_wait() -> None:
    batch = Batch(cache(blocks=10_000), Timing(step=0.01, token=0.001), BatchLimits(sequences=2))
    for n in range(10):
        batch.add(Request(prompt_ids=ids(100, start=n), output_ids=ids(5)))
    batch.step()
    urgent = batch.add(Request(prompt_ids=ids(10), output_ids=[1], priority=5))
    _, out = run(batch)
    ends = [sampled.key for _, sampled in out if sampled.ended]
    assert ends.index(urgent) == 2


def test_sequences_without_room_are_computed_again_and_lose_nothing() -> None:
    batch = Batch(cache(blocks=12), Timing())
    keys = [batch.add(Request(prompt_ids=ids(16, start=100 * n), output_ids=ids(16, start=7 * n))) for n in range(4)]
    _, out = run(batch)
    assert batch.preempted > 0
    for number, key in enumerate(keys):
        assert [token for _, sampled in out if sampled.key == key for token in sampled.ids] == ids(16, start=7 * number)


def test_a_cancelled_sequence_leaves_its_pages_findable() -> None:
    pages = cache()
    batch = Batch(pages, Timing())
    key = batch.add(Request(prompt_ids=ids(20), output_ids=ids(50)))
    batch.step()
    batch.cancel(key)
    assert len(batch) == 0 and pages.match(ids(20)) == 20
    assert batch.step().sampled == ()
    with pytest.raises(ValueError, match="larger than the cache"):
        batch.add(Request(prompt_ids=ids(1000), output_ids=[1]))
