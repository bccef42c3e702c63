"""Every cause of a cache miss, alone and two at once, from the requests a session sends."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from antiphon.explain.causes import SENTENCES, Cause, causes
from antiphon.explain.explanation import MAX_CAUSES, MAX_DETAIL, Explanation, explain, heard, trimmed
from antiphon.explain.sent import Line, Sent, SentPrompts, common_prefix
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Message,
    ReasoningSegment,
    Segment,
    SystemMessage,
    TextSegment,
    Thinking,
    Tool,
    ToolMessage,
    TurnRequest,
    UserMessage,
)

BILLING = "x-anthropic-billing-header: cc_version=2.1.{}.abc; cc_entrypoint=cli;"
SYSTEM = "You are an agent.\nToday's date: 2026-11-{}\nBe brief."
READ, RUN = Tool(name="read", description="Reads."), Tool(name="run", description="Runs.")
CALL = CallSegment("run", '{"cmd": "ls"}', "call_1")
REPLY: tuple[Segment, ...] = (ReasoningSegment("Look."), TextSegment("I look."), CALL)
HISTORY: tuple[Message, ...] = (SystemMessage(SYSTEM.format(29)), UserMessage("What is here?\nTell me."))


def ask(*messages: Message, tools: Sequence[Tool] = (READ, RUN), **fields: Any) -> TurnRequest:
    return TurnRequest(surface="messages", model="m", messages=messages, tools=tuple(tools), **fields)


def sent(request: TurnRequest, *, reply: tuple[Segment, ...] = (), model: str = "m1", **fields: Any) -> Sent:
    return Sent(request=request, model=model, ids=(1, 2, 3), reply=reply, **fields)


def told(*segments: Segment) -> tuple[Message, ...]:
    return (*HISTORY, AssistantMessage(segments), ToolMessage("call_1", "a.txt"))


BEFORE = sent(ask(*HISTORY), reply=REPLY)


@pytest.mark.parametrize(
    ("request_now", "expected"),
    [
        (ask(*told(*REPLY)), []),
        (ask(*told(*REPLY), thinking=Thinking(effort="high")), [("effort_changed", "head")]),
        (ask(*told(*REPLY), template_kwargs={"x": 1}), [("effort_changed", "head")]),
        (ask(*told(*REPLY), tools=(RUN, READ)), [("tool_order", "head")]),
        (ask(*told(*REPLY), tools=(READ,)), [("tools_changed", "head")]),
        (ask(*told(*REPLY), tools=(READ, structs.replace(RUN, description="Other."))), [("tools_changed", "head")]),
        (ask(*told(*REPLY), tools=(READ, RUN, Tool(name="late", deferred=True))), []),
        (ask(SystemMessage(SYSTEM.format(30)), *told(*REPLY)[1:]), [("date_line", "message 0 line 2")]),
        (ask(SystemMessage(SYSTEM.format(29) + "\nMore."), *told(*REPLY)[1:]), [("system_edited", "message 0 line 4")]),
        (ask(*told(*REPLY)[1:]), [("system_edited", "message 0")]),
        (ask(SystemMessage("New."), *told(*REPLY)), [("system_edited", "message 0 line 1"), ("system_edited", "message 1")]),
        (ask(HISTORY[0], UserMessage("What is here?\nTell us."), *told(*REPLY)[2:]), [("history_edited", "message 1 line 2")]),
        (ask(HISTORY[0], AssistantMessage(()), *told(*REPLY)[2:]), [("history_edited", "message 1")]),
        (ask(*told(*REPLY[1:])), [("reasoning_dropped", "message 2")]),
        (ask(*told(*REPLY[:2], structs.replace(CALL, arguments='{"cmd":"ls"}'))), [("arguments_respelled", "message 2.1")]),
        (ask(*told(*REPLY[:2], structs.replace(CALL, arguments='{"cmd":"rm"}'))), [("history_edited", "message 2.1")]),
        (ask(*told(REPLY[0], REPLY[2], REPLY[1])), [("turn_rewritten", "message 2")]),
        (ask(HISTORY[0], UserMessage("Summary of what was.")), [("client_compaction", "message 1")]),
        (
            ask(SystemMessage(SYSTEM.format(30)), *told(*REPLY[1:])[1:], tools=(RUN, READ)),
            [("tool_order", "head"), ("date_line", "message 0 line 2"), ("reasoning_dropped", "message 2")],
        ),
        (
            ask(SystemMessage(SYSTEM.format(30) + "!"), *told(*REPLY)[1:]),
            [("date_line", "message 0 line 2"), ("system_edited", "message 0 line 3")],
        ),
    ],
)
def test_cause_and_place(request_now: TurnRequest, expected: list[tuple[str, str]]) -> None:
    assert [(cause.code, cause.place) for cause in causes(BEFORE, sent(request_now))] == expected


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((HISTORY[0], UserMessage("Summary.")), ["client_compaction"]),
        ((HISTORY[0], HISTORY[1], UserMessage("Summary.")), ["client_compaction"]),
        ((SystemMessage("New."), UserMessage("Summary.")), ["system_edited", "client_compaction"]),
        ((HISTORY[0], UserMessage("What is here?\nTell us."), *told(*REPLY)[2:]), ["history_edited"]),
        ((HISTORY[0], UserMessage("What is there?"), AssistantMessage(REPLY[:1])), ["client_compaction"]),
        ((HISTORY[0], *told(*REPLY)[1:-1], UserMessage("Once more.")), ["history_edited"]),
        ((SystemMessage("New."), *told(*REPLY)[1:]), ["system_edited"]),
        (told(*REPLY), []),
    ],
)
def test_a_compaction_is_told_from_a_request_sent_again(messages: tuple[Message, ...], expected: list[str]) -> None:
    """The request before had two turns; each of these has fewer messages than it and its reply."""
    before = sent(ask(*told(*REPLY)), reply=(TextSegment("Done."),))
    assert [cause.code for cause in causes(before, sent(ask(*messages)))] == expected


def test_a_billing_header_is_named() -> None:
    one, other = (ask(SystemMessage(BILLING.format(n) + "\nBe brief."), HISTORY[1]) for n in (1, 2))
    assert [(cause.code, cause.line) for cause in causes(sent(one), sent(other))] == [("billing_header", 1)]


def test_another_model_explains_everything() -> None:
    assert [cause.code for cause in causes(BEFORE, sent(ask(UserMessage("x")), model="m2"))] == ["model_changed"]


def test_what_was_restored_cost_nothing() -> None:
    now = sent(ask(*told(*REPLY[1:])))
    assert causes(BEFORE, now, restored=frozenset({2})) == ()


def line(conversation: str = "s", *, tenant: str = "t", session: str | None = None) -> Line:
    return Line(tenant=tenant, session=session, conversation=conversation)


def add(prompts: SentPrompts, where: Line, one: Sent) -> None:
    prompts.add(where, one, prompts.expect(where, one.ids))


def numbers(count: int, *, start: int = 0) -> list[int]:
    return list(range(start, start + count))


def test_numbers_of_a_session_that_grows() -> None:
    prompts = SentPrompts(1 << 20)
    first = sent(ask(*HISTORY), reply=REPLY)
    first = structs.replace(first, ids=numbers(1000), output_ids=numbers(50, start=1000))
    assert prompts.expect(line(), first.ids).tokens == 0
    add(prompts, line(), first)
    ids = numbers(1100)
    expectation = prompts.expect(line(), ids)
    assert (expectation.session, expectation.tenant, expectation.tokens) == (1050, 1050, 1050)
    now = structs.replace(sent(ask(*told(*REPLY))), ids=ids, worker="w1")
    foreseen = explain(now, expectation)
    assert heard(foreseen, first, now, 1040).causes == ()
    assert [cause.code for cause in heard(foreseen, first, now, 256).causes] == ["evicted"]
    elsewhere = structs.replace(first, worker="w0")
    assert [cause.code for cause in heard(foreseen, elsewhere, now, 0).causes] == ["worker_changed"]
    more = heard(foreseen, first, now, 1090)
    assert (more.expected_tokens, more.cached_tokens, more.causes) == (1090, 1090, ())


def test_prompts_that_part_in_silence() -> None:
    """The client changed nothing: the model's own convention, or the end of the template."""
    prompts = SentPrompts(1 << 20)
    plain = structs.replace(sent(ask(*HISTORY), reply=(TextSegment("Hi."),)), ids=numbers(100), output_ids=[100, 101])
    add(prompts, line(), plain)
    ids = [*numbers(98), 7, 7, 7]
    now = sent(ask(*HISTORY, AssistantMessage((TextSegment("Hi."),)), UserMessage("x")))
    found = explain(structs.replace(now, ids=ids), prompts.expect(line(), ids))
    assert (found.shared_tokens, found.lost_tokens, [cause.code for cause in found.causes]) == (98, 4, ["template_suffix"])
    thought = structs.replace(plain, reply=REPLY)
    add(prompts, line(), thought)
    now = structs.replace(sent(ask(*told(*REPLY))), ids=ids)
    found = explain(now, prompts.expect(line(), ids))
    assert [(cause.code, cause.message) for cause in found.causes] == [("replay_policy", 2)]
    assert found.sentence.startswith("message 2: this model leaves reasoning")


def test_other_tenants_and_sessions() -> None:
    prompts = SentPrompts(1 << 20)
    add(prompts, line(), structs.replace(BEFORE, ids=numbers(600)))
    assert prompts.expect(line("other"), numbers(700)).tokens == 600
    assert prompts.expect(line(tenant="u"), numbers(700)).tokens == 0
    assert prompts.expect(line(), [9, *numbers(699)]).tokens == 0


def test_a_request_sent_again_misses_nothing() -> None:
    prompts = SentPrompts(1 << 20)
    first = structs.replace(sent(ask(*HISTORY), reply=REPLY), ids=numbers(100), output_ids=[100, 101])
    add(prompts, line(), first)
    found = explain(first, prompts.expect(line(), first.ids))
    assert (found.expected_tokens, found.shared_tokens, found.lost_tokens, found.causes) == (100, 100, 0, ())
    # Taken back to it from a later place, whose prompt wrote the end of the first one differently.
    add(prompts, line(), structs.replace(first, ids=[*numbers(98), 7, 7, 7, 7], request=ask(*told(*REPLY))))
    found = explain(first, prompts.expect(line(), first.ids))
    assert (found.expected_tokens, found.shared_tokens, found.lost_tokens, found.causes) == (100, 98, 0, ())


def test_everything_the_tenant_sent_counts() -> None:
    """Not only the newest prompt of the session, and to the token."""
    prompts = SentPrompts(1 << 20)
    add(prompts, line(), structs.replace(BEFORE, ids=numbers(195), output_ids=numbers(10, start=1000)))
    add(prompts, line(), structs.replace(BEFORE, ids=[*numbers(40), *numbers(300, start=5000)]))
    found = prompts.expect(line(), [*numbers(195), 1000, 1001, 3])
    assert (found.session, found.tenant, found.tokens) == (40, 197, 197)


def test_a_prompt_counts_once_it_was_read() -> None:
    """A turn that runs beside another one with the same head."""
    prompts = SentPrompts(1 << 20)
    ids = numbers(600)
    prompts.read(line(), ids, prompts.expect(line(), ids))
    assert prompts.expect(line("other"), numbers(700)).tokens == 600
    assert prompts.expect(line(), ids).previous is None


def test_a_conversation_that_begins_anew_follows_the_session() -> None:
    prompts = SentPrompts(1 << 20)
    first = structs.replace(BEFORE, request=structs.replace(BEFORE.request, session="x"), ids=numbers(600))
    add(prompts, line("before compaction", session="x"), first)
    found = prompts.expect(line("after compaction", session="x"), numbers(300))
    assert found.previous is not None and (found.session, found.anew) == (300, True)
    assert not prompts.expect(line("before compaction", session="x"), numbers(300)).anew
    assert prompts.expect(line("after compaction", session="y"), numbers(300)).previous is None


def test_memory_is_bounded() -> None:
    prompts = SentPrompts(100_000)
    for number in range(200):
        add(prompts, line(f"s{number}"), structs.replace(BEFORE, ids=numbers(1000, start=number)))
    assert prompts.bytes <= 100_000
    assert prompts.expect(line("s0"), numbers(1000)).tokens == 0
    assert prompts.expect(line("s199"), numbers(1000, start=199)).session == 1000
    add(prompts, line("huge"), structs.replace(BEFORE, ids=numbers(100_000)))
    assert prompts.expect(line("huge"), numbers(10)).previous is None
    assert prompts.bytes <= 100_000


def test_what_is_kept_of_an_explanation_is_bounded() -> None:
    many = tuple(Cause(code="history_edited", message=number, detail="x" * 10_000) for number in range(1000))
    found = trimmed(Explanation(prompt_tokens=1, expected_tokens=1, causes=many))
    assert [cause.message for cause in found.causes] == list(range(MAX_CAUSES))
    assert max(len(cause.detail) for cause in found.causes) <= MAX_DETAIL + 3


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_common_prefix(shared: list[int], one: list[int], other: list[int]) -> None:
    a, b = [*shared, *one], [*shared, *other]
    expected = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert common_prefix(a, b) == expected


def test_every_code_has_its_sentence() -> None:
    assert all(sentence.strip() and not sentence.endswith(".") for sentence in SENTENCES.values())
