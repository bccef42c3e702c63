"""The benchmark of slots and slices runs, in the small; its figures are for bench/README.md."""

import asyncio

from bench.embedded import DEPTHS, measured, shortfalls, turn_table
from msgspec.structs import replace


def test_two_sessions_keep_what_can_be_cached() -> None:
    turns = asyncio.run(measured("slots", tokens=64, turns=2, threads=1))
    assert [turn.name for turn in turns] == ["A1", "B1", "A2", "B2"]
    assert shortfalls("slots", turns) == []
    assert shortfalls("slots", [replace(turns[2], cached=100)]) == [f"slots, A2: 100 of {turns[2].expected} tokens cached"]
    assert "could be cached" in turn_table(turns)


def test_short_prompts_are_measured_beside_a_long_one() -> None:
    turns = asyncio.run(measured("short", tokens=200, turns=1, threads=1))
    assert [turn.name for turn in turns][len(DEPTHS) :] == ["long"]
    assert all(turn.ttft_s > 0 for turn in turns)
    assert len(shortfalls("short", [replace(turn, ttft_s=2.5) for turn in turns])) == len(DEPTHS)
