"""Which past reasoning stands in the prompt: the family's policy, the operator's, and what a request may change of either."""

import itertools
from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from antiphon_tokenizers import ChatTemplate, Renderer, Tokenizer
from antiphon_tokenizers.history import kept_since, policy_of
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Family,
    Keep,
    Message,
    ReasoningSegment,
    ReplayPolicy,
    ReplayWish,
    TextSegment,
    Thinking,
    Tool,
    ToolChoice,
    ToolMessage,
    TurnRequest,
    TurnWriter,
    UserMessage,
)


def called(number: int) -> tuple[Message, Message]:
    return (
        AssistantMessage((ReasoningSegment(f"r{number}"), CallSegment("now", "{}", f"c{number}"))),
        ToolMessage(f"c{number}", f"result {number}"),
    )


def said(number: int) -> AssistantMessage:
    return AssistantMessage((ReasoningSegment(f"r{number}"), TextSegment(f"t{number}")))


# Three turns, the last one running: r1 r2 | r3 | r4 r5 r6.
HISTORY: tuple[Message, ...] = (
    UserMessage("u1"),
    *called(1),
    said(2),
    UserMessage("u2"),
    said(3),
    UserMessage("u3"),
    *called(4),
    *called(5),
    *called(6),
)
# The same before its last turn began.
ASKED = HISTORY[:7]


def ask(*messages: Message, **fields: object) -> TurnRequest:
    return TurnRequest(surface="chat", model="m", messages=messages, **fields)  # type: ignore[arg-type]


def reasons(messages: tuple[Message, ...], policy: ReplayPolicy, wish: ReplayWish | None = None) -> str:
    """The numbers of the reasoning that is kept."""
    since = kept_since(messages, policy, wish or ReplayWish())
    kept = [s.text for m in messages[since + 1 :] if isinstance(m, AssistantMessage) for s in m.segments if isinstance(s, ReasoningSegment)]
    return " ".join(text[1:] for text in kept)


@pytest.mark.parametrize(
    ("keep", "running", "asked"),
    [
        ("none", "", ""),
        ("after_last_user", "4 5 6", ""),
        ("after_last_plain_assistant", "4 5 6", ""),
        ("after_last_final", "4 5 6", ""),
        ("all", "1 2 3 4 5 6", "1 2 3"),
    ],
)
def test_policies(keep: Keep, running: str, asked: str) -> None:
    assert reasons(HISTORY, ReplayPolicy(keep=keep)) == running
    assert reasons(ASKED, ReplayPolicy(keep=keep)) == asked


def test_policies_that_look_at_answers_survive_a_user_who_speaks_in_between() -> None:
    interrupted = (*HISTORY[:3], UserMessage("no, wait"), *called(7))
    kept = {keep: reasons(interrupted, ReplayPolicy(keep=keep)) for keep in get_args(Keep)}
    assert kept == {
        "none": "",
        "after_last_user": "7",
        "after_last_plain_assistant": "1 7",
        "after_last_final": "1 7",
        "all": "1 7",
    }


@pytest.mark.parametrize("keep", ["after_last_user", "all"])
@pytest.mark.parametrize(
    ("turns", "running", "asked"),
    [
        ("all", "1 2 3 4 5 6", "1 2 3"),
        (1, "4 5 6", "3"),
        (2, "3 4 5 6", "1 2 3"),
        (3, "1 2 3 4 5 6", "1 2 3"),
        (99, "1 2 3 4 5 6", "1 2 3"),
        ("current", "4 5 6", ""),
    ],
)
def test_wishes(keep: Keep, turns: object, running: str, asked: str) -> None:
    wish = ReplayWish(turns=turns)  # type: ignore[arg-type]
    assert reasons(HISTORY, ReplayPolicy(keep=keep), wish) == running
    assert reasons(ASKED, ReplayPolicy(keep=keep), wish) == asked


def test_a_turn_without_reasoning_does_not_count_among_the_last() -> None:
    history = (UserMessage("u1"), said(1), UserMessage("u2"), AssistantMessage((TextSegment("t"),)), UserMessage("u3"))
    assert reasons(history, ReplayPolicy(), ReplayWish(turns=1)) == "1"


@pytest.mark.parametrize("turns", ["all", 3])
def test_models_that_never_saw_past_reasoning_do_not_see_it_now(turns: object) -> None:
    assert reasons(HISTORY, ReplayPolicy(keep="none"), ReplayWish(turns=turns)) == ""  # type: ignore[arg-type]


def test_what_the_operator_fixed_may_only_be_narrowed() -> None:
    fixed = ReplayPolicy(keep="after_last_user", fixed=True)
    assert reasons(HISTORY, fixed, ReplayWish(turns="all")) == "4 5 6"
    assert reasons(HISTORY, ReplayPolicy(keep="all", fixed=True), ReplayWish(turns=2)) == "3 4 5 6"
    assert reasons(HISTORY, ReplayPolicy(keep="all", fixed=True), ReplayWish(turns="all")) == "1 2 3 4 5 6"


@pytest.mark.parametrize(("before", "kept"), [(0, "1 2 3 4 5 6"), (1, "1 2 3 4 5 6"), (2, "2 3 4 5 6"), (6, "4 5 6"), (999, "")])
def test_a_cold_cut_goes_before_every_wish(before: int, kept: str) -> None:
    assert reasons(HISTORY, ReplayPolicy(), ReplayWish(turns="all", cold_before=before)) == kept


SWITCHED = ReplayPolicy(keep="all", switch=("preserve", True), switched_off="after_last_user")
TOOLS = (Tool(name="now"),)
NO_CALL = ToolChoice(mode="none")


@pytest.mark.parametrize(
    ("policy", "fields", "keep"),
    [
        (SWITCHED, {}, "all"),
        (SWITCHED, {"template_kwargs": {"preserve": True}}, "all"),
        (SWITCHED, {"template_kwargs": {"preserve": False}}, "after_last_user"),
        (structs.replace(SWITCHED, keep="after_last_user"), {"template_kwargs": {"preserve": True}}, "all"),
        (structs.replace(SWITCHED, keep="none", fixed=True), {"template_kwargs": {"preserve": True}}, "none"),
        (structs.replace(SWITCHED, fixed=True), {"template_kwargs": {"preserve": False}}, "after_last_user"),
        (ReplayPolicy(keep="all", without_tools="after_last_user"), {}, "after_last_user"),
        (ReplayPolicy(keep="all", without_tools="after_last_user"), {"tools": TOOLS}, "all"),
        (
            ReplayPolicy(keep="all", without_tools="after_last_user"),
            {"tools": TOOLS, "tool_choice": NO_CALL},
            "after_last_user",
        ),
        (ReplayPolicy(keep="all", without_tools="none", switch=("drop", False)), {"template_kwargs": {"drop": False}}, "all"),
        (ReplayPolicy(keep="all", without_tools="none", switch=("drop", False)), {"template_kwargs": {"drop": True}}, "none"),
    ],
)
def test_the_policy_of_a_request(policy: ReplayPolicy, fields: dict[str, object], keep: Keep) -> None:
    assert policy_of(ask(UserMessage("u"), **fields), policy).keep == keep


MESSAGES = st.lists(st.sampled_from([UserMessage("u"), said(1), AssistantMessage((TextSegment("t"),)), *called(1)]), max_size=10).map(tuple)


POLICIES = st.builds(ReplayPolicy, keep=st.sampled_from(get_args(Keep)), fixed=st.booleans())


@given(MESSAGES, POLICIES, st.sampled_from([None, "current", 1, 2, 3, "all"]))
def test_less_never_keeps_more(messages: tuple[Message, ...], policy: ReplayPolicy, turns: object) -> None:
    plain = kept_since(messages, policy, ReplayWish())
    wished = kept_since(messages, policy, ReplayWish(turns=turns))  # type: ignore[arg-type]
    if policy.fixed or policy.keep == "none" or turns in (None, "current"):
        assert wished >= plain
    counted = [kept_since(messages, policy, ReplayWish(turns=count)) for count in (1, 2, 3, "all")]  # type: ignore[arg-type]
    assert all(more <= less for less, more in itertools.pairwise(counted))


def test_prompts_hold_what_is_kept(
    bytewise: Tokenizer, json_writer: TurnWriter, qwen_like: str, make_family: Callable[..., Family]
) -> None:
    renderer = Renderer(ChatTemplate(qwen_like), bytewise, family=make_family("after_last_user"), writer=json_writer)

    def prompt(**fields: object) -> str:
        return renderer.render(ask(*HISTORY, tools=TOOLS, **fields)).text

    def shown(text: str) -> str:
        return " ".join(number for number in "123456" if f"\nr{number}\n" in text)

    assert shown(prompt()) == "4 5 6"
    assert shown(prompt(replay=ReplayWish(turns="all"))) == "1 2 3 4 5 6"
    assert shown(prompt(replay=ReplayWish(turns=2))) == "3 4 5 6"
    assert shown(prompt(replay=ReplayWish(turns="all", cold_before=4))) == "3 4 5 6"


CONTROLS = (
    "[{{ reasoning_effort | default('unset') }}]{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if think | default(true) %}<think>\n{% endif %}{% endif %}"
)


@pytest.mark.parametrize(
    ("fields", "effort", "opening"),
    [
        ({}, "unset", "<think>\n"),
        ({"thinking": Thinking(effort="medium")}, "high", "<think>\n"),
        ({"thinking": Thinking(mode="off", effort="low")}, "low", ""),
        ({"thinking": Thinking(mode="off")}, "unset", ""),
        ({"thinking": Thinking(mode="adaptive", effort="max"), "template_kwargs": {"reasoning_effort": "low"}}, "low", "<think>\n"),
        ({"thinking": Thinking(mode="on"), "template_kwargs": {"think": False}}, "unset", ""),
    ],
)
def test_the_template_is_told_of_the_wish(
    bytewise: Tokenizer,
    json_writer: TurnWriter,
    make_family: Callable[..., Family],
    fields: dict[str, object],
    effort: str,
    opening: str,
) -> None:
    family = make_family(
        "all",
        thinking_on={"think": True},
        thinking_off={"think": False},
        effort={level: {"reasoning_effort": level} for level in ("low", "high")},
        effort_at_head=True,
        allowed=frozenset(("reasoning_effort", "think")),
    )
    rendered = Renderer(ChatTemplate(CONTROLS), bytewise, family=family, writer=json_writer).render(ask(*ASKED, **fields))
    assert rendered.text.startswith(f"[{effort}]") and rendered.opening == opening


def test_with_everything_kept_prompts_only_grow(
    bytewise: Tokenizer, json_writer: TurnWriter, qwen_like: str, make_family: Callable[..., Family]
) -> None:
    renderer = Renderer(ChatTemplate(qwen_like), bytewise, family=make_family("after_last_user"), writer=json_writer)
    ends = [1, 3, 5, 7, 9, 11, 13]
    texts = [renderer.render(ask(*HISTORY[:end], tools=TOOLS, replay=ReplayWish(turns="all"))) for end in ends]
    for before, now in itertools.pairwise(texts):
        assert now.text.startswith(before.text.removesuffix(before.opening))
