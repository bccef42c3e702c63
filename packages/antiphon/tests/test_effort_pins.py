"""An effort at the head of the prompt stays for a conversation, or its change is named."""

import pytest

from antiphon.effort_pins import EffortPins
from antiphon_turns import TemplateSwitches, Thinking

LEVELS = {level: {"reasoning_effort": level} for level in ("low", "medium", "high")}
HEAD = TemplateSwitches(effort=LEVELS, effort_at_head=True, thinking_off={"thinking": False})


def pinned(pins, *wishes, key="s", switches=HEAD):
    return [pins.pin(key, wish, switches) for wish in wishes]


def test_a_request_without_an_effort_has_the_one_before():
    found = pinned(EffortPins(), Thinking(mode="on", effort="high"), Thinking(mode="on"), Thinking(mode="off"), Thinking(effort="none"))
    assert [one.thinking for one in found] == [
        Thinking(mode="on", effort="high"),
        Thinking(mode="on", effort="high"),
        Thinking(mode="off", effort="high"),
        Thinking(mode="off", effort="high"),
    ]
    assert not any(one.change for one in found)


def test_a_changed_effort_is_granted_and_named():
    first, second, third = pinned(EffortPins(), Thinking(effort="high"), Thinking(effort="low"), Thinking())
    assert (second.thinking.effort, second.change, second.held) == ("low", "high -> low", False)
    assert (third.thinking.effort, third.change) == ("low", "")
    assert first.change == ""


def test_a_held_effort_stays():
    _, second, third = pinned(EffortPins(hold=True), Thinking(effort="high"), Thinking(effort="low"), Thinking(effort="high"))
    assert (second.thinking.effort, second.change, second.held) == ("high", "high -> low", True)
    assert (third.thinking.effort, third.change, third.held) == ("high", "", False)


def test_words_for_the_same_level_are_no_change():
    found = pinned(EffortPins(), Thinking(effort="high"), Thinking(effort="max"), Thinking(effort="xhigh"))
    assert [(one.thinking.effort, one.change) for one in found] == [("high", "")] * 3


@pytest.mark.parametrize("thinking", [Thinking(), Thinking(mode="off", effort="none"), Thinking(effort="ultra"), Thinking(mode="on")])
def test_what_names_no_level_pins_none(thinking):
    pins = EffortPins()
    assert pins.pin("s", thinking, HEAD).thinking == thinking
    assert pins.pin("s", Thinking(), HEAD).thinking == Thinking()


def test_conversations_are_apart_and_bounded():
    pins = EffortPins(2)
    for key in ("a", "b"):
        pins.pin(key, Thinking(effort=(key == "a" and "low") or "high"), HEAD)
    assert pins.pin("a", Thinking(), HEAD).thinking.effort == "low"
    pins.pin("c", Thinking(effort="low"), HEAD)
    assert pins.pin("b", Thinking(), HEAD).thinking.effort is None
    assert pins.pin("a", Thinking(), HEAD).thinking.effort == "low"


def test_counting_pins_nothing():
    pins = EffortPins()
    assert pins.pin("s", Thinking(effort="low"), HEAD, remember=False).thinking.effort == "low"
    assert pins.pin("s", Thinking(), HEAD).thinking.effort is None


def test_an_effort_elsewhere_in_the_prompt_is_free():
    free = TemplateSwitches(effort=LEVELS)
    found = pinned(EffortPins(), Thinking(effort="high"), Thinking(effort="low"), Thinking(), switches=free)
    assert [one.thinking.effort for one in found] == ["high", "low", None]
