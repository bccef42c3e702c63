"""The router: modes, wishes, affinity, queue, ranks; whatever happens, it keeps count, and nothing waits for ever."""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engines.base import Placement
from antiphon.router.affinity import home_of
from antiphon.router.ask import Ask, Placed, Queued, Refused, Released, WorkerInfo
from antiphon.router.cost import Overlap
from antiphon.router.hashing import extend, root_of
from antiphon.router.index import PrefixIndex
from antiphon.router.router import Router, RouterOptions
from antiphon_turns import RouterMode, RoutingWish

BLOCK = 16


class View:
    """Events of workers, as an index of them."""

    def __init__(self) -> None:
        self.index = PrefixIndex()
        self.live: set[str] = set()
        self.sent: list[tuple[str, int]] = []

    def overlaps(self, hashes: Sequence[int]) -> Mapping[str, Overlap]:
        return {name: Overlap(device=depth) for name, depth in self.index.depths(hashes).items()}

    def is_live(self, target: str) -> bool:
        return target in self.live

    def routed(self, target: str, hashes: Sequence[int]) -> None:
        self.sent.append((target, len(hashes)))


class World:
    """A router with workers w0, w1, ... and time that stands still."""

    def __init__(self, workers: int = 2, *, info: Mapping[str, Any] | None = None, **options: Any) -> None:
        self.now = 0.0
        self.view = View()
        self.asked = 0
        self.router = Router(RouterOptions(**options), clock=lambda: self.now, random=Random(7), view=self.view)
        for number in range(workers):
            self.router.join(WorkerInfo(name=f"w{number}", batch_tokens=1000, **(info or {})))

    def ask(self, tokens: "array[int] | int" = 160, session: str | None = None, **fields: Any) -> Any:
        """The answer; its prompt is unlike any other where only a length is given."""
        self.asked += 1
        ids = array("I", range(self.asked << 20, (self.asked << 20) + tokens)) if isinstance(tokens, int) else tokens
        placement: dict[str, Any] = {
            "session": session,
            **{name: fields.pop(name) for name in ("wish", "parent", "osl", "strict_priority") if name in fields},
        }
        key = fields.pop("key", f"k{self.asked}")
        return self.router.ask(Ask(key=key, prompt_tokens=len(ids), ids=ids, arrival=self.now, placement=Placement(**placement), **fields))

    def place(self, tokens: "array[int] | int" = 160, session: str | None = None, **fields: Any) -> Placed:
        found = self.ask(tokens, session, **fields)
        assert isinstance(found, Placed), found
        return found

    def done(self, *placed: Placed) -> None:
        for one in placed:
            self.router.done(one.key)


def prompt(start: int, length: int = 1600) -> "array[int]":
    return array("I", range(start, start + length))


def keys(released: list[Released]) -> list[str]:
    assert all(isinstance(one, Placed) for one in released)
    return [one.key for one in released]


# -- load and cache --------------------------------------------------------------------------------------------------


def test_load_counts_at_dispatch_and_ties_go_round() -> None:
    world = World(4)
    assert Counter(world.place(32_000).worker for _ in range(4)) == {f"w{n}": 1 for n in range(4)}
    again = World(4, queue_threshold=None)
    assert max(Counter(again.place(32_000).worker for _ in range(40)).values()) == 10


def test_a_prompt_goes_where_its_beginning_was_sent() -> None:
    world = World(4)
    first = world.place(prompt(0))
    world.done(first)
    grown = world.place(prompt(0, 2000))
    assert (grown.worker, grown.reason, grown.cached_tokens) == (first.worker, "cache", 1600)
    world.done(grown)
    world.now += 121
    assert world.place(prompt(0, 2000)).cached_tokens == 0


def test_what_engines_tell_counts_and_shortens_predictions() -> None:
    world = World(2)
    world.view.index.store("w1", extend(prompt(0), root_of(""), BLOCK))
    world.view.live = {"w0", "w1"}
    found = world.place(prompt(0))
    assert (found.worker, found.cached_tokens) == ("w1", 1599)
    assert world.view.sent == [("w1", 100)]
    world.done(found)
    world.view.index.clear("w1")
    world.now += 4
    assert world.place(prompt(0), key="soon").cached_tokens == 1599
    world.router.done("soon")
    world.now += 6
    assert world.place(prompt(0)).cached_tokens == 0


def test_a_restart_forgets_what_was_predicted() -> None:
    world = World(2)
    first = world.place(prompt(0))
    world.done(first)
    world.router.join(WorkerInfo(name=first.worker))
    assert world.place(prompt(0)).cached_tokens == 0


def test_a_busy_worker_gives_its_prefix_away() -> None:
    world = World(2, queue_threshold=None)
    first = world.place(prompt(0))
    world.done(first)
    busy = [world.place(2000, wish=RoutingWish(worker=first.worker)) for _ in range(2)]
    assert world.place(prompt(0)).worker != first.worker
    world.done(*busy)


def test_workers_with_blocks_of_another_size_are_compared_in_tokens() -> None:
    world = World(1)
    world.router.join(WorkerInfo(name="large", block_tokens=64))
    world.done(world.place(prompt(0), wish=RoutingWish(worker="large")))
    found = world.place(prompt(0))
    assert (found.worker, found.cached_tokens) == ("large", 1599)
    assert world.router.held_tokens(Ask(key="x", prompt_tokens=1600, ids=prompt(0), arrival=0)) == {"w0": 0, "large": 1600}


def test_the_salt_keeps_tenants_apart() -> None:
    world = World(2)
    world.done(world.place(prompt(0), salt="one"))
    assert world.place(prompt(0), salt="other").cached_tokens == 0


def test_known_hashes_need_no_ids() -> None:
    world = World(2)
    first = world.place(prompt(0))
    world.done(first)
    asked = Ask(key="h", prompt_tokens=1600, arrival=0, hashes={BLOCK: extend(prompt(0), root_of(""), BLOCK)})
    found = world.router.ask(asked)
    assert isinstance(found, Placed) and (found.worker, found.cached_tokens) == (first.worker, 1599)


def test_ranks_are_targets_of_their_own() -> None:
    world = World(1, info={"ranks": 2})
    first, second = world.place(prompt(0)), world.place(prompt(50_000))
    assert {(one.worker, one.rank) for one in (first, second)} == {("w0", 0), ("w0", 1)}
    world.done(first, second)
    assert world.place(prompt(50_000), key="again").rank == second.rank
    assert world.place(wish=RoutingWish(rank=1), key="pinned").rank == 1
    assert world.place(wish=RoutingWish(rank=1), key="pinned too").reason == "wish"


# -- modes, wishes, affinity -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["round-robin", "random", "least-loaded", "power-of-two"])
def test_modes_spread_without_looking_at_prompts(mode: RouterMode) -> None:
    world = World(4, mode=mode, queue_threshold=None)
    found = [world.place(prompt(0)) for _ in range(40)]
    assert {one.reason for one in found} == {mode}
    shares = Counter(one.worker for one in found)
    assert set(shares) == {"w0", "w1", "w2", "w3"} and max(shares.values()) <= (18 if mode == "random" else 13)


def test_a_request_may_name_its_mode_and_its_worker() -> None:
    world = World(3)
    world.done(world.place(prompt(0)))
    assert world.place(prompt(0), wish=RoutingWish(mode="round-robin")).reason == "round-robin"
    assert {world.place(wish=RoutingWish(worker="w2")).worker for _ in range(5)} == {"w2"}
    unfit = world.ask(wish=RoutingWish(worker="nowhere"))
    assert isinstance(unfit, Refused) and unfit.because == "unfit" and "nowhere" in unfit.message
    world.router.set_available("w2", available=False)
    gone = world.ask(wish=RoutingWish(worker="w2"))
    assert isinstance(gone, Refused) and gone.because == "nobody" and gone.retry_after > 0 and "'w2'" in gone.message


def test_wishes_that_nobody_fulfils_leave_nothing_behind() -> None:
    world = World(2)
    sizes = []
    for round_ in range(2):
        for number in range(100):
            world.ask(wish=RoutingWish(worker=f"{round_}-{number}"))
            world.ask(wish=RoutingWish(rank=1 + number + 100 * round_))
        sizes.append(len(world.router._eligible))
    assert sizes == [0, 0]


def test_grammars_go_to_those_who_keep_to_them() -> None:
    world = World(2)
    assert world.ask(needs_grammar=True).because == "unfit"
    world.router.join(WorkerInfo(name="strict one", constrains=True))
    assert {world.place(needs_grammar=True).worker for _ in range(4)} == {"strict one"}


def test_excluded_workers_get_nothing() -> None:
    world = World(2)
    assert {world.place(exclude=frozenset({"w0"})).worker for _ in range(4)} == {"w1"}
    assert world.ask(exclude=frozenset({"w0", "w1"})).because == "nobody"


def test_soft_affinity_is_worth_a_few_blocks() -> None:
    world = World(4)
    names = [f"w{n}" for n in range(4)]
    for number in range(20):
        session = f"s{number}"
        home = home_of(session, names)
        found = world.place(64, session)
        assert found.worker == home
        busy = world.place(640, wish=RoutingWish(worker=home))
        other = world.place(64, session)
        assert other.worker != home
        world.done(found, busy, other)


def test_strict_affinity_waits_for_its_worker_and_moves_only_when_it_is_gone() -> None:
    world = World(3, affinity="strict")
    first = world.place(5000, "s")
    assert first.reason == "session" and first.worker == home_of("s", ["w0", "w1", "w2"])
    waits = world.ask(5000, "s")
    assert isinstance(waits, Queued)
    assert keys(world.router.prefilled(first.key)) == [waits.key]
    again = world.ask(5000, "s")
    (moved,) = world.router.set_available(first.worker, available=False)
    assert isinstance(moved, Placed) and moved.key == again.key and moved.worker != first.worker


def test_children_may_belong_where_their_parent_does() -> None:
    sessions = [f"child {n}" for n in range(12)]
    together, apart = World(4, affinity="strict", group_children=True), World(4, affinity="strict")
    assert len({together.place(16, one, parent="p").worker for one in sessions}) == 1
    assert len({apart.place(16, one, parent="p").worker for one in sessions}) > 1


# -- the queue -------------------------------------------------------------------------------------------------------


def test_nothing_waits_while_one_worker_has_room() -> None:
    world = World(2)
    world.place(5000)
    world.place(5000)
    waiting = [world.ask(100) for _ in range(3)]
    assert [one.ahead for one in waiting] == [0, 1, 2] and world.router.queued == 3
    assert keys(world.router.prefilled("k1")) == [one.key for one in waiting]


def test_priority_goes_first_and_a_full_queue_refuses() -> None:
    world = World(1, queue_limit=2)
    world.place(5000)
    low, high = world.ask(2000, priority=0), world.ask(2000, priority=5)
    full = world.ask(100)
    assert isinstance(full, Refused) and full.because == "full" and full.retry_after > 0
    assert keys(world.router.done("k1")) == [high.key]
    assert keys(world.router.prefilled(high.key)) == [low.key]


def test_optional_jobs_do_not_wait() -> None:
    world = World(1)
    world.place(5000)
    assert world.ask(10, optional=True).because == "optional"
    world.router.prefilled("k1")
    before = world.router.loads()
    ahead = world.place(prompt(0), optional=True)
    assert [load.prefill_tokens for load in world.router.loads()] == [load.prefill_tokens for load in before]
    assert world.place(prompt(0), key="real").cached_tokens == 1599
    world.done(ahead)


def test_those_whose_workers_are_busy_keep_nobody_else_waiting() -> None:
    world = World(1)
    world.router.join(WorkerInfo(name="g", constrains=True, batch_tokens=1000))
    world.place(5000, wish=RoutingWish(worker="g"))
    world.place(5000, wish=RoutingWish(worker="w0"))
    forced, plain = world.ask(50, needs_grammar=True), world.ask(50)
    assert keys(world.router.prefilled("k2")) == [plain.key]
    assert keys(world.router.prefilled("k1")) == [forced.key]


def test_when_all_are_gone_those_who_wait_are_told() -> None:
    world = World(1)
    world.place(5000)
    waiting = world.ask(100)
    (told,) = world.router.set_available("w0", available=False)
    assert isinstance(told, Refused) and (told.key, told.because) == (waiting.key, "nobody")
    assert world.router.queued == 0


def test_a_job_of_known_length_weighs_less_towards_its_end() -> None:
    world = World(1)
    world.place(100, osl=200, key="known")
    world.place(100, key="unknown")
    world.router.progressed("known", 100)
    world.router.progressed("unknown", 100)
    assert world.router.loads()[0].decode_tokens == 150 + 200
    world.router.progressed("known", 300)
    assert world.router.loads()[0].decode_tokens == 200


# -- whatever happens ------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "prefilled", "progressed", "done", "done", "away", "back", "join", "leave", "later"]),
        st.integers(0, 30),
        st.integers(0, 3),
    ),
    max_size=80,
)


class Tally:
    """What should be running and waiting, kept beside the router."""

    def __init__(self, world: World) -> None:
        self.world, self.router = world, world.router
        self.running: set[str] = set()
        self.waiting: set[str] = set()

    def ask(self, number: int, worker: int) -> None:
        key = f"k{number}"
        if key in self.running | self.waiting:
            return
        found = self.world.ask(200 * number + 1, f"s{worker}", key=key, priority=number % 3, needs_grammar=number % 11 == 0)
        if isinstance(found, Placed):
            self.running.add(key)
        elif isinstance(found, Queued):
            self.waiting.add(key)

    def done(self, key: str) -> None:
        self.running.discard(key)
        self.waiting.discard(key)
        self.note(self.router.done(key))

    def note(self, released: list[Released]) -> None:
        for one in released:
            self.waiting.remove(one.key)
            if isinstance(one, Placed):
                self.running.add(one.key)

    def step(self, what: str, number: int, worker: int) -> None:
        name = f"w{worker}"
        info = WorkerInfo(name=name, constrains=number % 2 == 0, batch_tokens=1000)
        steps = {
            "ask": lambda: self.ask(number, worker),
            "prefilled": lambda: self.note(self.router.prefilled(f"k{number}")),
            "progressed": lambda: self.router.progressed(f"k{number}", 7),
            "done": lambda: self.done(f"k{number}"),
            "away": lambda: self.note(self.router.set_available(name, available=False)),
            "back": lambda: self.note(self.router.set_available(name, available=True)),
            "join": lambda: self.note(self.router.join(info)),
            "leave": lambda: self.note(self.router.leave(name)),
            "later": lambda: setattr(self.world, "now", self.world.now + number),
        }
        steps[what]()


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from(["off", "soft", "strict"]), st.sampled_from(["kv", "random", "round-robin"]))
def test_no_sequence_of_asks_failures_and_cancels_leaves_anything_in_flight(
    steps: list[tuple[str, int, int]], affinity: str, mode: RouterMode
) -> None:
    tally = Tally(World(3, affinity=affinity, mode=mode, queue_limit=6, info={"ranks": 2}))
    router = tally.router
    for what, number, worker in steps:
        tally.step(what, number, worker)
        assert (router.in_flight, router.queued) == (len(tally.running), len(tally.waiting))
        assert tally.running or not tally.waiting
    while tally.running:
        key = next(iter(tally.running))
        tally.done(key)
        tally.done(key)
    assert not tally.waiting and router.in_flight == router.queued == 0
    assert all(load.active == load.prefill_tokens == load.decode_tokens == 0 for load in router.loads())


def test_nothing_starves_behind_urgent_traffic() -> None:
    world = World(1, strict_seconds=60)
    world.place(5000, key="first")
    world.ask(5000, key="background")
    last, waited = "first", None
    for second in range(1, 200):
        world.now = second
        world.ask(5000, strict_priority=9, priority=9, key=f"urgent{second}")
        (released,) = world.router.done(last)
        assert isinstance(released, Placed)
        last = released.key
        if last == "background":
            waited = released.waited
            break
    assert waited is not None and waited <= 61


def test_agent_sessions_find_nearly_all_that_was_computed() -> None:
    """Conversations with shared beginnings, many at once: the router keeps each where its prefix lies."""
    dice = Random(5)
    world = World(8, queue_threshold=None)
    histories = {n: list(range(1000 * (n % 3), 1000 * (n % 3) + 1600)) for n in range(40)}
    known: set[int] = set()
    held = possible = 0
    running: list[Placed] = []
    for _ in range(400):
        number = dice.randrange(40)
        histories[number] += [dice.randrange(10_000) for _ in range(160)]
        ids = array("I", histories[number])
        hashes = extend(ids, root_of(""), BLOCK)
        possible += BLOCK * sum(1 for block in hashes if block in known)
        found = world.place(ids, f"s{number}")
        held += found.cached_tokens
        world.router.prefilled(found.key)
        known.update(hashes)
        running.append(found)
        if len(running) > 8:
            world.done(running.pop(0))
    assert held > 0.9 * possible
