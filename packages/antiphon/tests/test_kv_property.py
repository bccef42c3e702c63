"""Whatever a cache does and whichever messages get lost: once a replay has come the index holds exactly what the cache holds."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.router.feed import WorkerFeed
from antiphon.router.feed_blocks import DEVICE
from antiphon.router.kv_blocks import TargetBlocks
from antiphon.router.kv_events import EventBatch, read_batch
from antiphon.router.kv_pipe import Frames, Record, changes_frames
from antiphon.simulation.kv_wire import WireForm, encode_batch
from antiphon.simulation.paged_cache import PagedCache

BLOCK = 2
PROMPTS = st.lists(st.integers(0, 1), max_size=14)
ACTS = st.one_of(
    PROMPTS, st.tuples(st.just("salted"), PROMPTS), st.sampled_from(["clear", "lose", "lose", "restart", "audit", "refuse replays"])
)


class World:
    """An engine whose messages can be lost on their way, and the index at the far end of the pipe."""

    def __init__(self, form: WireForm, ring: int) -> None:
        self.form = form
        self.ring: deque[tuple[int, EventBatch]] = deque(maxlen=ring)
        self.at = 0.0
        self.losing = 0
        self.answers = True
        self.feed = WorkerFeed("w", block_tokens=BLOCK, replays=True, warn=lambda text: None)
        self.index = TargetBlocks()
        self.start()

    def start(self) -> None:
        self.cache = PagedCache(6, BLOCK, clock=lambda: 0.0)
        self.ring.clear()
        self.next_seq = 0

    def act(self, act: object) -> None:
        if act == "clear":
            self.cache.clear()
        elif act == "lose":
            self.losing += 1
        elif act == "restart":
            self.start()
        elif act == "audit":
            self.feed.audit()
            self.answer()
        elif act == "refuse replays":
            self.answers = False
        elif isinstance(act, tuple):
            self.fill(act[1], "salt")
        elif isinstance(act, list):
            self.fill(act, "")
        self.publish()

    def fill(self, tokens: list[int], salt: str) -> None:
        pages = self.cache.open(tokens, salt=salt)
        pages.add(tokens[pages.held_tokens :])
        pages.close()

    def publish(self) -> None:
        events = self.cache.take_events()
        if not events:
            return
        self.at += 1
        batch = read_batch(encode_batch(events, block_tokens=BLOCK, at=self.at, form=self.form))
        number, self.next_seq = self.next_seq, self.next_seq + 1
        self.ring.append((number, batch))
        if self.losing:
            self.losing -= 1
            return
        self.feed.receive(number, batch)
        self.answer()

    def answer(self) -> None:
        while (start := self.feed.wanted) is not None:
            if not self.answers:
                self.feed.replay_failed()
                continue
            for number, batch in self.ring:
                if number >= start:
                    self.feed.replayed(number, batch)
            self.feed.replay_ended()
        self.answers = True
        frames = Frames()
        for frame in changes_frames((1, change) for change in self.feed.take_changes()):
            frames.push(frame)
        for record in frames.reports():
            assert isinstance(record, Record)
            self.index.apply(record)

    def settle(self) -> None:
        self.answers = True
        self.feed.audit()
        self.answer()


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["maps", "arrays", "sglang"]), st.lists(ACTS, max_size=30))
def test_the_index_holds_what_the_cache_holds(form: WireForm, acts: list[object]) -> None:
    world = World(form, ring=1000)
    for act in acts:
        # What no replay brought is another test's matter.
        world.act(act if act != "refuse replays" else "audit")
    world.settle()
    assert world.feed.blocks.held[DEVICE] == set(world.cache._held)
    assert world.index.on_device() == set(world.cache._held)
    assert world.feed.state in ("fresh", "silent") and world.feed.lost == 0


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 3), st.lists(ACTS, max_size=40))
def test_what_is_lost_for_good_never_makes_the_index_promise_too_much(ring: int, acts: list[object]) -> None:
    world = World("maps", ring=ring)
    for act in acts:
        world.act(act)
    world.settle()
    assert world.index.on_device() == world.feed.blocks.held[DEVICE] <= set(world.cache._held)
    if not world.feed.lost:
        assert world.index.on_device() == set(world.cache._held)
