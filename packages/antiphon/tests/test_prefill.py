"""Who computes prompt tokens next, played through in simulated time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.prefill import SECONDS_PER_PRIORITY, Claim, Line, Pace

RATE = 200.0  # a fresh Pace believes in it
SLICE = 192


def played(jobs: dict[str, tuple[float, int, int]], until: float = 1e9) -> dict[str, float]:
    """When each job's prompt is done, in slices on one core. Jobs: arrival, tokens, priority."""
    pace = Pace(64, most=256, seconds=1.0)
    line: Line[str] = Line()
    left = {name: tokens for name, (_, tokens, _) in jobs.items()}
    arriving = sorted(jobs, key=lambda name: jobs[name][0])
    ended: dict[str, float] = {}
    now = 0.0
    claims: dict[str, Claim] = {}
    while (arriving or len(line)) and now < until:
        while arriving and (jobs[arriving[0]][0] <= now or not len(line)):
            name = arriving.pop(0)
            at, tokens, priority = jobs[name]
            now = max(now, at)
            claims[name] = Claim(arrival=at, tokens=tokens, priority=priority)
            line.wait(claims[name], name)
        name = line.in_order(pace.rate)[0][1]
        step = min(left[name], pace.tokens)
        now += step / RATE
        left[name] -= step
        if not left[name]:
            line.leave(claims[name])
            ended[name] = now
    return ended


def test_a_short_prompt_waits_for_one_slice_of_a_long_one() -> None:
    ended = played({"long": (0.0, 4096, 0), "short": (2.0, 40, 0)})
    assert ended["short"] - 2.0 <= (SLICE + 40) / RATE
    assert ended["long"] == pytest.approx((4096 + 40) / RATE)


def test_a_long_prompt_on_an_engine_slower_than_it_was_still_lets_a_short_one_pass() -> None:
    line = Line[str]()
    line.wait(Claim(arrival=0.0, tokens=4096), "long")
    line.wait(Claim(arrival=80.0, tokens=40), "short")
    assert [[name for _, name in line.in_order(rate)] for rate in (RATE, RATE / 4)] == [["long", "short"], ["short", "long"]]


def test_the_more_urgent_goes_first_whatever_its_length() -> None:
    ended = played({"short": (0.0, 400, 0), "urgent": (0.5, 4096, 1)})
    assert ended["urgent"] < ended["short"]


def test_without_priorities_prompts_of_one_length_stay_in_order() -> None:
    ended = played({f"{number}": (number / 10, 600, 0) for number in range(5)})
    assert sorted(ended, key=lambda name: ended[name]) == [f"{number}" for number in range(5)]


def test_an_endless_row_of_urgent_short_prompts_starves_nobody() -> None:
    jobs = {f"short {number}": (number * 0.2, 40, 3) for number in range(3000)} | {"long": (0.0, 1024, 0)}
    assert played(jobs, until=600.0)["long"] < 3 * SECONDS_PER_PRIORITY + 4 * 1024 / RATE + 2.0


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(1, 2000), st.integers(-20, 20)), min_size=1, max_size=12))
def test_everybody_is_served_and_no_time_is_lost(rows: list[tuple[float, int, int]]) -> None:
    jobs = {str(number): row for number, row in enumerate(rows)}
    ended = played(jobs)
    assert ended.keys() == jobs.keys()
    first = min(at for at, _, _ in rows)
    assert max(ended.values()) <= max(at for at, _, _ in rows) + sum(tokens for _, tokens, _ in rows) / RATE + 1e-6
    assert min(ended.values()) >= first


def test_what_is_computed_ahead_comes_last_and_leaving_twice_is_nothing() -> None:
    line = Line[str]()
    ahead, late = Claim(arrival=0.0, tokens=10, priority=5, ahead=True), Claim(arrival=1e6, tokens=4000, priority=-10)
    line.wait(ahead, "ahead")
    line.wait(late, "late")
    assert [name for _, name in line.in_order(RATE)] == ["late", "ahead"]
    line.leave(late)
    line.leave(late)
    assert [name for _, name in line.in_order(RATE)] == ["ahead"]


def test_slices_shrink_where_tokens_take_longer_and_are_whole_batches() -> None:
    pace = Pace(64, most=256, seconds=1.0)
    assert pace.tokens == SLICE
    for _ in range(8):
        pace.note(256, 0.5)
    assert pace.tokens == 256
    for _ in range(8):
        pace.note(128, 2.0)
    assert pace.tokens == 64
    pace.note(10, 0.001)
    assert pace.tokens == 64
