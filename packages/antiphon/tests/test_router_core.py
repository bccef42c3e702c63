"""The router's pure parts: hashes, index, events, cost, queue, affinity."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.router.affinity import home_of
from antiphon.router.ask import WorkerInfo
from antiphon.router.cost import CostWeights, Overlap, credit
from antiphon.router.hashing import HashChains, extend, root_of
from antiphon.router.index import PrefixIndex
from antiphon.router.kv_events import AllCleared, BlockRemoved, BlockStored, read_batch
from antiphon.router.policy import cheapest
from antiphon.router.predicted import PredictedIndex
from antiphon.router.queue import Waiting, WaitingQueue
from antiphon.router.targets import Target

BLOCK = 4


def ids(count: int, start: int = 0) -> list[int]:
    return list(range(start, start + count))


def chain(tokens: list[int], salt: str = "") -> list[int]:
    return extend(tokens, root_of(salt), BLOCK)


# -- hashes ----------------------------------------------------------------------------------------------------------


def test_hashes_are_chained_and_salted() -> None:
    one, other = chain(ids(12)), chain([9, *ids(11, start=1)])
    assert len(one) == 3 and not set(one) & set(other)
    assert chain(ids(15)) == one
    assert not set(chain(ids(12), "tenant")) & set(one)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), max_size=40), min_size=1, max_size=6))
def test_remembered_chains_equal_fresh_ones(prompts: list[list[int]]) -> None:
    chains = HashChains(BLOCK, max_tokens=100)
    for prompt in prompts:
        assert chains.of("s", prompt) == chain(prompt)
        assert chains.of("s", prompt, "salt") == chain(prompt, "salt")


# -- index -----------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 40), st.lists(st.integers(0, 40), min_size=1, max_size=9))
def test_depths_are_those_of_a_linear_search(length: int, depths: list[int]) -> None:
    index, hashes = PrefixIndex(), chain(ids(4 * length))
    for number, depth in enumerate(depths):
        index.store(f"w{number}", hashes[:depth])
    expected = {f"w{n}": min(depth, length) for n, depth in enumerate(depths) if min(depth, length)}
    assert index.depths(hashes) == expected


def test_a_hole_ends_the_match() -> None:
    index, hashes = PrefixIndex(), chain(ids(400))
    index.store("a", hashes)
    index.remove("a", hashes[:1])
    assert index.depths(hashes) == {}
    index.store("b", hashes)
    index.remove("b", hashes[25:26])
    assert index.depths(hashes) == {"b": 25}


def test_workers_come_and_go() -> None:
    index, hashes = PrefixIndex(), chain(ids(40))
    index.store("a", hashes)
    index.store("b", hashes[:5])
    index.clear("a")
    assert index.depths(hashes) == {"b": 5} and len(index) == 5
    index.store("c", hashes[:2])
    index.store("d", hashes[:1])
    assert index.depths(hashes) == {"b": 5, "c": 2, "d": 1}
    assert index.dump()["c"] == hashes[:2]


def test_the_index_is_bounded() -> None:
    index = PrefixIndex(max_blocks=10)
    for start in range(50):
        index.store("a", chain(ids(8, start=start)))
    assert len(index) == 10 and index.evicted == 90
    assert index.depths(chain(ids(8, start=49))) == {"a": 2}


def test_predictions_expire() -> None:
    now = [0.0]
    index, hashes = PredictedIndex(5, clock=lambda: now[0], max_blocks=100), chain(ids(40))
    index.store("a", hashes)
    now[0] = 3
    index.store("b", hashes[:4])
    assert index.depths(hashes) == {"a": 10, "b": 4}
    now[0] = 6
    assert index.depths(hashes) == {"b": 4}
    index.store("b", hashes)
    index.clear("b")
    assert index.depths(hashes) == {}
    index.store("b", hashes[:2])
    assert index.depths(hashes) == {"b": 2}


PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), PROMPTS, st.sampled_from([1.0, 5.0]), st.integers(0, 2)), max_size=14), PROMPTS)
def test_predictions_are_those_of_a_plain_list(stores: list[tuple[str, list[int], float, int]], prompt: list[int]) -> None:
    now = [0.0]
    index = PredictedIndex(9, clock=lambda: now[0], max_blocks=1000)
    plain: list[tuple[str, list[int], float]] = []
    for worker, tokens, seconds, later in stores:
        now[0] += later
        index.store(worker, extend(tokens, 0, 1), seconds=seconds)
        plain.append((worker, tokens, now[0] + seconds))
    expected: dict[str, int] = {}
    for worker, tokens, until in plain:
        same = next((n for n, (one, other) in enumerate(zip(tokens, prompt, strict=False)) if one != other), min(len(tokens), len(prompt)))
        if until > now[0] and same:
            expected[worker] = max(same, expected.get(worker, 0))
    assert index.depths(extend(prompt, 0, 1)) == expected


def test_predictions_are_bounded() -> None:
    now = [0.0]
    index = PredictedIndex(100, clock=lambda: now[0], max_blocks=400)
    for start in range(0, 4000, 40):
        now[0] += 1
        index.store(f"w{start % 3}", chain(ids(40, start=start)))
        assert len(index) <= 400
    last = chain(ids(40, start=3960))
    assert index.depths(last) == {"w0": 10}
    now[0] += 1000
    for start in range(0, 4000, 40):
        index.store("x", chain(ids(40, start=9000 + start)))
    assert index.depths(last) == {}


# -- events ----------------------------------------------------------------------------------------------------------

AS_ARRAYS = [1.5, [["BlockStored", [11, 12], None, ids(8), 4, None, "GPU"], ["BlockRemoved", [11], "GPU"], ["AllBlocksCleared"]], 3]
AS_MAPS: list[Any] = [
    1.5,
    [
        {"type": "BlockStored", "block_hashes": [11, 12], "parent_block_hash": None, "token_ids": ids(8), "block_size": 4, "medium": "GPU"},
        {"type": "BlockRemoved", "block_hashes": [11], "medium": "GPU"},
        {"type": "AllBlocksCleared"},
    ],
    3,
]
OUTER_MAP = {"ts": 1.5, "events": AS_MAPS[1], "data_parallel_rank": 3}


@pytest.mark.parametrize("wire", [AS_ARRAYS, AS_MAPS, OUTER_MAP])
def test_three_wire_forms_say_the_same(wire: Any) -> None:
    batch = read_batch(msgspec.msgpack.encode(wire))
    assert batch.rank == 3 and batch.unknown == 0 and batch.at == 1.5
    assert batch.events == (BlockStored((11, 12), None, ids(8), 4, "GPU"), BlockRemoved((11,), "GPU"), AllCleared())


@pytest.mark.parametrize(
    ("event", "salt", "foreign"),
    [
        (["BlockStored", [1, 2], None, ids(8), 4, None, "GPU", "salt"], "salt", 0),
        (["BlockStored", [1, 2], 7, ids(8), 4, None, "GPU", "salt"], "salt", 0),
        (["BlockStored", [1, 2], None, ids(8), 4, None, "GPU", None, [None, None]], "", 0),
        (["BlockStored", [1, 2], None, ids(8), 4, None, "GPU", None, [["salt"], None]], "salt", 0),
        (["BlockStored", [1, 2], None, ids(8), 4, 3, "GPU", "adapter", [["adapter"], ["adapter"]]], "", 2),
        (["BlockStored", [1, 2], None, ids(8), 4, None, "GPU", None, "odd"], "", 2),
        ({**AS_MAPS[1][0], "cache_salt": "salt"}, "salt", 0),
        ({**AS_MAPS[1][0], "lora_name": "adapter"}, "", 2),
        ({**AS_MAPS[1][0], "extra_keys": [["salt"], None]}, "salt", 0),
        ({**AS_MAPS[1][0], "extra_keys": [["salt"], ["picture"]]}, "salt", 1),
        ({**AS_MAPS[1][0], "extra_keys": [["picture", "salt"], None]}, "", 2),
        ({**AS_MAPS[1][0], "extra_keys": [[["picture", 3]], None]}, "", 2),
        ({**AS_MAPS[1][0], "parent_block_hash": 7, "extra_keys": [None, ["picture"]]}, "", 1),
        ({**AS_MAPS[1][0], "parent_block_hash": 7, "extra_keys": [["picture"], None]}, "", 2),
    ],
)
def test_what_blocks_are_keyed_by_is_told(event: Any, salt: str, foreign: int) -> None:
    (found,) = read_batch(msgspec.msgpack.encode([0, [event]])).events
    assert isinstance(found, BlockStored) and (found.salt, found.foreign) == (salt, foreign)


def test_windows_are_told_from_full_attention() -> None:
    (found,) = read_batch(msgspec.msgpack.encode([0, [{**AS_MAPS[1][0], "kv_cache_spec_kind": "sliding_window"}]])).events
    assert isinstance(found, BlockStored) and not found.full_attention


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", msgspec.msgpack.encode(5), msgspec.msgpack.encode([1]), msgspec.msgpack.encode({"a": 1})]
)
def test_what_is_no_batch_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"not msgpack|no list"):
        read_batch(payload)


@given(
    st.recursive(
        st.none() | st.integers(-5, 5) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    )
)
def test_odd_events_are_counted_not_raised(event: Any) -> None:
    batch = read_batch(msgspec.msgpack.encode([0, [event, ["BlockStored", event], {"type": "BlockStored", "block_hashes": event}]]))
    assert batch.unknown + len(batch.events) == 3


# -- cost, queue, affinity -------------------------------------------------------------------------------------------


def targets_of(*loads: tuple[int, float]) -> list[Target]:
    """Targets w0, w1, ... with tokens to compute and to decode."""
    info = WorkerInfo(name="any")
    return [Target(name=f"w{n}", info=info, rank=0, full_at=0, prefill=loads[n][0], decode=loads[n][1]) for n in range(len(loads))]


def choose(targets: list[Target], prompt: int, credits: dict[str, float], *, scale: float = 1.0, home: str | None = None) -> str:
    return cheapest(targets, prompt, credits, prefill_scale=scale, home=home, bonus=8).name


def test_cached_blocks_are_worth_what_their_place_says() -> None:
    assert credit(Overlap(device=20, host=8, disk=4), CostWeights()) == 20 + 6 + 1


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 60)), min_size=1, max_size=8),
    st.integers(1, 50),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_the_chosen_one_costs_least_by_the_formula(workers: list[tuple[int, int, int]], prompt: int, scale: float) -> None:
    costs = {
        f"w{n}": scale * max(prefill + prompt - cached, 0) + decode + prompt - (8 if n == 1 else 0)
        for n, (prefill, decode, cached) in enumerate(workers)
    }
    credits = {f"w{n}": float(cached) for n, (_, _, cached) in enumerate(workers)}
    chosen = choose(targets_of(*((prefill, decode) for prefill, decode, _ in workers)), prompt, credits, scale=scale, home="w1")
    assert costs[chosen] == min(costs.values())


def test_cache_load_and_home_weigh_against_each_other() -> None:
    idle = targets_of((0, 0), (0, 0))
    assert choose(idle, 100, {"w0": 90}) == "w0"
    assert choose(targets_of((100, 0), (0, 0)), 100, {"w0": 90}) == "w1"
    assert choose(idle, 100, {}, home="w1") == "w1"
    assert choose(targets_of((0, 0), (0, 9)), 100, {}, home="w1") == "w0"


def test_ties_go_round() -> None:
    targets, chosen = targets_of(*[(0, 0.0)] * 4), []
    for turn in range(1, 9):
        found = choose(targets, 10, {})
        next(target for target in targets if target.name == found).last_chosen = turn
        chosen.append(found)
    assert chosen == ["w0", "w1", "w2", "w3"] * 2


def test_sessions_move_only_with_their_worker() -> None:
    sessions = [f"s{n}" for n in range(2000)]
    workers = [f"w{n}" for n in range(8)]
    before = {session: home_of(session, workers) for session in sessions}
    assert max(Counter(before.values()).values()) < 2 * 2000 / 8
    after = {session: home_of(session, workers[1:]) for session in sessions}
    assert all(after[session] == home for session, home in before.items() if home != "w0")
    assert home_of("s", reversed(workers)) == home_of("s", workers) and home_of("s", []) is None


def test_priority_is_a_head_start_and_nothing_starves() -> None:
    queue = WaitingQueue(100)
    queue.push(Waiting(key="old", arrival=0))
    queue.push(Waiting(key="urgent", arrival=2, priority=5))
    queue.push(Waiting(key="later urgent", arrival=20, priority=5))
    queue.push(Waiting(key="sensitive", arrival=21, head_start=10))
    queue.push(Waiting(key="first of all", arrival=30, strict_priority=1))
    assert [one.key for one in queue] == ["first of all", "urgent", "old", "sensitive", "later urgent"]
    assert [queue.pop(31).key for _ in range(5)] == ["first of all", "urgent", "old", "sensitive", "later urgent"]  # type: ignore[union-attr]
    assert queue.pop(31) is None


def test_strict_priority_cannot_starve_the_rest() -> None:
    queue, now, waited = WaitingQueue(10_000), 0.0, None
    queue.push(Waiting(key="plain", arrival=0))
    while waited is None:
        now += 1
        queue.push(Waiting(key=f"strict{now}", arrival=now, strict_priority=9))
        found = queue.pop(now)
        waited = now if found is not None and found.key == "plain" else None
    assert waited <= 61


def test_a_full_queue_says_so() -> None:
    queue = WaitingQueue(2)
    assert queue.push(Waiting(key="a", arrival=0)) and queue.push(Waiting(key="b", arrival=1))
    assert not queue.push(Waiting(key="c", arrival=2))
    assert queue.remove("a") and not queue.remove("a") and len(queue) == 1
    assert queue.push(Waiting(key="c", arrival=2))
    assert [queue.pop(3).key, queue.pop(3).key] == ["b", "c"]  # type: ignore[union-attr]
