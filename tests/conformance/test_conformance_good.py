"""The kit finds nothing wrong with a server that does everything right."""

import asyncio

from tests.conformance.good_server import CONTEXT, MODEL, GoodServer

from antiphon.conformance.asks import Scene
from antiphon.conformance.driver import perform
from antiphon.conformance.registry import ASKS, CHECKS, asks_of, decide

SCENE = Scene(model=MODEL, mode="script", context=CONTEXT)
# Only a server that turns work away can show what it says then.
UNDECIDED = {"X06"}


def test_the_good_server_passes_every_check():
    exchanges = asyncio.run(perform(asks_of(CHECKS), SCENE, GoodServer()))
    found = [(check.id, verdict) for check, verdict in decide(CHECKS, exchanges)]
    assert [(number, verdict.detail) for number, verdict in found if verdict.outcome == "fail"] == []
    assert {number for number, verdict in found if verdict.outcome == "undecided"} == UNDECIDED


# What a server owes whatever its model says: forced calls and structured output. The good server has no model to hold to them.
ENFORCED = {"M30", "M31", "M36", "R26", "R27", "R31", "C29", "C30", "C32", "C33"}


def test_with_a_model_that_cannot_be_steered_the_rest_is_undecided():
    scene = Scene(model=MODEL, mode="none", context=CONTEXT)
    exchanges = asyncio.run(perform(asks_of(CHECKS), scene, GoodServer()))
    found = [(check.id, verdict) for check, verdict in decide(CHECKS, exchanges)]
    assert {number for number, verdict in found if verdict.outcome == "fail"} == ENFORCED
    undecided = [verdict for _, verdict in found if verdict.outcome == "undecided"]
    assert len(undecided) > 50
    assert all(verdict.detail for verdict in undecided)


def test_every_ask_serves_a_check():
    used = {name for check in CHECKS for name in check.asks} | {before for ask in ASKS.values() for before in ask.after}
    assert set(ASKS) - used == set()


def test_numbers_are_unique():
    numbers = [check.id for check in CHECKS]
    assert sorted(set(numbers)) == sorted(numbers)
