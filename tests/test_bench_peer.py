"""The benchmarks beside the peer, as far as they go without it: ours alone, and what is made of figures."""

import pytest
from bench.dispatch import INCREMENTAL, WHOLE, Lag, Seen, lag_table, misses, p95, seen_table, speakers, take
from bench.measure import BenchError
from bench.prompt_cost import (
    NAME,
    OURS,
    REQUESTS,
    Figure,
    Plain,
    Round,
    asked_for,
    encode_table,
    figure_table,
    load_generator,
    session_body,
    target_table,
)
from bench.scripted import INTERLEAVED


def test_our_own_turns_are_timed_against_the_engines_clock() -> None:
    with speakers(None, [INTERLEAVED]) as found:
        assert [speaker.name for speaker in found] == [WHOLE, INCREMENTAL]
        taken = [take(speaker, wire, INTERLEAVED) for speaker in found for wire in ("messages", "chat")]
    lags = [lag for some, _ in taken for lag in some]
    assert all(lag.ms is not None for lag in lags)
    # However late a busy machine is, nothing can come before its token.
    assert all(lag.ms > 0 for lag in lags if lag.what in ("whole call", "last byte", "closed") and lag.ms is not None)
    assert all(seen.in_order for _, seen in taken)


def lag(ms: float | None, *, server: str = WHOLE, what: str = "whole call") -> Lag:
    return Lag(server=server, wire="chat", script="long", part="2 call", what=what, ms=ms)


def seen(*, in_order: bool) -> Seen:
    return Seen(server=WHOLE, wire="chat", script="long", in_order=in_order, silence_ms=1_000.0, heartbeats=2)


MISSED = [
    # name, lags, in order, how many misses
    ("all in time", [lag(1.0)] * 19 + [lag(30.0)], True, 0),
    ("two of twenty late", [lag(1.0)] * 18 + [lag(30.0)] * 2, True, 1),
    ("one never came", [lag(1.0), lag(None)], True, 1),
    ("the other mode's figure is not judged", [lag(90.0, what="first byte"), lag(90.0, server=INCREMENTAL)], True, 0),
    ("the first byte in incremental mode is", [lag(90.0, server=INCREMENTAL, what="first byte")], True, 1),
    ("nor is the peer", [lag(None, server=NAME)], True, 0),
    ("order", [lag(1.0)], False, 1),
]


@pytest.mark.parametrize(("lags", "in_order", "count"), [row[1:] for row in MISSED], ids=[row[0] for row in MISSED])
def test_misses(lags, in_order, count) -> None:
    assert len(misses(lags, [seen(in_order=in_order)])) == count


def test_tables_of_a_run() -> None:
    assert p95([float(number) for number in range(1, 101)]) == 95.0
    assert p95([7.0]) == 7.0
    row = lag_table([lag(0.0), lag(2.0), lag(None)], [WHOLE, NAME]).splitlines()[-1]
    assert [cell.strip() for cell in row.split("|")[4:-1]] == ["whole call", "1.0 / 2.0, 1 never", "-"]
    assert "out of order, 1,000 ms, 2" in seen_table([seen(in_order=False)], [WHOLE])


def a_round(ours: float) -> Round:
    figures = {(name, case): Figure(ttft_ms=ms, cpu_ms=ms) for case in REQUESTS for name, ms in ((OURS, ours), (NAME, 100.0))}
    plain = Plain(ms=50.0, cpu_ms=50.0)
    return Round(figures=figures, plain=dict.fromkeys((("whole", True), ("whole", False), ("own", True), ("own", False)), plain))


def test_targets_are_medians_of_the_rounds_ratios() -> None:
    rounds = [a_round(10.0), a_round(14.0), a_round(1_000.0)]
    assert target_table(rounds).count(" yes |") == 6
    assert target_table([a_round(70.0)]).count(" NO |") == 5
    assert "0.14" in figure_table(rounds)
    assert encode_table(rounds).count("\n") == 5


LOAD = """import json
def body(options, seed):
    return "/v1/messages", json.dumps({"system": [{"type": "text", "text": seed}], "messages": [seed]}).encode()
main()
"""


def test_the_load_generator_is_read_without_being_run(tmp_path) -> None:
    path = tmp_path / "load.py"
    path.write_text(LOAD)
    load = load_generator(path)
    assert b'"text":"head"' in session_body(load, 100, "own", "head")
    assert b'"messages":["own"]' in session_body(load, 100, "own", "head")
    assert asked_for(100).prompt_tokens == 100
    path.write_text("main(1)\n")
    with pytest.raises(BenchError, match="does not end"):
        load_generator(path)
