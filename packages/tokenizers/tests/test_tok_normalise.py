"""Every restriction that chat templates are known for, imitated by a small template, and the conversations that meet it: docs/templates.md
has the table. None of them may fail, and nothing a client said may be missing or out of order."""

from collections.abc import Callable, Sequence
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_tokenizers import ChatTemplate, Rendered, Renderer, Tokenizer
from antiphon_tokenizers.normalise import STAND_IN, in_call_order
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Family,
    Message,
    ReasoningSegment,
    SystemMessage,
    TextSegment,
    Tool,
    ToolMessage,
    TurnRequest,
    TurnWriter,
    UserMessage,
)
from antiphon_turns.errors import InvalidRequest

CALL = AssistantMessage((TextSegment("w-text"), CallSegment("now", '{"w-key": "w-value"}', "c1")))
RESULT = ToolMessage("c1", "w-result")
REPLY = AssistantMessage((TextSegment("w-reply"),))
SHOW = "{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
OPEN = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}"


def restricted(check: str, *, show: str = SHOW, before: str = "") -> str:
    return before + "{%- for m in messages %}" + check + show + "{%- endfor %}" + OPEN


def refusal(condition: str, words: str) -> str:
    return "{%- if " + condition + " %}{{ raise_exception('" + words + "') }}{% endif %}"


PARTS = (
    "{%- if m.content is string %}{{ raise_exception('content is a list') }}{% endif %}"
    "{{- '<|im_start|>' + m.role + '\n' }}{% for part in m.content %}{{ part.text }}{% endfor %}{{- '<|im_end|>\n' }}"
)
LATEST_QUERY = (
    "{%- set ns = namespace(found=false) %}{%- for m in messages %}{% if m.role == 'user' and not"
    " m.content.startswith('<tool_response>') %}{% set ns.found = true %}{% endif %}{% endfor %}"
    "{%- if not ns.found %}{{ raise_exception('No user query found in messages.') }}{% endif %}"
)
TAKING_TURNS = (
    "{%- set ns = namespace(place=0) %}{%- for m in messages %}{%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}"
    "{%- if (m.role == 'user') != (ns.place % 2 == 0) %}{{ raise_exception('roles must take turns') }}{% endif %}"
    "{%- set ns.place = ns.place + 1 %}{% endif %}{% endfor %}"
)
RESULT_NEEDS_CALL = (
    "{%- if m.role == 'assistant' %}{% set ns.call = m.tool_calls %}"
    "{%- elif m.role == 'tool' and not ns.call %}{{ raise_exception('a result without a call') }}{% endif %}"
)
TOOL_FORM = "{{- ('<|im_start|>' + m.role + '\n' if m.role != 'tool' else '<|im_start|>user\n#') + m.content + '<|im_end|>\n' }}"
NO_TOOLS = refusal("m.role not in ('system', 'user', 'assistant')", "Unexpected message role.")
TEMPLATES = {
    "anything goes": restricted(""),
    "system must be first": restricted(refusal("m.role == 'system' and not loop.first", "System message must be at the beginning.")),
    "no system": restricted(refusal("m.role == 'system'", "System role not supported")),
    "silent about late system": restricted("", show="{%- if m.role != 'system' or loop.first %}" + SHOW + "{% endif %}"),
    "a user query": restricted("", before=LATEST_QUERY),
    "taking turns": restricted(NO_TOOLS, before=TAKING_TURNS),
    "taking turns, results between": restricted(refusal("m.role == 'system'", "no system"), show=TOOL_FORM, before=TAKING_TURNS),
    "neighbours differ": restricted(refusal("not loop.first and messages[loop.index0 - 1].role == m.role", "two in a row")),
    "no tool role": restricted(NO_TOOLS),
    "result needs a call": restricted(RESULT_NEEDS_CALL, show=TOOL_FORM, before="{%- set ns = namespace(call=none) %}"),
    "parts": restricted("", show=PARTS),
    "arguments are objects": restricted(
        "{%- for c in m.tool_calls or [] %}{% if c.function.arguments is not mapping %}"
        "{{ raise_exception('not an object') }}{% endif %}{% endfor %}"
    ),
    "a model role": restricted(
        NO_TOOLS + refusal("m.role == 'system'", "no system") + refusal("loop.first and m.role != 'user'", "user first"),
        before=TAKING_TURNS,
    ),
}
CONVERSATIONS: dict[str, Sequence[Message]] = {
    "plain": (UserMessage("w-user"), REPLY, UserMessage("w-more")),
    "system first": (SystemMessage("w-system"), UserMessage("w-user"), REPLY, UserMessage("w-more")),
    "several systems first": (SystemMessage("w-system"), SystemMessage("w-rules"), UserMessage("w-user")),
    "developer after compaction": (UserMessage("w-summary"), SystemMessage("w-rules"), UserMessage("w-go")),
    "system behind each result": (UserMessage("w-user"), CALL, RESULT, SystemMessage("w-left")),
    "text behind a result": (UserMessage("w-user"), CALL, RESULT, UserMessage("w-more")),
    "two users": (UserMessage("w-user"), UserMessage("w-more")),
    "two turns": (UserMessage("w-user"), REPLY, AssistantMessage((TextSegment("w-again"),)), UserMessage("w-more")),
    "begins with a turn": (SystemMessage("w-system"), CALL, RESULT),
    "begins with a result": (ToolMessage("gone", "w-result"), UserMessage("w-user")),
    "a result of nothing": (UserMessage("w-user"), REPLY, ToolMessage("gone", "w-result")),
    "only system": (SystemMessage("w-system"),),
    "empty turn": (UserMessage("w-user"), AssistantMessage(()), UserMessage("w-more")),
}


def words(messages: Sequence[Message]) -> list[str]:
    found: list[str] = []
    for message in messages:
        if not isinstance(message, AssistantMessage):
            found.append(message.text)
            continue
        for segment in message.segments:
            found += ["w-key", "w-value"] if isinstance(segment, CallSegment) else [segment.text]
    return found


@pytest.fixture
def render(bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family]) -> Callable[..., Rendered]:
    def run(template: str, messages: Sequence[Message], **fields: object) -> Rendered:
        renderer = Renderer(ChatTemplate(template), bytewise, family=make_family("all"), writer=json_writer)
        return renderer.render(TurnRequest(surface="chat", model="m", messages=tuple(messages), **fields))  # type: ignore[arg-type]

    return run


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_no_conversation_is_refused_and_nothing_is_lost(template: str, conversation: str, render: Callable[..., Rendered]) -> None:
    messages = CONVERSATIONS[conversation]
    rendered = render(TEMPLATES[template], messages)
    places = [rendered.text.find(word) for word in words(messages)]
    assert -1 not in places and places == sorted(places), rendered.text
    assert not rendered.anomalies
    assert rendered.text.endswith("<|im_start|>assistant\n")


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_conversation_that_grows_keeps_its_prompt(template: str, render: Callable[..., Rendered]) -> None:
    """Field report 101: a system message behind every result stays where it is."""
    grown: list[Message] = [UserMessage("w-user")]
    for number in range(3):
        call = CallSegment("now", "{}", f"c{number}")
        grown += [
            AssistantMessage((TextSegment(f"t{number}"), call)),
            ToolMessage(f"c{number}", f"r{number}"),
            SystemMessage(f"left {number}"),
        ]
    texts = [render(TEMPLATES[template], grown[:size]).text.removesuffix("<|im_start|>assistant\n") for size in (4, 7, 10)]
    # A message that a later one is joined to is open at its end.
    assert all(later.startswith(text.removesuffix("<|im_end|>\n")) for text, later in pairwise(texts))


def test_what_no_rule_meets_is_named(render: Callable[..., Rendered]) -> None:
    """Field report 138: the template's own message, and the message it is about."""
    template = restricted(refusal("'forbidden' in m.content", "No such word.") + refusal("m.content|length > 20", "Too long."))
    messages = [UserMessage("one"), REPLY, UserMessage("two <|im_end|> forbidden"), REPLY, UserMessage("three")]
    with pytest.raises(InvalidRequest) as caught:
        render(template, messages)
    assert caught.value.message.endswith(
        "refuses this conversation at message 2 (role user; counted from 0, system text included): No such word."
    )
    with pytest.raises(InvalidRequest, match=r"at message 1 \(role user.*Too long"):
        render(template, [UserMessage("one"), UserMessage("long, long, long, long"), REPLY])


def test_a_refusal_shows_the_clients_own_characters(render: Callable[..., Rendered]) -> None:
    template = restricted("{%- if 'x' in m.content %}{{ raise_exception('bad: ' + m.content) }}{% endif %}")
    with pytest.raises(InvalidRequest, match=r"bad: x<\|im_end\|>"):
        render(template, [UserMessage("x<|im_end|>")])


@pytest.mark.parametrize("template", ["a user query", "a model role", "taking turns, results between"])
def test_a_stand_in_is_there_from_the_first_request_on(template: str, render: Callable[..., Rendered]) -> None:
    short = render(TEMPLATES[template], [CALL, RESULT]).text.removesuffix("<|im_start|>assistant\n")
    assert short.startswith(f"<|im_start|>user\n{STAND_IN}<|im_end|>\n")
    assert render(TEMPLATES[template], [CALL, RESULT, REPLY, UserMessage("w-user")]).text.startswith(short.removesuffix("<|im_end|>\n"))


def test_results_stand_in_the_order_of_their_calls() -> None:
    calls = AssistantMessage(tuple(CallSegment("now", "{}", f"call_{n}") for n in "abc"))
    a, b, c, other = (ToolMessage(call_id, "") for call_id in ("calla", "call_b", "call-c", "gone"))
    assert in_call_order([calls, c, other, a, b]) == [calls, a, b, c, other]
    assert in_call_order([UserMessage(""), c, a]) == [UserMessage(""), c, a]


NATIVE = (
    "{%- for m in messages %}{{ '[' + m.role + ']' }}{% if m.REASONING %}{{ '(' + m.REASONING + ')' }}{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ '{' + c.function.name + '}' }}{% endfor %}{% endfor %}"
)
INTERLEAVED = (ReasoningSegment("r1"), TextSegment("t1"), CallSegment("now", "{}", "c1"), ReasoningSegment("r2"), TextSegment("t2"))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_a_template_without_the_frame_gets_reasoning_in_its_own_field(field: str, render: Callable[..., Rendered]) -> None:
    turn = AssistantMessage((ReasoningSegment("r1"), TextSegment("t1"), CallSegment("now", "{}", "c1")))
    rendered = render(NATIVE.replace("REASONING", field), [UserMessage("u"), turn, RESULT])
    assert "[assistant](r1)t1{now}" in rendered.text
    assert [a.code for a in rendered.anomalies] == ["frame_not_found"]


@pytest.mark.parametrize("field", ["reasoning_content", "nothing"])
def test_field_report_55_what_the_template_has_no_terms_for_is_written_in_order(field: str, render: Callable[..., Rendered]) -> None:
    rendered = render(NATIVE.replace("REASONING", field), [UserMessage("u"), AssistantMessage(INTERLEAVED), RESULT])
    places = [rendered.text.find(word) for word in ("<think>\nr1", "t1", '"now"', "<think>\nr2", "t2", "w-result")]
    assert -1 not in places and places == sorted(places) and rendered.text.count("r1") == 1
    hidden = render(NATIVE.replace("REASONING", "nothing"), [UserMessage("u"), AssistantMessage(INTERLEAVED[:2]), UserMessage("v")])
    assert "[assistant]<think>\nr1\n</think>\n\nt1" in hidden.text


def test_field_report_136_arguments_as_text(render: Callable[..., Rendered]) -> None:
    call = "{% if m.tool_calls %}{{ '<call>' + m.tool_calls[0].function.arguments + '</call>' }}{% endif %}"
    template = "{% for m in messages %}{{ m.content }}" + call + "{% endfor %}"
    turn = AssistantMessage((CallSegment("lookup", '{"query": "Oslo"}', "1"),))
    assert '{"query": "Oslo"}' in render(template, [UserMessage("a"), turn]).text


APART = (
    "{%- set ns = namespace(last=none) %}{%- for m in messages %}"
    "{%- if m.role == 'assistant' and m.tool_calls %}{% set ns.last = m.tool_calls[0].function.name %}"
    "{%- if m.content and not loop.last and messages[loop.index:] | selectattr('role', 'equalto', 'assistant') | list == [] %}"
    "{{- '<|im_start|>assistant\n' + m.content + '<|im_end|>\n' }}{% endif %}"
    "{{- '<|im_start|>assistant\nto=' + ns.last + ' ' + m.tool_calls[0].function.arguments | tojson + '<|im_end|>\n' }}"
    "{%- elif m.role == 'tool' %}{% if ns.last is none %}{{ raise_exception('a result without a call') }}{% endif %}"
    "{{- '<|im_start|>' + ns.last + '\n' + m.content | tojson + '<|im_end|>\n' }}"
    "{%- else %}" + SHOW + "{%- endif %}{%- endfor %}" + OPEN
)


def test_a_template_that_puts_calls_into_messages_of_their_own(render: Callable[..., Rendered]) -> None:
    """As that of gpt-oss does: it shows the first call only, and text beside calls now and then."""
    turn = AssistantMessage((*INTERLEAVED[:3], CallSegment("run", '{"a": 1}', "c2")))
    messages = [UserMessage("u"), turn, RESULT, ToolMessage("c2", "second"), REPLY, UserMessage("v")]
    rendered = render(APART, messages)
    assert rendered.anomalies == ()
    assert (
        'assistant\n<think>\nr1\n</think>\n\nt1\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n<tool_call>\n'
        '{"name": "run", "arguments": {"a": 1}}\n</tool_call><|im_end|>\n<|im_start|>now\n"w-result"<|im_end|>' in rendered.text
    )
    assert rendered.text.count('"now"') == 1


def test_a_template_that_ends_a_users_text_with_the_header_opens_no_turn_twice(
    bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family]
) -> None:
    from msgspec import structs

    family = make_family("all")
    frame = structs.replace(family.frame, assistant_header="[/I]", end_of_turn="<|im_end|>", result_ends=("[/R]",))
    template = (
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}<|im_end|>{% elif m.role == 'tool' %}[R]{{ m.content }}[/R]"
        "{% else %}[I]{{ m.content }}[/I]{% endif %}{% endfor %}"
    )
    renderer = Renderer(ChatTemplate(template), bytewise, family=structs.replace(family, frame=frame), writer=json_writer)

    def text(*messages: Message) -> str:
        return renderer.render(TurnRequest(surface="chat", model="m", messages=messages)).text

    assert text(UserMessage("u")) == "[I]u[/I]"
    assert text(UserMessage("u"), CALL, RESULT).endswith("[R]w-result[/R]")
    assert text(UserMessage("u"), REPLY).endswith("w-reply")


def test_keys_sort_as_they_read(bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family]) -> None:
    """A short name that lies within a control token has a stand-in while the template runs."""
    template = ChatTemplate("{{ tools | tojson(sort_keys=true) }}{% for m in messages %}{{ m.content }}{% endfor %}")
    renderer = Renderer(template, bytewise, family=make_family(), writer=json_writer)
    tool = Tool(name="t", parameters='{"properties": {"z": {}, "im": {}, "start": {}, "b": {}}}')
    text = renderer.render(TurnRequest(surface="chat", model="m", messages=(UserMessage("u"),), tools=(tool,))).text
    assert '{"b": {}, "im": {}, "start": {}, "z": {}}' in text


ROLES: dict[str, Message] = {"s": SystemMessage("w-s"), "u": UserMessage("w-u"), "a": REPLY, "c": CALL, "t": RESULT}
WORDS = {"s": "w-s", "u": "w-u", "a": "w-reply", "c": "w-text", "t": "w-result"}


@pytest.fixture(scope="module")
def renderers(bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family]) -> dict[str, Renderer]:
    family = make_family("all")
    return {name: Renderer(ChatTemplate(text), bytewise, family=family, writer=json_writer) for name, text in TEMPLATES.items()}


def check_order(renderer: Renderer, order: str) -> None:
    messages = tuple(ROLES[kind] for kind in order)
    text = renderer.render(TurnRequest(surface="chat", model="m", messages=messages)).text
    place = 0
    for kind in order:
        place = text.find(WORDS[kind], place)
        assert place >= 0, (order, text)
        place += 1


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_short_order_of_roles_is_taken(name: str, renderers: dict[str, Renderer]) -> None:
    for size in (1, 2, 3):
        for order in product("suact", repeat=size):
            if order[-1] not in "ac":
                check_order(renderers[name], "".join(order))


@settings(max_examples=60, deadline=None)
@given(order=st.text("suact", min_size=4, max_size=9), name=st.sampled_from(sorted(TEMPLATES)))
def test_every_long_order_of_roles_is_taken(order: str, name: str, renderers: dict[str, Renderer]) -> None:
    check_order(renderers[name], order + "u")
