"""Every check fails on a small server made to break it, and on nothing less."""

import asyncio

import pytest
from tests.conformance.breaking import Breakage
from tests.conformance.broken_chat import CATALOG, CHAT, CROSS
from tests.conformance.broken_messages import BREAKAGES as MESSAGES
from tests.conformance.broken_responses import BREAKAGES as RESPONSES
from tests.conformance.good_server import CONTEXT, MODEL, GoodServer

from antiphon.conformance.asks import Request, Scene
from antiphon.conformance.driver import perform
from antiphon.conformance.exchange import Exchange
from antiphon.conformance.registry import CHECKS, asks_of, decide

SCENE = Scene(model=MODEL, mode="script", context=CONTEXT)
BREAKAGES = {**MESSAGES, **RESPONSES, **CHAT, **CATALOG, **CROSS}
# Breakages touch the answers of their own surface only.
PATHS = {"M": "/v1/messages", "R": "/v1/responses", "C": ("/v1/chat", "/v1/completions"), "K": ("/v1/models", "/"), "X": "/"}


class BrokenServer(GoodServer):
    """The good server, whose answers pass through one breakage."""

    def __init__(self, breakage: Breakage, paths: str | tuple[str, ...]) -> None:
        super().__init__(SCENE.silence)
        self._breakage = breakage
        self._paths = paths

    async def __call__(self, request: Request) -> Exchange:
        answer = self.answer(request)
        if request.path.startswith(self._paths):
            answer = self._breakage(request, answer) or answer
        return answer.exchange()


def verdict(number: str, server: GoodServer):
    """What a run of one check finds."""
    checks = [check for check in CHECKS if check.id == number]
    exchanges = asyncio.run(perform(asks_of(checks), SCENE, server))
    return decide(checks, exchanges)[0][1]


def test_every_check_has_a_breakage():
    assert {check.id for check in CHECKS} == set(BREAKAGES)


@pytest.mark.parametrize("number", sorted(BREAKAGES))
def test_a_broken_server_fails_its_check(number):
    found = verdict(number, BrokenServer(BREAKAGES[number], PATHS[number[0]]))
    assert found.outcome == "fail", found
    assert found.detail


@pytest.mark.parametrize("number", sorted(set(BREAKAGES) - {"X06"}))
def test_the_good_server_passes_it_alone(number):
    assert verdict(number, GoodServer(SCENE.silence)).outcome == "pass"
