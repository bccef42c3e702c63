"""The billing header in every observed form leaves; nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.stabilize import ANTHROPIC_PREAMBLE, stabilize
from antiphon_turns import SystemMessage, TurnRequest, UserMessage

HEADERS = [
    "x-anthropic-billing-header: cc_version=2.1.332.c08; cc_entrypoint=sdk-cli;",
    "x-anthropic-billing-header: cc_version=2.1.197.713; cc_entrypoint=cli; cch=00000;",
    "x-anthropic-billing-header: cc_version=2.1.197.f9d; cc_entrypoint=sdk-cli; cc_workload=cron; cc_is_subagent=true;",
    "x-anthropic-billing-header: cc_version=2.1.197.f9d; cc_entrypoint=cli; cch=a1b2c",
]


def request(*messages):
    return TurnRequest(surface="messages", model="m", messages=messages)


def systems(found):
    return [message.text for message in found.messages if isinstance(message, SystemMessage)]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("gap", ["\n", "\n\n", "\r\n"])
def test_header_before_a_prompt_leaves_the_prompt(header, gap):
    found, acted = stabilize(request(SystemMessage(header + gap + "You are an agent."), UserMessage("hi")), [ANTHROPIC_PREAMBLE])
    assert systems(found) == ["You are an agent."]
    assert acted == ("strip-anthropic-preamble",)


@pytest.mark.parametrize("header", HEADERS)
def test_header_alone_leaves_no_message(header):
    found, acted = stabilize(request(SystemMessage(header), SystemMessage("Main prompt"), UserMessage("hi")), [ANTHROPIC_PREAMBLE])
    assert systems(found) == ["Main prompt"]
    assert acted == ("strip-anthropic-preamble",)


def test_prompt_text_on_the_header_line_stays():
    text = HEADERS[1] + " You are an agent; key = value."
    found, _ = stabilize(request(SystemMessage(text)), [ANTHROPIC_PREAMBLE])
    assert systems(found) == ["You are an agent; key = value."]


def test_two_varying_headers_give_equal_requests():
    one, _ = stabilize(request(SystemMessage(HEADERS[0] + "\nP"), UserMessage("a")), [ANTHROPIC_PREAMBLE])
    two, _ = stabilize(request(SystemMessage(HEADERS[2] + "\nP"), UserMessage("a")), [ANTHROPIC_PREAMBLE])
    assert one == two


def test_user_text_and_later_system_text_are_never_touched():
    messages = (UserMessage(HEADERS[0] + "\nwhat is this?"), SystemMessage("first"), SystemMessage(HEADERS[0] + "\nlater"))
    found, acted = stabilize(request(*messages), [ANTHROPIC_PREAMBLE])
    assert found.messages == messages
    assert acted == ()


def test_switched_off_changes_nothing():
    whole = request(SystemMessage(HEADERS[0] + "\nP"))
    assert stabilize(whole, []) == (whole, ())


@given(st.text())
def test_other_system_text_is_untouched(text):
    if not text.lstrip().lower().startswith("x-anthropic-billing-header:"):
        whole = request(SystemMessage(text))
        assert stabilize(whole, [ANTHROPIC_PREAMBLE]) == (whole, ())
