"""What each family is told of effort, and how a template and the operator change its replay policy."""

from typing import get_args

import pytest

from antiphon_parsers import adapt, resolve
from antiphon_parsers.registry import REASONING_PARTS
from antiphon_turns import Keep, Thinking
from antiphon_turns.effort import LEVELS, thinking_variables

# By family: what its template is told for each level that surfaces name, and for no thinking.
EFFORTS = {
    "deepseek_v4": ("reasoning_effort", "low low low high high max max"),
    "deepseek_v41": ("reasoning_effort", "low low low high high max max"),
    "glm47": ("reasoning_effort", "low low low high high max max"),
    "glm45": ("reasoning_effort", "low low low high high max max"),
    "kimi_k3": ("thinking_effort", "low low low medium high max max"),
    "gpt_oss": ("reasoning_effort", "low low low medium high high high"),
    "qwen3": ("reasoning_effort", "low low low medium xhigh xhigh xhigh"),
    "step3p5": ("reasoning_effort", "low low low medium high high high"),
    "mistral": ("reasoning_effort", "none high high high high high high"),
    "hy_v3": ("reasoning_effort", "no_think low low high high high high"),
    "seed_oss": ("thinking_budget", "0 512 1024 4096 16384 -1 -1"),
}
OFF = {
    "deepseek_v4": "enable_thinking",
    "deepseek_v41": "enable_thinking",
    "glm47": "enable_thinking",
    "glm45": "enable_thinking",
    "kimi_k3": "thinking",
    "qwen3": "enable_thinking",
}
AT_HEAD = {"deepseek_v4", "deepseek_v41", "glm47", "glm45", "kimi_k3", "gpt_oss", "qwen3", "step3p5", "mistral", "seed_oss"}
QWEN38 = "<think> {{ preserve_thinking }} {{ reasoning_effort }} {{ enable_thinking }}"


@pytest.mark.parametrize("name", EFFORTS)
def test_every_level_says_the_nearest_the_model_knows(name: str) -> None:
    switches = resolve(None, name).family.switches
    variable, told = EFFORTS[name]
    for level, value in zip(LEVELS, told.split(), strict=True):
        found = thinking_variables(Thinking(effort=level), switches)
        if level == "none" and name in OFF:
            assert found[OFF[name]] is False and variable not in found
        else:
            assert str(found[variable]) == value, level


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("none", {"enable_thinking": False}),
        ("low", {"enable_thinking": True, "low_effort": True}),
        ("medium", {"enable_thinking": True, "medium_effort": True}),
        ("max", {"enable_thinking": True}),
    ],
)
def test_nemotron_has_a_switch_a_level(level: str, told: dict[str, bool]) -> None:
    assert thinking_variables(Thinking(effort=level), resolve(None, "nemotron_v3").family.switches) == told


def test_levels_that_a_version_does_not_have() -> None:
    super3 = adapt(resolve("qwen3_coder", "nemotron_v3"), "{{ enable_thinking }} {{ low_effort }}").family.switches
    assert thinking_variables(Thinking(effort="medium"), super3) == {"enable_thinking": True}
    assert thinking_variables(Thinking(effort="minimal"), super3)["low_effort"] is True


@pytest.mark.parametrize("name", sorted(REASONING_PARTS))
def test_what_is_told_is_open_to_clients_too(name: str) -> None:
    switches = REASONING_PARTS[name].switches
    told = {variable for level in switches.effort.values() for variable in level}
    assert told <= switches.allowed and set(switches.effort) <= set(LEVELS)
    assert switches.effort_at_head == (name in AT_HEAD)
    assert switches.budget is None or switches.budget in switches.allowed


def test_efforts_that_the_template_does_not_read_are_none() -> None:
    old = adapt(resolve("hermes", "qwen3"), "<think> {{ enable_thinking }}").family.switches
    assert (old.effort, old.effort_at_head) == ({}, False)
    new = adapt(resolve("hermes", "qwen3"), QWEN38).family.switches
    assert set(new.effort) == {"low", "medium", "xhigh"} and new.effort_at_head
    assert adapt(resolve("hermes", "qwen3"), "").family.switches == resolve("hermes", "qwen3").family.switches


@pytest.mark.parametrize("keep", get_args(Keep))
def test_the_operators_policy_comes_before_template_and_family(keep: Keep) -> None:
    for template in (QWEN38, "<think>"):
        replay = adapt(resolve("hermes", "qwen3"), template, replay=keep).family.replay
        assert (replay.keep, replay.fixed) == (keep, True)


def test_the_template_is_told_what_the_operator_decided() -> None:
    model = resolve("hermes", "qwen3")
    assert adapt(model, QWEN38).family.switches.agent == {"preserve_thinking": True}
    assert adapt(model, QWEN38, replay="all").family.switches.agent == {"preserve_thinking": True}
    assert adapt(model, QWEN38, replay="after_last_user").family.switches.agent == {"preserve_thinking": False}
    assert adapt(resolve(None, "deepseek_v4"), "", replay="after_last_user").family.switches.agent == {"drop_thinking": True}
    glm = adapt(resolve("glm47", "glm47"), "{{ clear_thinking }}", replay="none").family
    assert glm.switches.agent == {"clear_thinking": True} and glm.replay.empty_block == "</think>"


def test_a_policy_knows_the_variable_that_switches_it() -> None:
    replay = adapt(resolve("hermes", "qwen3"), QWEN38).family.replay
    assert (replay.keep, replay.switch, replay.switched_off) == ("all", ("preserve_thinking", True), "after_last_user")
    assert resolve(None, "deepseek_v4").family.replay.without_tools == "after_last_user"
