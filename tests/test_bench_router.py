"""The benchmarks of the router and of the frontend run and judge; their figures are bench/README.md's business."""

from bench.client import ask_in_turn
from bench.frontend_peer import OURS, Figure, _by_file, figure_table
from bench.peer import NAME
from bench.processes import FrontAndWorker
from bench.prompts import MODEL, body, plain_turns
from bench.router_cpu import Levelled, Listened, decisions, hashing
from bench.router_fleet import BACKGROUND, URGENT, merged, placement_table, priority, routing, scaling, workload

from antiphon.load.trace import trees_of
from antiphon.simulation.fleet_setup import planned


def test_routing_by_cache_attains_what_can_be_had() -> None:
    found, verdicts, outcomes = routing(6)
    assert [one.label for one in found] == ["kv", "round-robin"]
    assert found[0].all.requests == found[1].all.requests > 60
    assert verdicts[1].holds and verdicts[1].figure > 0.9
    assert len(outcomes[0].classes["agent"].ttft) == found[0].all.requests
    assert placement_table(found).count("\n") == 3


def test_urgent_sessions_are_the_same_alone_and_beside_others() -> None:
    (alone, both), verdicts = priority(3.0)
    assert {one.name for one in both.classes} == {"urgent", "background", "all"}
    assert alone.all.requests == next(one for one in both.classes if one.name == "urgent").requests
    assert verdicts[1].holds, "background work is served in the end"


def test_plans_are_merged_by_arrival_with_names_of_their_own() -> None:
    plans = [planned(workload(**{name: one}), rate=2.0, sessions=5, seed=0) for name, one in (("u", URGENT), ("b", BACKGROUND))]
    trees = merged(*plans)
    arrivals = [tree[0].arrival or 0.0 for tree in trees]
    assert arrivals == sorted(arrivals) and len(trees) == 10
    assert len(trees_of(request for tree in trees for request in tree)) == 10


def test_costs_are_taken() -> None:
    for view in (Levelled(), Listened()):
        firsts, seconds = decisions(4, 2, view)
        assert len(firsts) == len(seconds) == 2 and min(firsts + seconds) > 0
    assert hashing(2)[0] > 0
    assert [one.workers for one in scaling((2, 3), 2)] == [2, 3]


def test_a_frontend_and_its_worker_answer_as_two_processes() -> None:
    with FrontAndWorker(["--model-name", MODEL]) as running:
        asked = body("messages", plain_turns(50, "x"), output_tokens=20)
        (answer,) = ask_in_turn(running.front.address, "messages", [asked])
        assert answer.output_tokens == 21
        assert len(set(running.pids)) == 2


def test_ratios_are_medians_of_the_rounds() -> None:
    def figure(per_cpu_s: float) -> Figure:
        return Figure(per_cpu_s=per_cpu_s, per_s=1.0, front_us=1.0, worker_us=1.0)

    found = {("chat", 64, OURS): [figure(3.0), figure(10.0)], ("chat", 64, NAME): [figure(2.0), figure(4.0)]}
    assert figure_table(found, [OURS, NAME]).splitlines()[-1].rstrip(" |").endswith("2")
    assert "ratio" not in figure_table({key: value for key, value in found.items() if key[2] == OURS}, [OURS])


def test_samples_are_counted_by_file() -> None:
    samples = "5\t/x/antiphon/decode.py\tpush\n2\t/x/antiphon/decode.py\tfeed\n"
    assert _by_file(samples) == {"antiphon/decode.py": 7}
