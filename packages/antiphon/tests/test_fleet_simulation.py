"""The simulation of fleets: the counting cache and worker do what the ones with token ids do, and the loop loses nothing."""

from collections.abc import Callable
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.load.plan import plan
from antiphon.load.presets import PRESETS
from antiphon.load.trace import PlannedRequest, Tree, trees_of
from antiphon.load.workload import Children, Closed, Poisson, SessionClass, Workload
from antiphon.router.ask import WorkerInfo
from antiphon.router.router import RouterOptions
from antiphon.simulation.batch import Batch, BatchLimits
from antiphon.simulation.batch_worker import BatchWorker, TokenPrompts
from antiphon.simulation.count_worker import CountWorker
from antiphon.simulation.fleet import EventView, Fleet, FleetOutcome
from antiphon.simulation.fleet_worker import FleetWorker
from antiphon.simulation.paged_cache import PagedCache
from antiphon.simulation.prompts import BlockPrompts, Prompt
from antiphon.simulation.run_cache import HeldPath, RunCache
from antiphon.simulation.timing import PRESETS as SPEEDS

BLOCK = 4
LIMITS = BatchLimits(step_tokens=256, sequences=8)


def fleet(
    kind: str, workers: int, *, blocks: int = 100_000, mode: str = "kv", limits: BatchLimits = LIMITS, threshold: float | None = None
) -> Fleet:
    tokens = TokenPrompts(BLOCK)
    view = EventView(tokens.stored)
    members: dict[str, tuple[WorkerInfo, FleetWorker]] = {}
    for number in range(workers):
        name = f"w{number}"
        ear = view.listener(name)
        worker: FleetWorker
        if kind == "batch":
            worker = BatchWorker(Batch(PagedCache(blocks, BLOCK, clock=lambda: 0.0), SPEEDS["b200"], limits), ear)
        else:
            worker = CountWorker(RunCache(blocks, ear), SPEEDS["b200"], limits, BLOCK)
        members[name] = WorkerInfo(name=name, block_tokens=BLOCK, batch_tokens=limits.step_tokens), worker
    prompts = tokens if kind == "batch" else BlockPrompts(BLOCK)
    options = RouterOptions(mode=mode, queue_threshold=threshold, affinity="off")  # type: ignore[arg-type]
    return Fleet(members, prompts=prompts, view=view, block_tokens=BLOCK, options=options)


def small(rate: float, **more: object) -> Workload:
    fields = {"heads": 2, "head_tokens": 150, "turns": 4, "first_tokens": 70, "new_tokens": 90, "output_tokens": 33, "pause_seconds": 0.03}
    children = Children(probability=0.4, count=2, turns=2, first_tokens=21, new_tokens=35, output_tokens=9, pause_seconds=0.02)
    one = SessionClass(**{**fields, "children": children, **more})  # type: ignore[arg-type]
    return Workload(arrivals=Poisson(sessions_per_second=rate), classes={"a": one})


@pytest.mark.parametrize("rate", [2, 20, 80])
def test_counting_takes_as_long_as_computing(rate: float) -> None:
    trees = list(plan(small(rate), seed=1, sessions=40))
    exact, counted = (fleet(kind, 3, mode="round-robin").run(trees) for kind in ("batch", "count"))
    assert counted.classes["a"].ttft == pytest.approx(exact.classes["a"].ttft)
    assert counted.classes["a"].whole == pytest.approx(exact.classes["a"].whole)
    assert counted.classes["a"].cached_tokens == exact.classes["a"].cached_tokens
    assert counted.classes["a"].attainable_tokens == exact.classes["a"].attainable_tokens
    assert counted.computed_tokens == exact.computed_tokens


def test_routing_by_cache_counts_nearly_the_same() -> None:
    # Tokens are reported to the router in larger portions, so the loads it sees, and some of its choices, differ.
    trees = list(plan(small(20), seed=1, sessions=200))
    exact, counted = (fleet(kind, 3).run(trees).classes["a"] for kind in ("batch", "count"))
    assert counted.cached_tokens == pytest.approx(exact.cached_tokens, rel=0.03)
    medians = [sorted(one.ttft)[len(one.ttft) // 2] for one in (counted, exact)]
    assert medians[0] == pytest.approx(medians[1], rel=0.15)


def test_every_request_is_served_and_counted() -> None:
    trees = list(plan(small(50), seed=2, sessions=60))
    outcome = fleet("count", 4, threshold=1.0).run(trees)
    asked = [request for tree in trees for request in tree]
    found = outcome.classes["a"]
    assert len(found.ttft) == len(found.whole) == len(asked) and found.refused == 0
    assert found.output_tokens == sum(request.output_tokens for request in asked)
    assert len(outcome.ask_ns) == len(asked) and outcome.router_ns >= sum(outcome.ask_ns)
    assert 0 < found.cached_tokens <= found.attainable_tokens < found.prompt_tokens
    assert all(first <= whole for first, whole in zip(sorted(found.ttft), sorted(found.whole), strict=True))


def test_one_worker_with_room_attains_all_that_can_be_had() -> None:
    outcome = fleet("count", 1).run(plan(small(1), seed=2, sessions=30))
    found = outcome.classes["a"]
    assert found.cached_tokens == found.attainable_tokens


def test_urgent_requests_do_not_wait_behind_the_queue() -> None:
    background = SessionClass(head_tokens=40, turns=1, first_tokens=2000, output_tokens=20)
    urgent = SessionClass(share=0.1, priority=1000, head_tokens=40, turns=1, first_tokens=200, output_tokens=5)
    workload = Workload(arrivals=Poisson(sessions_per_second=200), classes={"background": background, "urgent": urgent})
    outcome = fleet("count", 2, threshold=1.0).run(plan(workload, seed=0, sessions=300))
    median = {name: sorted(one.ttft)[len(one.ttft) // 2] for name, one in outcome.classes.items()}
    assert outcome.most_queued > 20
    assert median["urgent"] < median["background"] / 5
    assert not outcome.classes["background"].refused


def test_a_closed_loop_and_an_end() -> None:
    workload = msgspec.structs.replace(small(1), arrivals=Closed(sessions=3))
    outcome = fleet("count", 2).run(plan(workload, seed=0, sessions=12), places=3)
    assert len(outcome.classes["a"].whole) >= 12 * 4
    cut = fleet("count", 2).run(plan(small(1), seed=0, sessions=50), until=5.0)
    assert 0 < len(cut.classes["a"].whole) < 200


# -- the cache ---------------------------------------------------------------------------------------------------


class Pair:
    """The same sequences in both caches."""

    def __init__(self, blocks: int) -> None:
        self.counted = RunCache(blocks)
        self.exact = PagedCache(blocks, BLOCK, clock=lambda: 0.0, record=False)
        self.paths, self.tokens = BlockPrompts(BLOCK), TokenPrompts(BLOCK)

    def prompts(self, make: Callable[[BlockPrompts | TokenPrompts], Prompt]) -> tuple[Prompt, Prompt]:
        return make(self.paths), make(self.tokens)

    def serve(self, request: PlannedRequest) -> tuple[int, int]:
        """What each held of the prompt before; both hold prompt and answer then, as far as there is room."""
        path, ids = self.prompts(lambda prompts: prompts.ask(request))
        found = self.counted.match(path.path), self.exact.match(ids.ids) // BLOCK
        held: HeldPath = self.counted.open(path.path, most=len(path.hashes))
        pages = self.exact.open(ids.ids)
        path, ids = self.prompts(lambda prompts: prompts.answered(request))
        held.path = path.path
        self.counted.store(held, len(path.hashes), loose=int(path.tokens % BLOCK > 0))
        pages.add(ids.ids[pages.held_tokens :])
        self.counted.close(held)
        pages.close()
        return found

    def check(self) -> None:
        assert self.counted.used_blocks == self.exact.used_blocks
        assert self.counted.evicted == self.exact.evicted


@settings(max_examples=60, deadline=None)
@given(st.integers(20, 90), st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20), st.integers(1, 9)), max_size=60))
def test_the_counting_cache_finds_and_evicts_what_the_paged_one_does(blocks: int, asked: list[tuple[int, int, int]]) -> None:
    pair = Pair(blocks)
    turns: dict[int, int] = {}
    lengths: dict[int, int] = {}
    for session, new, output in asked:
        length = lengths.get(session, 10) + new + output
        if length > BLOCK * blocks:
            continue
        lengths[session] = length
        turns[session] = turns.get(session, -1) + 1
        counted, exact = pair.serve(
            PlannedRequest(
                session=f"s{session}", turn=turns[session], head=f"h{session % 2}", head_tokens=10, new_tokens=new, output_tokens=output
            )
        )
        assert counted == exact
        pair.check()


def test_children_go_on_from_their_parents_blocks() -> None:
    pair = Pair(1000)
    first = PlannedRequest(session="a", new_tokens=50, output_tokens=13)
    child = PlannedRequest(session="b", parent="a", new_tokens=20, output_tokens=9)
    second = PlannedRequest(session="a", turn=1, new_tokens=30, output_tokens=5)
    assert pair.serve(first) == (0, 0)
    assert pair.serve(child) == (63 // BLOCK, 63 // BLOCK)
    assert pair.serve(second) == (63 // BLOCK, 63 // BLOCK)
    pair.check()


def test_held_blocks_are_not_evicted() -> None:
    prompts = BlockPrompts(BLOCK)
    one, other = (prompts.ask(PlannedRequest(session=name, new_tokens=40, output_tokens=1)) for name in "ab")
    cache = RunCache(12)
    held = cache.open(one.path, most=10)
    assert cache.store(held, 10)
    second = cache.open(other.path, most=10)
    assert not cache.store(second, 10) and cache.match(other.path) == 2
    cache.close(held)
    assert cache.room() and cache.store(second, 10) and cache.match(other.path) == 10
    assert cache.match(one.path) == 2


def test_sessions_are_forgotten_with_their_tree() -> None:
    trees: list[Tree] = trees_of(request for tree in plan(PRESETS["bursty-subagents"], seed=0, sessions=3) for request in tree)
    prompts = BlockPrompts(BLOCK)
    for tree in trees:
        for request in tree:
            prompts.ask(request)
            prompts.answered(request)
        prompts.forget(tree[0].session)
    assert not prompts._sessions and not prompts._members


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> FleetOutcome:
        return fleet("count", 5).run(plan(small(30), seed=Random(4).randrange(10), sessions=30))

    first, second = run(), run()
    assert first.classes["a"].ttft == second.classes["a"].ttft and first.computed_tokens == second.computed_tokens
