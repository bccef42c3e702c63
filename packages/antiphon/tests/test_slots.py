"""Which slot a job gets: pure choices, and laws that hold for any history."""

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.slot_count import default_slots
from antiphon.engines.slots import Choice, Need, Slots
from antiphon.engines.tokens import Tokens, shared, tokens_of

SYSTEM = range(1000, 1512)
A, B, C = range(10_000, 10_200), range(20_000, 20_200), range(30_000, 30_200)


def ids(*parts: range) -> Tokens:
    return array("I", [token for part in parts for token in part])


def need(*parts: range, **fields: Any) -> Need:
    return Need(prompt=ids(*parts), **fields)


def serve(slots: Slots, wanted: Need, now: float) -> Choice:
    """A job from its choice to its end: the slot holds the prompt afterwards."""
    choice = slots.choose(wanted, now)
    assert choice is not None
    slots.take(choice.slot, wanted)
    slots.hold(choice.slot, wanted.prompt, wanted.salt)
    slots.release(choice.slot, now)
    return choice


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40), st.integers(0, 3000))
def test_the_shared_beginning_is_what_it_says(one: list[int], other: list[int], padding: int) -> None:
    head = [7] * padding
    expected = padding + next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    assert shared(tokens_of(head + one), tokens_of(head + other)) == expected


def test_two_sessions_with_one_system_prompt_keep_their_slots_turn_after_turn() -> None:
    slots = Slots(2)
    assert serve(slots, need(SYSTEM, A[:40]), 1.0) == Choice(0, 0)
    assert serve(slots, need(SYSTEM, B[:40]), 2.0) == Choice(1, 512, source=0)
    for turn in range(1, 4):
        assert serve(slots, need(SYSTEM, A[: 40 + 40 * turn]), 2.0 * turn + 1) == Choice(0, 512 + 40 * turn)
        assert serve(slots, need(SYSTEM, B[: 40 + 40 * turn]), 2.0 * turn + 2) == Choice(1, 512 + 40 * turn)


def test_a_session_whose_last_answer_was_rewritten_goes_on_in_its_slot_and_spares_the_other() -> None:
    slots = Slots(2)
    serve(slots, need(SYSTEM, A[:100]), 1.0)
    serve(slots, need(C, B), 2.0)
    assert serve(slots, need(SYSTEM, A[:40], C[:100]), 3.0) == Choice(0, 552)


def test_a_stranger_takes_the_slot_that_is_unused_for_longest() -> None:
    slots = Slots(3)
    for now, part in ((10.0, A), (20.0, B), (15.0, C)):
        serve(slots, need(part), now)
    assert serve(slots, need(SYSTEM[:200]), 30.0).slot == 0


def test_a_small_beginning_that_all_share_is_not_worth_another_sessions_tail() -> None:
    slots = Slots(2)
    serve(slots, need(SYSTEM[:8], A), 1.0)
    assert serve(slots, need(SYSTEM[:8], B), 2.0).slot == 1


def test_nobody_but_the_same_salt_shares() -> None:
    slots = Slots(2)
    serve(slots, need(SYSTEM, A, salt="one"), 1.0)
    assert serve(slots, need(SYSTEM, A, salt="two"), 2.0) == Choice(1, 0)
    assert serve(slots, need(SYSTEM, A, salt="three"), 3.0) == Choice(0, 0)


def test_what_is_promised_is_kept_while_there_is_another_slot() -> None:
    slots = Slots(2)
    serve(slots, need(A), 1.0)
    slots.promise(0, 200, until=100.0, now=1.0)
    for now, part in ((50.0, B), (51.0, C), (52.0, SYSTEM)):
        assert serve(slots, need(part), now).slot == 1
    assert serve(slots, need(B), 101.0).slot == 0


def test_a_promise_gives_way_when_nothing_else_is_left_but_never_to_what_is_computed_ahead() -> None:
    slots = Slots(2)
    serve(slots, need(A), 1.0)
    slots.promise(0, 200, until=100.0, now=1.0)
    slots.take(1, need(B))
    assert slots.choose(need(C, speculative=True), 2.0) is None
    assert slots.choose(need(A, C, speculative=True), 2.0) == Choice(0, 200)
    assert slots.choose(need(C), 2.0) == Choice(0, 0)


def test_one_slot_is_never_promised() -> None:
    slots = Slots(2)
    serve(slots, need(A), 1.0)
    serve(slots, need(B), 2.0)
    slots.promise(0, 200, until=50.0, now=2.0)
    slots.promise(1, 200, until=100.0, now=2.0)
    assert [slots[index].promise(3.0) for index in (0, 1)] == [0, 200]


def test_an_ended_session_is_released_at_once() -> None:
    slots = Slots(2)
    serve(slots, need(A), 1.0)
    serve(slots, need(B, session="b"), 2.0)
    slots.promise(1, 200, until=100.0, now=2.0)
    slots.end_session("b")
    assert serve(slots, need(C), 3.0).slot == 1


@pytest.mark.parametrize("ended", [True, False])
def test_a_promise_that_was_given_up_does_not_stand_before_a_new_one(*, ended: bool) -> None:
    slots = Slots(3)
    serve(slots, need(A, session="a"), 1.0)
    slots.promise(0, 200, until=3600.0, now=1.0)
    if ended:
        slots.end_session("a")
    else:
        slots.hold(0, A[:50])
    slots.promise(0, 100, until=300.0, now=2.0)
    assert [slots[0].promise(now) for now in (3.0, 301.0)] == [100, 0]


def test_a_slot_that_samples_is_not_copied_and_a_busy_one_not_chosen() -> None:
    slots = Slots(2)
    serve(slots, need(SYSTEM, A), 1.0)
    slots.take(0, need(SYSTEM, A))
    assert slots.choose(need(SYSTEM, B), 2.0) == Choice(1, 512, source=0)
    slots.decode(0)
    assert slots.choose(need(SYSTEM, B), 2.0) == Choice(1, 0)
    slots.take(1, need(SYSTEM, B))
    assert slots.choose(need(C), 3.0) is None


def test_a_job_that_has_begun_learns_of_a_better_beginning() -> None:
    slots = Slots(2)
    slots.take(1, need(SYSTEM, B))
    slots.hold(0, ids(SYSTEM, A))
    assert slots.better_source(1, need(SYSTEM, B), 256) == 0
    assert slots.better_source(1, need(SYSTEM, B), 600) is None


PROMPTS = st.builds(
    lambda head, session, length: ids(SYSTEM[:head], range(session * 1000, session * 1000 + length)),
    st.sampled_from([0, 64, 512]),
    st.integers(100, 103),
    st.integers(1, 300),
)
JOBS = st.tuples(PROMPTS, st.sampled_from(["", "salt"]), st.floats(0, 100), st.booleans())


@given(st.integers(1, 4), st.lists(JOBS, max_size=25))
def test_laws_of_the_choice(count: int, jobs: list[tuple[Tokens, str, float, bool]]) -> None:
    slots, now = Slots(count), 0.0
    for prompt, salt, pause, promised in jobs:
        now += pause
        wanted = Need(prompt=prompt, salt=salt)
        promises = {index: slots[index].tokens[: slots[index].promise(now)] for index in range(count)}
        reach = slots.best_reach(wanted)
        choice = serve(slots, wanted, now)
        source = slots[choice.slot if choice.source is None else choice.source]
        assert 0 <= choice.keep <= reach < max(1, len(prompt))
        assert source.salt == salt or choice.keep == 0
        assert sum(bool(kept) for kept in promises.values()) < count
        for kept in promises.values():
            assert any(shared(kept, slots[index].tokens) == len(kept) for index in range(count))
        again = slots.choose(wanted, now)
        assert again is not None and again.keep == len(prompt) - 1
        if promised:
            slots.promise(choice.slot, len(prompt), until=now + 60, now=now)


@pytest.mark.parametrize(
    ("kv_bytes", "context", "gigabytes", "slots"),
    [
        (23_040, 8192, 8, 2),
        (23_040, 8192, 16, 4),
        (23_040, 8192, 64, 4),
        (57_344, 32_768, 16, 1),
        (None, 8192, 64, 1),
        (23_040, 8192, 0, 1),
    ],
)
def test_the_default_number_of_slots_leaves_a_laptop_its_memory(kv_bytes: int | None, context: int, gigabytes: int, slots: int) -> None:
    assert default_slots(kv_bytes, context, memory=gigabytes << 30) == slots
