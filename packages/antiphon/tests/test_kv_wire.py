"""A simulated engine's events, as engines publish them, rebuild exactly its cache at the router."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.router.feed_blocks import DEVICE, FeedBlocks
from antiphon.router.hashing import extend, root_of
from antiphon.router.kv_events import read_batch
from antiphon.simulation.kv_wire import WireForm, encode_batch
from antiphon.simulation.paged_cache import PagedCache

BLOCK = 4
FORMS: tuple[WireForm, ...] = ("maps", "arrays", "sglang")


class Wired:
    """A cache, and a router that knows of it only by wire."""

    def __init__(self, blocks: int, form: WireForm = "maps") -> None:
        self.cache = PagedCache(blocks, BLOCK, clock=lambda: 0.0)
        self.blocks = FeedBlocks(BLOCK)
        self._form = form

    def fill(self, ids: list[int], *, salt: str = "", priority: int = 0) -> None:
        pages = self.cache.open(ids, salt=salt, priority=priority)
        pages.add(ids[pages.held_tokens :])
        pages.close()

    def publish(self) -> None:
        payload = encode_batch(self.cache.take_events(), block_tokens=BLOCK, at=1.5, rank=0, form=self._form)
        self.blocks.apply(read_batch(payload))

    def depth(self, ids: list[int], salt: str = "") -> int:
        held = self.blocks.held[DEVICE]
        hashes = extend(ids, root_of(salt), BLOCK)
        return BLOCK * next((n for n, block in enumerate(hashes) if block not in held), len(hashes))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(FORMS),
    st.lists(st.tuples(st.lists(st.integers(0, 1), max_size=30), st.integers(0, 1), st.sampled_from(["", "", "", "clear"])), max_size=25),
)
def test_the_router_knows_exactly_what_the_cache_holds(form: WireForm, prompts: list[tuple[list[int], int, str]]) -> None:
    wired = Wired(6, form)
    for prompt, priority, act in prompts:
        wired.fill(prompt, priority=priority)
        if act:
            wired.cache.clear()
        wired.publish()
        for known, _, _ in prompts:
            assert wired.depth(known) == wired.cache.match(known)
        assert len(wired.blocks) == wired.cache.used_blocks


@pytest.mark.parametrize("form", FORMS)
def test_salted_blocks_match_prompts_of_their_salt_only(form: WireForm) -> None:
    wired = Wired(20, form)
    wired.fill(list(range(12)), salt="tenant")
    wired.publish()
    assert wired.cache.match(list(range(12)), "tenant") == 12
    assert wired.depth(list(range(12))) == 0
    assert wired.depth(list(range(12)), "tenant") == 12 and wired.blocks.skipped == 0
    wired.fill([*range(12), *range(50, 58)], salt="tenant")
    wired.fill(list(range(8)))
    wired.publish()
    assert wired.depth(list(range(12))) == 8 and len(wired.blocks) == 7
    assert wired.depth([*range(12), *range(50, 58)], "tenant") == 20


@pytest.mark.parametrize("form", FORMS)
def test_blocks_filled_while_decoding_are_published(form: WireForm) -> None:
    wired = Wired(20, form)
    pages = wired.cache.open([])
    pages.add(list(range(6)))
    wired.publish()
    assert wired.depth(list(range(12))) == 4
    for token in range(6, 12):
        pages.add([token])
    wired.publish()
    assert wired.depth(list(range(12))) == 12


@pytest.mark.parametrize("form", FORMS)
def test_rank_and_an_empty_batch(form: WireForm) -> None:
    batch = read_batch(encode_batch([], block_tokens=BLOCK, at=0, rank=3, form=form))
    assert batch.rank == 3 and batch.events == ()


def test_a_cache_that_nobody_listens_to_keeps_no_events() -> None:
    cache = PagedCache(10, BLOCK, clock=lambda: 0.0, record=False)
    pages = cache.open([])
    pages.add(list(range(80)))
    pages.close()
    cache.clear()
    assert cache.take_events() == []
