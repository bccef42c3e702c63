"""Workloads, plans, traces, and what may be asked when."""

from pathlib import Path
from random import Random

import pytest

from antiphon.load.lengths import Choice, Exponential, LogNormal, Uniform, draw, draw_count
from antiphon.load.plan import plan
from antiphon.load.presets import PRESETS, workload_of
from antiphon.load.schedule import Schedule
from antiphon.load.trace import PlannedRequest, read_trace, recorded, trees_of, write_trace
from antiphon.load.workload import Children, Closed, Poisson, SessionClass, Workload, read_workload
from antiphon_turns.errors import ConfigError

WORKLOAD = """
context_tokens = 5000
arrivals = { kind = "poisson", sessions_per_second = 2 }
[classes.urgent]
share = 1
priority = 5
turns = { kind = "choice", values = [2, 3] }
new_tokens = { kind = "lognormal", median = 100, sigma = 0.5, low = 10, high = 300 }
[classes.background]
share = 3
turns = 2
[classes.background.children]
probability = 1
count = 2
turns = 2
"""


def test_distributions_stay_within_their_bounds() -> None:
    random = Random(1)
    many = [draw(LogNormal(median=100, sigma=1.0, low=20, high=400), random) for _ in range(2000)]
    assert min(many) >= 20 and max(many) <= 400 and 80 < sorted(many)[1000] < 120
    assert all(2 <= draw(Uniform(low=2, high=3), random) <= 3 for _ in range(100))
    assert max(draw(Exponential(mean=5, high=6), random) for _ in range(200)) == 6
    assert {draw(Choice(values=(1, 7), weights=(0, 1)), random) for _ in range(20)} == {7}
    assert draw_count(0.2, random, least=1) == 1


def test_a_workload_comes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(WORKLOAD)
    workload = workload_of(str(path))
    assert workload.arrivals == Poisson(sessions_per_second=2)
    assert workload.classes["urgent"].priority == 5
    assert workload.classes["background"].children == Children(probability=1, count=2, turns=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arrivals = 1", "no workload"),
        (WORKLOAD.replace("sessions_per_second = 2", "sessions_per_second = 0"), "no session ever arrives"),
        (WORKLOAD.replace("share = 1", "share = 0").replace("share = 3", "share = 0"), "share above 0"),
        (WORKLOAD.replace("turns = 2", "turnz = 2"), "turnz"),
        (WORKLOAD.replace("probability = 1", "probability = 2"), "probability"),
    ],
)
def test_bad_workloads_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_workload(path)


def test_unknown_workloads_name_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="coding-agent"):
        workload_of("coding")
    with pytest.raises(ConfigError, match="cannot read"):
        workload_of("missing.toml")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_plan_the_same_for_the_same_seed(name: str) -> None:
    once = list(plan(PRESETS[name], seed=3, sessions=30))
    assert once == list(plan(PRESETS[name], seed=3, sessions=30))
    assert once != list(plan(PRESETS[name], seed=4, sessions=30))
    assert len(once) == 30
    flat = [request for tree in once for request in tree]
    assert trees_of(flat) == once, "a plan is a trace"
    assert all(request.new_tokens > 0 and request.output_tokens > 0 for request in flat)


def test_plans_have_shares_heads_and_children() -> None:
    path_workload = Workload(
        arrivals=Closed(sessions=1),
        classes={"a": SessionClass(heads=2, turns=2, children=Children(probability=1, count=3)), "b": SessionClass(share=0)},
    )
    trees = list(plan(path_workload, seed=0, sessions=40))
    assert {request.kind for tree in trees for request in tree} == {"a"}
    assert {request.head for tree in trees for request in tree} == {"a/0", "a/1"}
    first = trees[0]
    children = [request for request in first if request.parent == "s0" and request.turn == 0]
    assert [child.parent_turn for child in children] == [0, 0, 0, 1, 1, 1]
    assert next(request for request in first if request.session == "s0" and request.turn == 1).waits_for == ("s0.0.0", "s0.0.1", "s0.0.2")
    assert first[0].arrival is None


def test_sessions_end_at_the_context() -> None:
    workload = Workload(
        arrivals=Closed(sessions=1),
        classes={"a": SessionClass(head_tokens=100, turns=50, first_tokens=100, new_tokens=100, output_tokens=100)},
        context_tokens=1000,
    )
    (tree,) = plan(workload, seed=0, sessions=1)
    assert len(tree) == 4 and tree[-1].final and not tree[-2].final


def one(session: str, turn: int = 0, **more: object) -> PlannedRequest:
    return PlannedRequest(session=session, turn=turn, new_tokens=10, output_tokens=5, **more)  # type: ignore[arg-type]


def test_traces_come_back_as_they_were_written(tmp_path: Path) -> None:
    trees = list(plan(PRESETS["bursty-subagents"], seed=1, sessions=5))
    path = tmp_path / "trace.jsonl"
    write_trace(path, (request for tree in trees for request in tree))
    assert read_trace(path) == trees
    asked = [(request, 7.5, "said") for request in trees[0]]
    again = list(recorded(asked))
    assert again[0].arrival == 7.5 and again[0].text == "said"
    assert all(request.arrival is None for request in again if request.turn or request.parent)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"session": "a", "new_tokens": 1}', "line 1"),
        ('{"session": "a", "turn": 1, "new_tokens": 1, "output_tokens": 1}', "turn 1 where turn 0 is next"),
        ('{"session": "a", "parent": "b", "new_tokens": 1, "output_tokens": 1}', "has no turn 0"),
        ('{"session": "a", "waits_for": ["b"], "new_tokens": 1, "output_tokens": 1}', "waits for b"),
        ('{"session": "a", "new_tokens": 1, "output_tokens": 1, "colour": 1}', "colour"),
    ],
)
def test_bad_traces_name_the_fault(tmp_path: Path, lines: str, said: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(lines + "\n")
    with pytest.raises(ConfigError, match=said):
        read_trace(path)


def names(schedule: Schedule, now: float) -> list[str]:
    return [f"{request.session}{request.turn}" for request in schedule.due(now)]


def test_a_turn_follows_the_answer_and_its_pause() -> None:
    (tree,) = trees_of([one("a", arrival=1.0), one("a", 1, pause=2.0)])
    schedule = Schedule([tree])
    assert schedule.next_time() == 1.0 and names(schedule, 0.5) == [] and names(schedule, 1.0) == ["a0"]
    assert schedule.next_time() is None and not schedule.finished
    schedule.ended(tree[0], 5.0)
    assert schedule.next_time() == 7.0 and names(schedule, 6.9) == [] and names(schedule, 7.0) == ["a1"]
    schedule.ended(tree[1], 8.0)
    assert schedule.finished and schedule.given == 2


FAMILY = [
    one("a", arrival=0.0),
    one("b", parent="a"),
    one("b", 1),
    one("c", parent="a"),
    one("a", 1, waits_for=("b", "c")),
    one("a", 2),
]


def test_a_parent_waits_for_its_children() -> None:
    (tree,) = trees_of(FAMILY)
    by_name = {f"{request.session}{request.turn}": request for request in tree}
    schedule = Schedule([tree])
    assert names(schedule, 0) == ["a0"]
    schedule.ended(by_name["a0"], 1)
    assert names(schedule, 1) == ["b0", "c0"]
    schedule.ended(by_name["c0"], 2)
    schedule.ended(by_name["b0"], 2)
    assert names(schedule, 2) == ["b1"]
    schedule.ended(by_name["b1"], 3)
    assert names(schedule, 3) == ["a1"]


def test_a_failed_child_does_not_stop_its_parent_and_a_failed_turn_ends_its_session() -> None:
    (tree,) = trees_of(FAMILY)
    by_name = {f"{request.session}{request.turn}": request for request in tree}
    schedule = Schedule([tree])
    assert names(schedule, 0) == ["a0"]
    schedule.ended(by_name["a0"], 1)
    assert names(schedule, 1) == ["b0", "c0"]
    schedule.ended(by_name["b0"], 2, failed=True)
    schedule.ended(by_name["c0"], 2)
    assert names(schedule, 2) == ["a1"]
    schedule.ended(by_name["a1"], 3, failed=True)
    assert names(schedule, 3) == [] and schedule.finished
    whole = Schedule([tree, *trees_of([one("z", arrival=9.0)])])
    assert names(whole, 0) == ["a0"]
    whole.ended(by_name["a0"], 1, failed=True)
    assert whole.next_time() == 9.0 and names(whole, 9.0) == ["z0"]


def test_a_closed_loop_has_so_many_places_and_a_limit_ends_it() -> None:
    trees = trees_of([one("a"), one("b"), one("c"), one("d")])
    schedule = Schedule(trees, places=2, limit=3)
    assert names(schedule, 0) == ["a0", "b0"] and schedule.next_time() is None
    schedule.ended(trees[0][0], 4)
    assert schedule.next_time() is not None and names(schedule, 4) == ["c0"]
    schedule.ended(trees[1][0], 5)
    schedule.ended(trees[2][0], 5)
    assert names(schedule, 5) == [] and schedule.finished and schedule.given == 3
