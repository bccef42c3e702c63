"""Every cause that a client can bring about, alone and beside every other one, in each place of a session where it may come."""

from collections.abc import Callable
from itertools import combinations

import pytest
from msgspec import structs

from antiphon.explain.causes import Code, causes
from antiphon.explain.sent import Sent
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
SYSTEM = f"{BILLING.format(1)}\nYou are an agent.\nToday's date: 2026-11-29\nBe brief."
TURN: tuple[Segment, ...] = (ReasoningSegment("Look."), TextSegment("I look."), CallSegment("run", '{"cmd": "ls"}', "call_1"))
ROUND: tuple[Message, ...] = (AssistantMessage(TURN), ToolMessage("call_1", "a.txt\nb.txt"))
HISTORY: tuple[Message, ...] = (SystemMessage(SYSTEM), UserMessage("What is here?\nTell me."), *ROUND)
REPLY: tuple[Segment, ...] = (ReasoningSegment("Now I know."), TextSegment("Two files."))
FIRST = TurnRequest(
    surface="messages", model="m", messages=HISTORY, tools=(Tool(name="read", description="Reads."), Tool(name="run", description="Runs."))
)
BEFORE = Sent(request=FIRST, model="m1", ids=(1, 2, 3), reply=REPLY)

Change = Callable[[TurnRequest], TurnRequest]


def at(index: int, change: Callable[[Message], Message]) -> Change:
    def changed(request: TurnRequest) -> TurnRequest:
        messages = list(request.messages)
        messages[index] = change(messages[index])
        return structs.replace(request, messages=tuple(messages))

    return changed


def text(index: int, old: str, new: str) -> Change:
    def changed(message: Message) -> Message:
        assert not isinstance(message, AssistantMessage) and old in message.text
        return structs.replace(message, text=message.text.replace(old, new))

    return at(index, changed)


def turn(change: Callable[[tuple[Segment, ...]], tuple[Segment, ...]]) -> Change:
    def changed(message: Message) -> Message:
        assert isinstance(message, AssistantMessage)
        return structs.replace(message, segments=change(message.segments))

    return at(2, changed)


def respelled(arguments: str) -> Change:
    return turn(lambda segments: tuple(structs.replace(s, arguments=arguments) if isinstance(s, CallSegment) else s for s in segments))


CHANGES: dict[str, tuple[Code, Change]] = {
    "billing header": ("billing_header", text(0, "cc_version=2.1.1.", "cc_version=2.1.2.")),
    "date": ("date_line", text(0, "2026-11-29", "2026-11-30")),
    "system": ("system_edited", text(0, "Be brief.", "Be long.")),
    "tools": ("tools_changed", lambda request: structs.replace(request, tools=(*request.tools, Tool(name="new")))),
    "tool order": ("tool_order", lambda request: structs.replace(request, tools=request.tools[::-1])),
    "user": ("history_edited", text(1, "Tell me.", "Tell us.")),
    "result": ("history_edited", text(3, "b.txt", "c.txt")),
    "reasoning": ("reasoning_dropped", turn(lambda segments: tuple(s for s in segments if not isinstance(s, ReasoningSegment)))),
    "other reasoning": ("history_edited", turn(lambda segments: (ReasoningSegment("I see."), *segments[-2:]))),
    "spelling": ("arguments_respelled", respelled('{"cmd":"ls"}')),
    "arguments": ("history_edited", respelled('{"cmd": "rm"}')),
    "order": ("turn_rewritten", turn(lambda segments: (*segments[:-2], *segments[:-3:-1]))),
    "effort": ("effort_changed", lambda request: structs.replace(request, thinking=Thinking(effort="high"))),
}
GROWN = structs.replace(FIRST, messages=(*HISTORY, AssistantMessage(REPLY), UserMessage("Go on.")))
ANEW = structs.replace(FIRST, messages=(HISTORY[0], UserMessage("Summary: there are two files.")))
HEADS = ("billing header", "date", "system", "tools", "tool order", "effort")
EXCLUSIVE = ({"reasoning", "other reasoning"}, {"spelling", "arguments"}, {"order", "spelling"}, {"order", "arguments"})
PAIRS = [pair for pair in combinations(CHANGES, 2) if set(pair) not in EXCLUSIVE]


def codes(request: TurnRequest) -> set[str]:
    return {cause.code for cause in causes(BEFORE, structs.replace(BEFORE, request=request, reply=()))}


@pytest.mark.parametrize("base", [GROWN, FIRST], ids=["grown", "sent again"])
@pytest.mark.parametrize("name", CHANGES)
def test_alone(base: TurnRequest, name: str) -> None:
    code, change = CHANGES[name]
    assert codes(base) == set()
    assert codes(change(base)) == {code}


@pytest.mark.parametrize("base", [GROWN, FIRST], ids=["grown", "sent again"])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_at_once(base: TurnRequest, one: str, other: str) -> None:
    (code, change), (another, also) = CHANGES[one], CHANGES[other]
    assert codes(also(change(base))) == {code, another}


@pytest.mark.parametrize("name", HEADS)
def test_beside_a_compaction(name: str) -> None:
    code, change = CHANGES[name]
    assert codes(ANEW) == {"client_compaction"}
    assert codes(change(ANEW)) == {code, "client_compaction"}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("kept", range(2, len(HISTORY)))
def test_a_shorter_beginning_of_the_same_is_no_compaction(name: str, kept: int) -> None:
    """A client that goes back to an earlier place changed nothing but what it changed."""
    code, change = CHANGES[name]
    back = structs.replace(FIRST, messages=HISTORY[:kept])
    assert codes(back) == set()
    assert codes(change(back)) == {code}


@pytest.mark.parametrize("name", ["date", "system"])
def test_a_system_text_alone(name: str) -> None:
    """The request of one message sent again, or another one of the session."""
    code, change = CHANGES[name]
    before = structs.replace(BEFORE, request=structs.replace(FIRST, messages=HISTORY[:2]))
    now = structs.replace(before, request=change(before.request), reply=())
    assert [cause.code for cause in causes(before, now)] == [code]
