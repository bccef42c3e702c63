"""What slots tell of their contents: a reader of the events always knows exactly which blocks are held."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.slot_blocks import SlotBlocks
from antiphon.engines.slots import Slots
from antiphon.router.hashing import extend, root_of
from antiphon.simulation.cache_events import CacheEvent, Cleared, Removed, Stored

BLOCK = 4


def chain(tokens: "array[int]", salt: str = "") -> list[int]:
    return extend(tokens, root_of(salt), BLOCK)


class Reader:
    """A router's side: what the events say."""

    def __init__(self) -> None:
        self.held: dict[int, int | None] = {}

    def read(self, events: list[CacheEvent]) -> None:
        for event in events:
            if isinstance(event, Stored):
                assert not self.held.keys() & set(event.hashes)
                assert event.parent is None or event.parent in self.held
                parent = root_of(event.salt) if event.parent is None else event.parent
                assert tuple(extend(event.token_ids, parent, BLOCK)) == event.hashes
                self.held.update(dict.fromkeys(event.hashes))
            elif isinstance(event, Removed):
                for block_hash in event.hashes:
                    del self.held[block_hash]
            else:
                assert isinstance(event, Cleared)
                self.held.clear()


def test_a_shared_block_is_gone_when_the_last_slot_loses_it() -> None:
    blocks = SlotBlocks(2, 64, block_tokens=BLOCK, record=True)
    slots = Slots(2, blocks=blocks)
    one, other = array("I", range(9)), array("I", [*range(4), 50, 51, 52, 53])
    slots.hold(0, one)
    slots.hold(1, other)
    stored, second = blocks.take_events()
    assert stored == Stored(tuple(chain(one)), None, tuple(range(8)))
    assert second == Stored((chain(other)[1],), chain(other)[0], (50, 51, 52, 53))
    slots.hold(0, array("I"))
    assert blocks.take_events() == [Removed((chain(one)[1],))]
    slots.hold(1, array("I", [9]))
    assert blocks.take_events() == [Removed(tuple(chain(other)))]
    assert blocks.total_blocks == 32


def test_nothing_is_kept_for_nobody() -> None:
    blocks = SlotBlocks(1, 64, block_tokens=BLOCK, record=False)
    Slots(1, blocks=blocks).hold(0, array("I", range(32)))
    assert (blocks.take_events(), blocks.used_blocks) == ([], 0)


CONTENTS = st.tuples(st.integers(0, 2), st.lists(st.integers(0, 1), max_size=24), st.sampled_from(["", "salt"]))


@given(st.lists(CONTENTS, max_size=30), st.integers(1, 5))
def test_the_events_tell_exactly_what_is_held(history: list[tuple[int, list[int], str]], every: int) -> None:
    blocks = SlotBlocks(3, 24, block_tokens=BLOCK, record=True)
    slots, reader = Slots(3, blocks=blocks), Reader()
    for number, (index, tokens, salt) in enumerate(history):
        slots.hold(index, array("I", tokens), salt)
        if number % every == 0:
            reader.read(blocks.take_events())
            held = {block for i in range(3) for block in chain(slots[i].tokens, slots[i].salt)}
            assert reader.held.keys() == held
            assert blocks.used_blocks == len(held)
    blocks.clear()
    reader.read(blocks.take_events())
    assert not reader.held
