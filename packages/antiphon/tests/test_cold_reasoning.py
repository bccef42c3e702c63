"""Old reasoning goes when that costs no cached token, and then it stays away."""

import pytest

from antiphon.cold_reasoning import ColdCuts, cut_at_last_user, is_cold
from antiphon_turns import AssistantMessage, ReasoningSegment, ReplayWish, SystemMessage, TextSegment, TurnRequest, UserMessage


def said(text="t"):
    return AssistantMessage((ReasoningSegment("r"), TextSegment(text)))


def ask(*messages, **fields):
    return TurnRequest(surface="messages", model="m", messages=messages, **fields)


@pytest.mark.parametrize(
    ("held", "kept", "dropped", "cold"),
    [
        (0, [1, 2, 3, 4], [1, 4], True),
        (1, [1, 2, 3, 4], [1, 4], True),
        (2, [1, 2, 3, 4], [1, 4], False),
        (4, [1, 2, 3, 4], [1, 4], False),
        (None, [1, 2, 3, 4], [1, 4], False),
        (0, [1, 2], [1, 2], False),
        (0, [1, 2], [1, 2, 3], False),
    ],
)
def test_it_is_free_only_behind_what_is_held(held, kept, dropped, cold):
    assert is_cold(held=held, kept=kept, dropped=dropped) is cold


@pytest.mark.parametrize(
    ("messages", "cut"),
    [
        ((UserMessage("a"),), None),
        ((UserMessage("a"), said()), None),
        ((UserMessage("a"), AssistantMessage((TextSegment("t"),)), UserMessage("b")), None),
        ((UserMessage("a"), said(), UserMessage("b")), 2),
        ((SystemMessage("s"), UserMessage("a"), said(), UserMessage("b"), said()), 3),
    ],
)
def test_the_running_turn_keeps_its_reasoning(messages, cut):
    found = cut_at_last_user(ask(*messages, replay=ReplayWish(turns="all")))
    assert (found and found.replay) == (None if cut is None else ReplayWish(turns="all", cold_before=cut))


def test_a_cut_is_made_once():
    request = cut_at_last_user(ask(UserMessage("a"), said(), UserMessage("b")))
    assert request is not None and cut_at_last_user(request) is None


def test_a_cut_stays_while_the_history_grows():
    cuts = ColdCuts()
    history = (UserMessage("a"), said(), UserMessage("b"))
    cuts.remember("s", cut_at_last_user(ask(*history)))
    grown = ask(*history, said(), UserMessage("c"))
    assert cuts.applied("s", grown).replay.cold_before == 2
    assert cuts.applied("other", grown) is grown
    later = cut_at_last_user(cuts.applied("s", grown))
    assert later is not None and later.replay.cold_before == 4


@pytest.mark.parametrize(
    "messages",
    [
        (UserMessage("summary"),),
        (UserMessage("a"), said(), UserMessage("edited")),
        (UserMessage("a"), said(), said()),
        (UserMessage("a"), said()),
    ],
)
def test_a_cut_ends_with_the_history_it_was_made_in(messages):
    cuts = ColdCuts()
    cuts.remember("s", cut_at_last_user(ask(UserMessage("a"), said(), UserMessage("b"))))
    request = ask(*messages)
    assert cuts.applied("s", request) is request


def test_cuts_are_bounded():
    cuts = ColdCuts(2)
    request = ask(UserMessage("a"), said(), UserMessage("b"))
    for key in "abc":
        cuts.remember(key, cut_at_last_user(request))
    assert [cuts.applied(key, request).replay.cold_before for key in "abc"] == [0, 2, 2]
