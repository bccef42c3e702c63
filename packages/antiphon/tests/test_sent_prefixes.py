"""The longest prefix shared with anything sent, against the plain comparison with all of it."""

from array import array
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from antiphon.explain.prefixes import BLOCK_TOKENS, SentPrefixes, hashes_of
from antiphon.explain.sent import common_prefix

# A prompt as stretches of one id each: short descriptions of prompts that share much, and part in the middle of blocks.
PROMPTS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 300)), max_size=4).map(
    lambda stretches: array("I", [number for number, count in stretches for _ in range(count)])
)


def add(prefixes: SentPrefixes, ids: "array[int]", tenant: str = "t") -> None:
    prefixes.add(tenant, ids, hashes_of(tenant, ids))


def shared(prefixes: SentPrefixes, ids: "array[int]", tenant: str = "t") -> int:
    return prefixes.shared(tenant, ids, hashes_of(tenant, ids))


def numbers(count: int, start: int = 0) -> "array[int]":
    return array("I", range(start, start + count))


@given(st.lists(PROMPTS, max_size=8), PROMPTS)
def test_as_if_compared_with_everything(sent: Sequence["array[int]"], ids: "array[int]") -> None:
    prefixes = SentPrefixes(1 << 20)
    for prompt in sent:
        add(prefixes, prompt)
        assert shared(prefixes, prompt) == len(prompt)
    assert shared(prefixes, ids) == max((common_prefix(ids, prompt) for prompt in sent), default=0)
    assert shared(prefixes, ids, "another") == 0


@given(st.lists(PROMPTS, min_size=1, max_size=30), st.integers(0, 8000))
def test_bounded_and_never_too_much(sent: Sequence["array[int]"], bound: int) -> None:
    prefixes = SentPrefixes(bound)
    for number, prompt in enumerate(sent, 1):
        add(prefixes, prompt)
        assert prefixes.bytes <= bound
        assert all(shared(prefixes, ids) <= max(common_prefix(ids, other) for other in sent[:number]) for ids in sent)


def test_a_grown_conversation_takes_one_place() -> None:
    prefixes = SentPrefixes(1 << 20)
    for count in range(1, 3 * BLOCK_TOKENS):
        add(prefixes, numbers(count))
    assert len(prefixes) == 3
    add(prefixes, numbers(BLOCK_TOKENS // 2))
    assert len(prefixes) == 3


def test_a_known_beginning_is_not_hashed_again() -> None:
    ids = numbers(5 * BLOCK_TOKENS + 7)
    assert hashes_of("t", ids, hashes_of("t", ids[: 3 * BLOCK_TOKENS + 9])) == hashes_of("t", ids)


def test_ends_go_before_beginnings_and_old_before_new() -> None:
    """A head that everything shares stays, whenever it was sent first."""
    prefixes = SentPrefixes(40_000)
    head = numbers(4 * BLOCK_TOKENS)
    for number in range(50):
        add(prefixes, head + numbers(1000, start=1_000_000 * (number + 1)))
    assert shared(prefixes, head) == len(head)
    newest, oldest = (head + numbers(1000, start=1_000_000 * number) for number in (50, 1))
    assert shared(prefixes, newest) == len(newest)
    assert shared(prefixes, oldest) == len(head)
