"""A client's wish for more or less thinking becomes template variables, the nearest the family has."""

import pytest

from antiphon_turns import TemplateSwitches, Thinking, TurnRequest, UserMessage
from antiphon_turns.effort import LEVELS, named, nearest, thinking_variables

ON, OFF = {"think": True}, {"think": False}
LEVELLED = TemplateSwitches(
    thinking_on=ON,
    thinking_off=OFF,
    effort={level: {"effort": level} for level in ("low", "high", "max")},
)
HEAD = TemplateSwitches(thinking_on=ON, thinking_off=OFF, effort=LEVELLED.effort, effort_at_head=True)
NEVER_OFF = TemplateSwitches(effort={level: {"effort": level} for level in ("low", "medium", "high")}, effort_at_head=True)
NONE_IS_OFF = TemplateSwitches(effort={"none": {"effort": "none"}, "high": {"effort": "high"}}, effort_at_head=True)
BUDGET = TemplateSwitches(
    thinking_on={"budget": -1}, thinking_off={"budget": 0}, effort={"low": {"budget": 512}, "max": {"budget": -1}}, budget="budget"
)
PLAIN = TemplateSwitches()


@pytest.mark.parametrize(
    ("wish", "known", "found"),
    [
        ("minimal", ("low", "high", "max"), "low"),
        ("low", ("low", "high", "max"), "low"),
        ("medium", ("low", "high", "max"), "high"),
        ("xhigh", ("low", "high", "max"), "max"),
        ("XHIGH", ("low", "medium", "xhigh"), "xhigh"),
        ("high", ("low", "medium", "xhigh"), "xhigh"),
        ("max", ("low", "medium", "high"), "high"),
        ("none", ("low", "medium", "high"), "low"),
        ("none", ("none", "high"), "none"),
        ("low", ("none", "high"), "high"),
        ("ultra", ("low", "high"), None),
        ("ultra", ("ultra", "high"), "ultra"),
        ("high", (), None),
    ],
)
def test_nearest(wish, known, found):
    assert nearest(wish, {level: {} for level in known}) == found


@pytest.mark.parametrize(
    ("switches", "thinking", "told"),
    [
        (LEVELLED, Thinking(), {}),
        (LEVELLED, Thinking(mode="on"), ON),
        (LEVELLED, Thinking(mode="adaptive"), ON),
        (LEVELLED, Thinking(mode="off"), OFF),
        (LEVELLED, Thinking(mode="off", effort="none"), OFF),
        (LEVELLED, Thinking(effort="None"), OFF),
        # A level asks for thinking, whatever the template does unasked.
        (LEVELLED, Thinking(effort="medium"), {**ON, "effort": "high"}),
        (LEVELLED, Thinking(mode="on", effort="low"), {**ON, "effort": "low"}),
        (LEVELLED, Thinking(mode="off", effort="high"), OFF),
        # The head of the prompt stays what it is for turns that think.
        (HEAD, Thinking(mode="off", effort="high"), {**OFF, "effort": "high"}),
        (HEAD, Thinking(mode="off"), OFF),
        (NEVER_OFF, Thinking(mode="off", effort="none"), {"effort": "low"}),
        (NEVER_OFF, Thinking(mode="off", effort="high"), {"effort": "high"}),
        (NEVER_OFF, Thinking(), {}),
        (NONE_IS_OFF, Thinking(mode="off"), {"effort": "none"}),
        (NONE_IS_OFF, Thinking(mode="off", effort="high"), {"effort": "none"}),
        (NONE_IS_OFF, Thinking(effort="low"), {"effort": "high"}),
        (BUDGET, Thinking(mode="on", effort="low"), {"budget": 512}),
        (BUDGET, Thinking(mode="on", effort="low", budget_tokens=700), {"budget": 700}),
        (BUDGET, Thinking(mode="off", budget_tokens=700), {"budget": 0}),
        (PLAIN, Thinking(mode="on", effort="high", budget_tokens=5), {}),
        (PLAIN, Thinking(mode="off"), {}),
    ],
)
def test_variables(switches, thinking, told):
    assert thinking_variables(thinking, switches) == told


def test_the_model_decides_where_its_template_lets_it():
    switches = TemplateSwitches(thinking_on={"mode": "enabled"}, thinking_adaptive={"mode": "adaptive"})
    assert thinking_variables(Thinking(mode="adaptive"), switches) == {"mode": "adaptive"}
    assert thinking_variables(Thinking(mode="on"), switches) == {"mode": "enabled"}


@pytest.mark.parametrize(
    ("surface", "switches", "thinking", "fields"),
    [
        ("messages", PLAIN, Thinking(mode="adaptive", effort="high"), ("output_config.effort",)),
        ("chat", PLAIN, Thinking(effort="high"), ("reasoning_effort",)),
        ("responses", PLAIN, Thinking(effort="high"), ("reasoning.effort",)),
        ("chat", LEVELLED, Thinking(effort="ultra"), ("reasoning_effort",)),
        ("chat", LEVELLED, Thinking(effort="minimal"), ()),
        ("chat", LEVELLED, Thinking(mode="off", effort="none"), ()),
        ("chat", NONE_IS_OFF, Thinking(mode="off", effort="none"), ()),
        ("messages", NEVER_OFF, Thinking(mode="off", effort="none"), ("thinking",)),
        ("responses", NEVER_OFF, Thinking(mode="off", effort="none"), ("reasoning.effort",)),
        # Nothing was said of thinking.
        ("messages", NEVER_OFF, Thinking(mode="off"), ()),
        ("messages", PLAIN, Thinking(mode="off", effort="high"), ()),
        ("completions", PLAIN, Thinking(effort="high"), ()),
    ],
)
def test_what_has_no_effect_is_named(surface, switches, thinking, fields):
    request = TurnRequest(surface=surface, model="m", messages=(UserMessage("u"),), thinking=thinking, ignored=("x",))
    assert named(request, switches, reasons=True).ignored == ("x", *fields)
    assert named(named(request, switches, reasons=True), switches, reasons=True).ignored == ("x", *fields)


def test_no_thinking_is_no_wish_where_the_model_does_not_think():
    request = TurnRequest(surface="chat", model="m", messages=(UserMessage("u"),), thinking=Thinking(mode="off", effort="none"))
    assert named(request, PLAIN, reasons=False) is request


def test_levels_are_in_order():
    assert LEVELS.index("none") < LEVELS.index("low") < LEVELS.index("max")
