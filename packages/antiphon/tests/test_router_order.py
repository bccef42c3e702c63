"""Choosing without a look at every target is the choice that a look at every target makes."""

from array import array
from collections.abc import Collection
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.engines.base import Placement
from antiphon.router.ask import Answer, Ask, Placed, Queued, WorkerInfo
from antiphon.router.bits import Holders, TargetBits
from antiphon.router.cost import CostWeights
from antiphon.router.hashing import extend, root_of
from antiphon.router.index import PrefixIndex
from antiphon.router.kv_blocks import TargetBlocks, levels
from antiphon.router.kv_pipe import Record
from antiphon.router.order import LoadOrder, LoadOrders
from antiphon.router.policy import cheapest, cheapest_of_all, least_loaded, longest_unchosen
from antiphon.router.router import Router, RouterOptions
from antiphon.router.sight import credits_of
from antiphon.router.targets import Target
from antiphon.simulation.fleet import EventView
from antiphon_turns import RouterMode

BLOCK = 16
INFO = WorkerInfo(name="any")


def target(name: str, prefill: int, decode: float, last_chosen: int) -> Target:
    return Target(name=name, info=INFO, rank=0, full_at=0, prefill=prefill, decode=decode, last_chosen=last_chosen)


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 80), st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 6))
def test_the_same_choice_as_the_scan(random: Random, count: int, scale: float, levels: int) -> None:
    targets = [
        target(f"w{n}", random.choice([0, 0, 16, 160, 1600]), float(random.choice([0, 32, 320])), random.choice([0, n + 1]))
        for n in range(count)
    ]
    order = LoadOrder(scale)
    order.fill(targets)
    for _ in range(3):
        for one in random.sample(targets, count // 2):
            one.prefill += random.choice([0, 16, 48])
            one.last_chosen += random.choice([0, 100])
            order.mark(one)
        prompt = 1600
        worths: list[tuple[float, Collection[str]]] = [
            (random.choice([16.0, 160.0, 1600.0]), {one.name for one in random.sample(targets, random.randint(0, count))})
            for _ in range(levels)
        ]
        home = random.choice([None, "w0", "nobody"])
        scanned = cheapest(targets, prompt, credits_of(worths), prefill_scale=scale, home=home, bonus=128)
        assert cheapest_of_all(order, prompt, worths, prefill_scale=scale, home=home, bonus=128) is scanned
        if scale == 1:
            assert order.least() is least_loaded(targets)


@pytest.mark.parametrize("busy", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("groups", ["bits", "foreign bits", "sets"])
def test_the_same_choice_as_the_scan_of_a_thousand(busy: float, groups: str) -> None:
    """Most are equal, whole groups are busy, and loads move between the choices so that chunks split and join."""
    random = Random(f"{busy} {groups}")
    targets = [target(f"w{n}", 1600 if random.random() < busy else 0, 0.0, random.choice([0, 7, n])) for n in range(1000)]
    names = [one.name for one in targets]
    bits = TargetBits()
    order = LoadOrder(1.0, bits=bits)
    order.fill(targets)
    own = bits if groups == "bits" else TargetBits()
    for name in reversed(names):
        own.hold(name)
    for turn in range(60):
        for one in random.sample(targets, 60):
            one.prefill = random.choice([0, 160, 1600, 1616])
            one.last_chosen = random.choice([one.last_chosen, 1000 + turn])
            order.mark(one)
        loaded = [one.name for one in targets if one.prefill] or names
        worths: list[tuple[float, Collection[str]]] = []
        for worth in (16.0, 160.0, 1440.0, 1600.0):
            among = random.choice([names, loaded])
            held = set(random.sample(among, min(random.choice([0, 3, 17, 40, 400, 1000]), len(among))))
            worths.append((worth, held if groups == "sets" else Holders(own.mask(held), own)))
        home = random.choice([None, "w0"])
        scanned = cheapest(targets, 1600, credits_of(worths), prefill_scale=1.0, home=home, bonus=128)
        assert cheapest_of_all(order, 1600, worths, prefill_scale=1.0, home=home, bonus=128) is scanned
        assert [entry[:3] for entry in order] == sorted((one.prefill + one.decode, one.last_chosen, n) for n, one in enumerate(targets))


def test_the_members_of_a_group_are_found_without_the_others() -> None:
    targets = [target(f"w{n}", 0, float(n), 0) for n in range(1000)]
    bits = TargetBits()
    order = LoadOrder(1.0, bits=bits)
    order.fill(targets)
    few = Holders(bits.mask(["w990", "w500", "nobody"]), bits)
    assert [entry[3].name for entry in order.members(few)] == ["w500", "w990"]
    targets[990].decode = 3.5
    order.mark(targets[990])
    assert [entry[3].name for entry in order.members(few)] == ["w990", "w500"]


def test_bits_that_nobody_holds_are_given_to_others() -> None:
    bits = TargetBits()
    first = bits.hold("a")
    assert bits.hold("a") == first and bits.hold("b") != first
    bits.release("a")
    assert bits.of("a") == first
    bits.release("a")
    assert bits.of("a") == 0 and bits.hold("c") == first and list(bits.names(first)) == ["c"]


def test_routers_of_workers_that_come_and_go_keep_no_bits() -> None:
    view = EventView()
    router = Router(RouterOptions(), clock=lambda: 0.0, random=Random(1), view=view)
    ids = array("I", range(400))
    for number in range(300):
        router.join(WorkerInfo(name=f"w{number}"))
        ask = Ask(key=str(number), prompt_tokens=len(ids), ids=ids, arrival=0.0, placement=Placement(session="s"))
        assert isinstance(router.ask(ask), Placed)
        router.done(ask.key)
        router.leave(f"w{number}")
    assert view.bits.hold("another") == 1


def test_targets_that_were_replaced_move_nobody() -> None:
    order = LoadOrder(1.0)
    old, new, other = target("a", 10, 0, 1), target("a", 0, 0, 2), target("b", 5, 0, 3)
    order.fill([new, other])
    old.prefill = 0
    order.mark(old)
    assert order.least() is new and order.entry("c") is None
    new.prefill = 50
    order.mark(new)
    assert [entry[3].name for entry in order] == ["b", "a"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20), st.sampled_from(["store", "remove"])), max_size=30), st.integers(1, 20))
def test_levels_of_the_index_are_its_depths(changes: list[tuple[int, int, str]], length: int) -> None:
    index = PrefixIndex()
    hashes = extend(array("I", range(20 * BLOCK)), root_of(""), BLOCK)
    held: dict[str, set[int]] = {}
    for worker, depth, what in changes:
        mine = held.setdefault(f"w{worker}", set())
        if what == "store":
            index.store(f"w{worker}", hashes[:depth])
            mine.update(hashes[:depth])
        else:
            index.remove(f"w{worker}", hashes[depth - 1 :])
            mine.difference_update(hashes[depth - 1 :])
    depths = index.depths(hashes[:length])
    assert depths == {name: n for name, mine in held.items() if (n := sum(block in mine for block in hashes[:length]))}
    levels = index.levels(hashes[:length])
    assert {name: depth for depth, holders in levels for name in holders} == depths
    assert all(len(holders) == len(list(holders)) and all(name in holders for name in holders) for _, holders in levels)
    assert not any("nobody" in holders for _, holders in levels)


def test_blocks_missing_in_the_middle_end_a_level() -> None:
    index = PrefixIndex()
    hashes = extend(array("I", range(40 * BLOCK)), root_of(""), BLOCK)
    index.store("whole", hashes)
    index.store("gap", hashes)
    index.remove("gap", hashes[10:11])
    assert index.depths(hashes) == {"whole": 40, "gap": 10}
    assert sorted((depth, list(holders)) for depth, holders in index.levels(hashes)) == [(10, ["gap"]), (40, ["whole"])]


@pytest.mark.parametrize("mode", ["kv", "round-robin", "least-loaded"])
def test_routers_decide_alike_with_and_without_levels(mode: RouterMode) -> None:
    random = Random(5)
    # A credit above 1 takes the scan.
    scanning = RouterOptions(mode=mode, weights=CostWeights(device_credit=1.0 + 1e-12), queue_threshold=None)
    views = EventView(), EventView()
    routers = [
        Router(options, clock=lambda: 0.0, random=Random(1), view=view)
        for options, view in zip((RouterOptions(mode=mode, queue_threshold=None), scanning), views, strict=True)
    ]
    for router in routers:
        for number in range(40):
            router.join(WorkerInfo(name=f"w{number}"))
    heads = [array("I", random.choices(range(1000), k=800)) for _ in range(3)]
    sessions = [head + array("I", random.choices(range(1000), k=200)) for head in heads for _ in range(20)]
    running: list[str] = []
    for number in range(600):
        ids = random.choice(sessions)
        ids.extend(random.choices(range(1000), k=random.choice([5, 50, 400])))
        session = str(sessions.index(ids))
        ask = Ask(key=str(number), prompt_tokens=len(ids), ids=ids[:], arrival=0.0, placement=Placement(session=session))
        placed = [router.ask(ask) for router in routers]
        assert isinstance(placed[0], Placed) and placed[0] == placed[1]
        running.append(ask.key)
        for view in views:
            view.index.store(placed[0].worker, extend(ids, root_of(""), BLOCK))
        for router in routers:
            router.prefilled(str(number - 3))
            router.progressed(str(number - 1), 40)
        if len(running) > 60 and random.random() < 0.9:
            ended = running.pop(random.randrange(len(running)))
            for router in routers:
                router.done(ended)
        if number == 300:
            for router in routers:
                router.set_available("w3", available=False)
                router.leave("w4")
    assert routers[0].loads() == routers[1].loads()


def test_urgent_jobs_do_not_see_what_is_computed_behind_them() -> None:
    router = Router(RouterOptions(queue_threshold=1.0), clock=lambda: 0.0, random=Random(1), view=None)
    for name in "ab":
        router.join(WorkerInfo(name=name, batch_tokens=1000, prioritizes=True))

    def ask(key: str, tokens: int, priority: int) -> Answer:
        ids = array("I", Random(key).choices(range(99), k=tokens))
        return router.ask(Ask(key=key, prompt_tokens=tokens, ids=ids, arrival=0.0, priority=priority))

    placed = [ask(f"b{number}", 1600, 0) for number in range(2)]
    assert {one.worker for one in placed if isinstance(one, Placed)} == {"a", "b"}
    assert isinstance(ask("b2", 1600, 0), Queued), "every worker is full"
    assert isinstance(ask("u1", 1600, 5), Placed), "but not for a job that goes first"
    assert isinstance(ask("u2", 1600, 5), Placed), "on the other one"
    assert isinstance(ask("u4", 1600, 5), Queued), "its own kind counts"
    assert isinstance(ask("u3", 1600, 1), Queued), "and for the less urgent too"
    assert [one.key for one in router.prefilled("u1")] == ["u4"]
    for key in ("b0", "b1", "b2", "u1", "u2", "u3", "u4"):
        router.done(key)
    assert [(load.prefill_tokens, load.decode_tokens) for load in router.loads()] == [(0, 0), (0, 0)]


def test_so_many_priorities_have_an_order_of_their_own() -> None:
    info = WorkerInfo(name="any", prioritizes=True)
    targets = [Target(name=name, info=info, rank=0, full_at=0) for name in "ab"]
    orders = LoadOrders(1.0, most=3)
    orders.fill(targets)
    assert orders.of(-4) is orders.of(0)
    assert len({id(orders.of(priority)) for priority in (0, 5, 9)}) == 3
    assert orders.of(7) is orders.of(5) and orders.of(99) is orders.of(9)
    targets[0].prefill, targets[0].urgent[5] = 70, 20
    targets[1].prefill = 30
    for target_ in targets:
        orders.mark(target_)
    assert [orders.of(priority).least().name for priority in (0, 5, 9)] == ["b", "b", "a"]
    indifferent = LoadOrders(1.0)
    indifferent.fill([target("a", 0, 0.0, 0)])
    assert indifferent.of(9) is indifferent.of(0)


def test_modes_that_look_at_all_agree_with_their_short_ways() -> None:
    targets = [target("a", 5, 0, 3), target("b", 5, 0, 2), target("c", 9, 0, 1)]
    order = LoadOrder(1.0)
    order.fill(targets)
    assert order.least() is least_loaded(targets) is targets[1]
    assert longest_unchosen(targets) is targets[2]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 2), st.integers(0, 12)), max_size=14),
    st.integers(1, 12),
)
def test_levels_of_sets_are_the_overlaps_of_each(changes: list[tuple[int, int, int, int]], length: int) -> None:
    hashes = extend(array("I", range(12 * BLOCK)), root_of(""), BLOCK)
    targets = {f"w{number}": TargetBlocks() for number in range(4)}
    for depth, worker, tier, start in changes:
        # The device's blocks have no gaps; a gap is found only in some places.
        blocks = hashes[min(start, depth) if tier else 0 : depth]
        targets[f"w{worker}"].apply(Record(source=0, tier=tier, operation="store", hashes=blocks))
    expected = {name: overlap for name, blocks in targets.items() if (overlap := blocks.overlap(hashes[:length])) is not None}
    found = levels(targets.items(), hashes[:length])
    assert {name: overlap for overlap, names in found for name in names} == expected
    assert len({(one.device, one.host, one.disk) for one, _ in found}) == len(found)


def test_holding_all_is_an_overlap_of_all() -> None:
    hashes = extend(array("I", range(5 * BLOCK)), root_of(""), BLOCK)
    blocks = TargetBlocks()
    assert blocks.holds_all([]) and not blocks.holds_all(hashes)
    blocks.apply(Record(source=0, tier=0, operation="store", hashes=hashes[:3]))
    blocks.apply(Record(source=0, tier=1, operation="store", hashes=hashes[3:]))
    assert blocks.holds_all(hashes) and not blocks.is_plain
