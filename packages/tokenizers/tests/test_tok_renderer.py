"""Prompts: the default model's template and a Qwen3-like one, replay, prefill, switches."""

from collections.abc import Callable
from typing import Any

import pytest

from antiphon_tokenizers import ChatTemplate, ModelFiles, Rendered, Renderer, Tokenizer, encode
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Family,
    Frame,
    Message,
    ReasoningSegment,
    ReplayPolicy,
    SystemMessage,
    TemplateSwitches,
    TextSegment,
    Thinking,
    Tool,
    ToolChoice,
    ToolMessage,
    TurnRequest,
    TurnWriter,
    UserMessage,
)
from antiphon_turns.errors import InvalidRequest

OPEN_FILE = Tool(name="open_file", description="It opens.", parameters='{"properties": {"n": {"default": 1.10}}}')


def ask(*messages: Message, **fields: Any) -> TurnRequest:
    return TurnRequest(surface="chat", model="m", messages=messages, **fields)


def call(path: str, call_id: str) -> CallSegment:
    return CallSegment("open_file", f'{{"path":"{path}"}}', call_id)


Make = Callable[..., Renderer]


@pytest.fixture
def qwen(qwen_like: str, bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family]) -> Make:
    def make(keep: str = "after_last_user", **switches: object) -> Renderer:
        return Renderer(ChatTemplate(qwen_like), bytewise, family=make_family(keep, **switches), writer=json_writer)

    return make


@pytest.fixture
def default(smollm: ModelFiles, json_writer: TurnWriter, make_family: Callable[..., Family]) -> Renderer:
    template = ChatTemplate(smollm.chat_template or "", bos_token=smollm.bos_token, eos_token=smollm.eos_token)
    return Renderer(template, smollm.tokenizer, family=make_family(), writer=json_writer)


TOOL_LOOP = (
    SystemMessage("Be brief."),
    UserMessage("Read both."),
    AssistantMessage((ReasoningSegment("Two calls."), TextSegment("Reading."), call("a", "c1"), call("b", "c2"))),
    ToolMessage("c1", "AAA"),
    ToolMessage("c2", "no such file", is_error=True),
)


def test_default_model_prompt(default: Renderer) -> None:
    rendered = default.render(ask(*TOOL_LOOP, tools=(OPEN_FILE,)))
    assert (
        rendered.text
        == """<|im_start|>system
Be brief.

# Functions
{"name": "open_file", "description": "It opens.", "parameters": {"properties": {"n": {"default": 1.10}}}}<|im_end|>
<|im_start|>user
Read both.<|im_end|>
<|im_start|>assistant
<think>
Two calls.
</think>

Reading.
<tool_call>
{"name": "open_file", "arguments": {"path":"a"}}
</tool_call>
<tool_call>
{"name": "open_file", "arguments": {"path":"b"}}
</tool_call><|im_end|>
<|im_start|>user
<tool_response>
AAA
</tool_response>
<tool_response>
no such file
</tool_response><|im_end|>
<|im_start|>assistant
"""
    )
    assert (rendered.opening, rendered.anomalies) == ("", ())
    assert rendered.pieces[:3] == (1, rendered.text[12 : rendered.text.index("<|im_end|>")], 2)


def test_default_model_without_system(default: Renderer) -> None:
    assert "named SmolLM" in default.render(ask(UserMessage("hi"))).text
    with_tools = default.render(ask(UserMessage("hi"), tools=(OPEN_FILE,))).text
    assert with_tools.startswith("<|im_start|>system\n# Functions\n{")
    hidden = default.render(ask(UserMessage("hi"), tools=(OPEN_FILE,), tool_choice=ToolChoice(mode="none")))
    assert "open_file" not in hidden.text


def test_qwen_like_prompt(qwen: Make) -> None:
    rendered = qwen().render(ask(*TOOL_LOOP, tools=(OPEN_FILE, Tool(name="now"))))
    assert (
        rendered.text
        == """<|im_start|>system
Be brief.

# Functions

You may call these functions, one JSON signature a line:
<tools>
{"type": "function", "function": {"name": "open_file", "description": "It opens.", "parameters": {"properties": {"n": {"default": 1.10}}}}}
{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
</tools>

A call is one JSON object inside <tool_call></tool_call>:
<tool_call>
{"name": NAME, "arguments": OBJECT}
</tool_call><|im_end|>
<|im_start|>user
Read both.<|im_end|>
<|im_start|>assistant
<think>
Two calls.
</think>

Reading.
<tool_call>
{"name": "open_file", "arguments": {"path":"a"}}
</tool_call>
<tool_call>
{"name": "open_file", "arguments": {"path":"b"}}
</tool_call><|im_end|>
<|im_start|>user
<tool_response>
AAA
</tool_response>
<tool_response>
Error: no such file
</tool_response><|im_end|>
<|im_start|>assistant
"""
    )
    assert rendered.anomalies == ()


HISTORY = (
    UserMessage("u1"),
    AssistantMessage((ReasoningSegment("r1"), call("x", "c1"))),
    ToolMessage("c1", "t1"),
    AssistantMessage((ReasoningSegment("r2"), TextSegment("a2"))),
    UserMessage("u2"),
    AssistantMessage((ReasoningSegment("r3"), TextSegment("a3"), call("y", "c2"))),
    ToolMessage("c2", "t2"),
    AssistantMessage((ReasoningSegment("r4"), call("z", "c3"), ReasoningSegment("r5"), TextSegment("a5"))),
    ToolMessage("c3", "t3"),
)


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ("all", "r1 r2 r3 r4 r5"),
        ("none", ""),
        ("after_last_user", "r3 r4 r5"),
        ("after_last_plain_assistant", "r3 r4 r5"),
        ("after_last_final", ""),
    ],
)
def test_replay(qwen: Make, keep: str, kept: str) -> None:
    text = qwen(keep).render(ask(*HISTORY)).text
    assert [word for word in ("r1", "r2", "r3", "r4", "r5") if f"<think>\n{word}\n</think>" in text] == kept.split()
    assert all(word in text for word in ("u1", "t1", "a2", "u2", "a3", "t2", "a5", "t3"))


def test_interleaved_turn_is_kept_in_order(qwen: Make) -> None:
    segments = (ReasoningSegment("r1"), TextSegment("one"), call("a", "c1"), ReasoningSegment("r2"), call("b", "c2"), TextSegment("two"))
    text = qwen("all").render(ask(UserMessage("u"), AssistantMessage(segments), ToolMessage("c1", "t"), ToolMessage("c2", "t"))).text
    places = [text.index(word) for word in ("r1", "one", '"a"', "r2", '"b"', "two", "<tool_response>")]
    assert places == sorted(places)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 1, 2)])
def test_results_stand_in_the_order_of_their_calls(qwen: Make, order: tuple[int, ...]) -> None:
    """A format without ids tells results apart by nothing else, and clients send them as their tools finish."""
    turn = AssistantMessage((call("a", "c0"), ReasoningSegment("r"), call("b", "c1"), call("c", "c2")))
    results = [ToolMessage(f"c{number}", f"t{number}") for number in order]
    text = qwen("all").render(ask(UserMessage("u"), turn, *results)).text
    assert [text.index(f"t{number}") for number in range(3)] == sorted(text.index(f"t{number}") for number in range(3))


def test_appending_keeps_the_prefix(qwen: Make) -> None:
    turn = AssistantMessage((ReasoningSegment("r"), TextSegment("a")))
    first = qwen("all").render(ask(UserMessage("u1"), turn)).text
    second = qwen("all").render(ask(UserMessage("u1"), turn, SystemMessage("late"), UserMessage("u2"))).text
    assert second.startswith(first + "<|im_end|>\n<|im_start|>system\nlate")


@pytest.mark.parametrize(
    ("thinking", "segments", "tail"),
    [
        ("default", None, "assistant\n"),
        ("on", None, "assistant\n"),
        ("off", None, "assistant\n<think>\n\n</think>\n\n"),
        ("on", (TextSegment("So <think>"),), "assistant\n<think>\n\n</think>\n\nSo <think>"),
        ("off", (TextSegment("So"),), "assistant\n<think>\n\n</think>\n\nSo"),
        ("off", (ReasoningSegment("hm"), TextSegment("So")), "assistant\n<think>\nhm\n</think>\n\nSo"),
    ],
)
def test_opening_and_prefill(qwen: Make, thinking: str, segments: Any, tail: str) -> None:
    renderer = qwen(thinking_on={"enable_thinking": True}, thinking_off={"enable_thinking": False})
    messages = (UserMessage("u"),) if segments is None else (UserMessage("u"), AssistantMessage(segments))
    rendered = renderer.render(ask(*messages, thinking=Thinking(mode=thinking)))  # type: ignore[arg-type]
    assert rendered.text.endswith("<|im_start|>" + tail)
    assert rendered.opening == tail.removeprefix("assistant\n")


def test_prefill_of_a_template_without_switch(default: Renderer) -> None:
    rendered = default.render(ask(UserMessage("u"), AssistantMessage((TextSegment("Well,"),))))
    assert rendered.text.endswith("u<|im_end|>\n<|im_start|>assistant\nWell,")
    assert rendered.opening == "Well,"


def test_template_variables(qwen: Make) -> None:
    renderer = qwen(allowed=frozenset({"enable_thinking"}), thinking_on={"enable_thinking": True})
    request = ask(UserMessage("u"), template_kwargs={"enable_thinking": False}, thinking=Thinking(mode="on"))
    assert renderer.render(request).opening == "<think>\n\n</think>\n\n"
    with pytest.raises(InvalidRequest, match=r"clients here: a, tools \(open: enable_thinking\)") as caught:
        renderer.render(ask(UserMessage("u"), template_kwargs={"tools": [], "a": 1}))
    assert caught.value.param == "chat_template_kwargs"
    with pytest.raises(InvalidRequest, match="open: none"):
        qwen().render(ask(UserMessage("u"), template_kwargs={"a": 1}))
    with pytest.raises(InvalidRequest) as caught:
        qwen().render(ask(UserMessage("u"), template_kwargs={f"{number}{'x' * 999}": 1 for number in range(999)}))
    assert len(caught.value.message) < 1_000


STRICT = """{%- for m in messages %}
    {%- if m.role == 'system' and not loop.first %}{{ raise_exception('System message must be first.') }}{% endif %}
    {%- if not loop.first and m.role == messages[loop.index0 - 1].role %}{{ raise_exception('roles must take turns') }}{% endif %}
    {{- '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %}"""


def test_strict_template_takes_late_system_text(bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family]) -> None:
    renderer = Renderer(ChatTemplate(STRICT), bytewise, family=make_family(), writer=json_writer)
    reply = AssistantMessage((TextSegment("  ok  "),))
    text = renderer.render(
        ask(
            SystemMessage("s1"),
            SystemMessage("s2"),
            UserMessage("u1"),
            reply,
            UserMessage("u2"),
            SystemMessage("late"),
            ToolMessage("c", "t"),
        )
    ).text
    assert text == (
        "<|im_start|>system\ns1\n\ns2<|im_end|>\n<|im_start|>user\nu1<|im_end|>\n<|im_start|>assistant\n  ok  <|im_end|>\n"
        "<|im_start|>user\nu2\n\nlate\n\n<tool_response>\nt\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    text = renderer.render(ask(UserMessage("u"), reply, reply, UserMessage("v"))).text
    assert "  ok  <|im_end|>\n<|im_start|>user\nContinue.<|im_end|>\n<|im_start|>assistant\n  ok  <|im_end|>" in text


def _plain(rendered: Rendered) -> str:
    assert "".join(piece for piece in rendered.pieces if isinstance(piece, str))
    return rendered.text


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        ("{{ '[A]' + m.content + '[/A]' }}", "[A]a1[/A]"),
        ("{{ '<|im_start|>assistant\n' + m.content }}", "<|im_start|>assistant\na1"),
        ("", ""),
    ],
)
def test_a_turn_without_the_frame_stands_as_the_template_has_it(
    bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family], turn: str, expected: str
) -> None:
    text = (
        "{% for m in messages %}{% if m.role == 'assistant' %}" + turn + "{% else %}({{ m.content }}){% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    renderer = Renderer(ChatTemplate(text), bytewise, family=make_family(), writer=json_writer)
    rendered = renderer.render(ask(UserMessage("u"), AssistantMessage((TextSegment("a1"),)), UserMessage("v")))
    assert _plain(rendered) == f"(u){expected}(v)<|im_start|>assistant\n"
    assert [a.code for a in rendered.anomalies] == ["frame_not_found"]


def test_template_that_ignores_the_generation_prompt(
    bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family]
) -> None:
    template = ChatTemplate("{% for m in messages %}({{ m.content }}){% endfor %}")
    rendered = Renderer(template, bytewise, family=make_family(), writer=json_writer).render(ask(UserMessage("u")))
    assert rendered.text == "(u)<|im_start|>assistant\n"
    assert rendered.opening == ""


CALLS_NEEDED = """{%- for m in messages %}
    {%- if m.role == 'assistant' %}{% set ns.calls = m.tool_calls or [] %}{{- '<|im_start|>assistant\n' + m.content + '<|im_end|>' }}
    {%- elif m.role == 'tool' %}
        {%- if not ns.calls %}{{ raise_exception('a result needs a call') }}{% endif %}
        {{- '(' + ns.calls[0].function.name + ':' + m.content + ')' }}
    {%- else %}{{- '(' + m.content + ')' }}{% endif %}
{%- endfor %}"""


def test_template_that_looks_at_calls_is_shown_them(
    bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family]
) -> None:
    template = ChatTemplate("{% set ns = namespace(calls=[]) %}" + CALLS_NEEDED)
    renderer = Renderer(template, bytewise, family=make_family(), writer=json_writer)
    rendered = renderer.render(ask(UserMessage("u"), AssistantMessage((call("a", "c1"),)), ToolMessage("c1", "t")))
    assert "</tool_call><|im_end|>(open_file:t)" in rendered.text
    assert rendered.anomalies == ()


def test_call_names_reach_results(bytewise: Tokenizer, json_writer: TurnWriter, make_family: Callable[..., Family]) -> None:
    text = "{% for m in messages %}{% if m.role == 'tool' %}<{{ m.name }}={{ m.content }}>{% else %}{{ m.content }}{% endif %}{% endfor %}"
    renderer = Renderer(ChatTemplate(text), bytewise, family=make_family(), writer=json_writer)
    assert "<open_file=t>" in renderer.render(ask(AssistantMessage((call("a", "c1"),)), ToolMessage("c1", "t"))).text


@pytest.mark.parametrize("said", ["Hello.", "\n\nHello.", "  Hello.", "\n", " "])
def test_a_turn_begins_at_a_token_as_it_did_when_it_was_sampled(default: Renderer, smollm: ModelFiles, said: str) -> None:
    """I9: no token spans the place where the prompt ended and the model began, however white space would merge."""
    tokenizer = smollm.tokenizer
    first = encode(default.render(ask(UserMessage("Hi"))), tokenizer, limit=10_000)
    sampled = [*tokenizer.encode(said, added=False), tokenizer.added_tokens["<|im_end|>"]]
    rendered = default.render(ask(UserMessage("Hi"), AssistantMessage((TextSegment(said),)), UserMessage("More")))
    assert encode(rendered, tokenizer, limit=10_000)[: len(first) + len(sampled)] == first + sampled
    assert "".join(piece if isinstance(piece, str) else tokenizer.decode([piece]) for piece in rendered.pieces) == rendered.text


@pytest.mark.parametrize("thought", ["plan", "  plan", "\nplan"])
def test_a_turn_begins_behind_the_opening_the_prompt_wrote(
    smollm: ModelFiles, json_writer: TurnWriter, make_family: Callable[..., Family], thought: str
) -> None:
    template = ChatTemplate((smollm.chat_template or "") + "{% if add_generation_prompt %}{{ '<think>\\n' }}{% endif %}")
    renderer = Renderer(template, smollm.tokenizer, family=make_family("all"), writer=json_writer)
    first = encode(renderer.render(ask(UserMessage("Hi"))), smollm.tokenizer, limit=10_000)
    sampled = smollm.tokenizer.encode(f"{thought}\n</think>\n\nDone.", added=False)
    turn = AssistantMessage((ReasoningSegment(thought), TextSegment("Done.")))
    second = encode(renderer.render(ask(UserMessage("Hi"), turn, UserMessage("More"))), smollm.tokenizer, limit=10_000)
    assert second[: len(first) + len(sampled)] == first + sampled


OPENING = "{% if add_generation_prompt %}{{ '<think>\\n' if enable_thinking is not false else '<think>\\n\\n</think>\\n\\n' }}{% endif %}"


@pytest.mark.parametrize(
    ("mode", "keep", "sampled"),
    [
        ("off", "all", "Hello."),
        ("off", "after_last_user", "Hello."),
        ("on", "all", "\n</think>\n\nHello."),
        ("on", "all", "  plan\n</think>\n\nHello."),
    ],
)
def test_a_kept_turn_keeps_the_opening_it_was_sampled_behind(
    smollm: ModelFiles, json_writer: TurnWriter, make_family: Callable[..., Family], mode: Any, keep: str, sampled: str
) -> None:
    """Thinking off: the empty block was in the prompt. Thinking on without a thought: the model closed it at once."""
    template = ChatTemplate((smollm.chat_template or "") + OPENING)
    family = make_family(keep, thinking_on={"enable_thinking": True}, thinking_off={"enable_thinking": False})
    renderer = Renderer(template, smollm.tokenizer, family=family, writer=json_writer)
    ids = [encode(renderer.render(ask(UserMessage("Hi"), thinking=Thinking(mode=mode))), smollm.tokenizer, limit=10_000)]
    reasoning = (ReasoningSegment("  plan"),) if "plan" in sampled else ()
    turn = AssistantMessage((*reasoning, TextSegment("Hello."), call("a", "c1")))
    later = renderer.render(ask(UserMessage("Hi"), turn, ToolMessage("c1", "AAA"), thinking=Thinking(mode=mode)))
    ids.append(encode(later, smollm.tokenizer, limit=10_000))
    said = smollm.tokenizer.encode(sampled, added=False)
    assert ids[1][: len(ids[0]) + len(said)] == ids[0] + said


def test_a_turn_that_is_not_kept_loses_the_opening_too(
    smollm: ModelFiles, json_writer: TurnWriter, make_family: Callable[..., Family]
) -> None:
    template = ChatTemplate((smollm.chat_template or "") + OPENING)
    family = make_family("after_last_user", thinking_on={"enable_thinking": True}, thinking_off={"enable_thinking": False})
    renderer = Renderer(template, smollm.tokenizer, family=family, writer=json_writer)
    turn = AssistantMessage((TextSegment("Hello."),))
    text = renderer.render(ask(UserMessage("Hi"), turn, UserMessage("More"), thinking=Thinking(mode="off"))).text
    assert "<|im_start|>assistant\nHello.<|im_end|>" in text


ALWAYS = "{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}"
ONLY_WHEN_ON = "{% if add_generation_prompt and enable_thinking is not false %}{{ '<think>\n' }}{% endif %}"


@pytest.mark.parametrize("opening", [ALWAYS, ONLY_WHEN_ON])
def test_a_turn_without_reasoning_never_lands_inside_a_block(
    smollm: ModelFiles, json_writer: TurnWriter, make_family: Callable[..., Family], opening: str
) -> None:
    """A template without an empty block: the model closed the block the prompt had opened at once."""
    family = make_family("all", thinking_on={"enable_thinking": True}, thinking_off={"enable_thinking": False})
    renderer = Renderer(ChatTemplate((smollm.chat_template or "") + opening), smollm.tokenizer, family=family, writer=json_writer)
    turn = AssistantMessage((TextSegment("Hello."),))
    text = renderer.render(ask(UserMessage("Hi"), turn, UserMessage("More"), thinking=Thinking(mode="on"))).text
    assert "<|im_start|>assistant\n<think>\n</think>\n\nHello.<|im_end|>" in text
    prefilled = renderer.render(ask(UserMessage("Hi"), turn, thinking=Thinking(mode="off")))
    assert prefilled.opening == ("<think>\n</think>\n\nHello." if opening is ALWAYS else "Hello.")


SHOWS_IDS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if m.role == 'tool' %} of {{ m.tool_call_id }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_ids_of_the_format_count_the_calls_of_the_conversation(
    bytewise: Tokenizer, numbering_writer: TurnWriter, make_family: Callable[..., Family]
) -> None:
    renderer = Renderer(ChatTemplate(SHOWS_IDS), bytewise, family=make_family("none"), writer=numbering_writer)
    cut = CallSegment("open_file", '{"pa', "cut", status="truncated")
    history = (
        UserMessage("u"),
        AssistantMessage((call("a", "call_x_1"), cut, call("b", "call_x_2"))),
        ToolMessage("call_x_2", "B"),
        ToolMessage("call_x_1", "A"),
        AssistantMessage((call("c", "call_y"),)),
        ToolMessage("call_y", "C"),
        ToolMessage("unknown", "D"),
    )
    text = renderer.render(ask(*history)).text
    assert "[open_file:0][open_file:1]<|im_end|>" in text and "[open_file:2]<|im_end|>" in text
    assert "B of open_file:1<" in text and "A of open_file:0<" in text and "C of open_file:2<" in text and "D of unknown<" in text
    going_on = renderer.render(ask(*history, AssistantMessage((call("d", "call_z"),)))).text
    assert going_on.endswith("assistant\n[open_file:3]")


RESULTS_INLINE = (
    "{% for m in messages %}{% if m.role == 'user' %}<u>{{ m.content }}"
    "{% if loop.nextitem is defined and loop.nextitem.role == 'assistant' %}<a></think>{% endif %}"
    "{% elif m.role == 'tool' %}<r>{{ m.content }}</r>{% else %}{{ m.content }}<e>{% endif %}{% endfor %}"
    "{% if add_generation_prompt and messages[-1].role == 'user' %}<a>{{ '<think>' if thinking else '</think>' }}{% endif %}"
)


def test_a_turn_behind_results_needs_no_header(bytewise: Tokenizer, json_writer: TurnWriter) -> None:
    family = Family(
        name="inline",
        frame=Frame(assistant_header="<a>", end_of_turn="<e>", stop_tokens=("<e>",), result_ends=("</r>",)),
        markers=("<u>", "<r>", "<think>", "</think>"),
        replay=ReplayPolicy(keep="none", empty_block="</think>"),
        switches=TemplateSwitches(thinking_on={"thinking": True}, thinking_off={"thinking": False}),
    )
    renderer = Renderer(ChatTemplate(RESULTS_INLINE), bytewise, family=family, writer=json_writer)
    history = (UserMessage("u"), AssistantMessage((TextSegment("Look."), call("a", "c1"))), ToolMessage("c1", "R </r>"))
    rendered = renderer.render(ask(*history))
    block = '<tool_call>\n{"name": "open_file", "arguments": {"path":"a"}}\n</tool_call>'
    assert rendered.text == f"<u>u<a></think>Look.\n{block}<e><r>R </r></r>" and rendered.opening == "" and rendered.anomalies == ()
    longer = renderer.render(ask(*history, AssistantMessage((TextSegment("Done."),)), UserMessage("v")))
    assert longer.text == f"{rendered.text}Done.<e><u>v<a></think>" and longer.opening == "</think>" and longer.anomalies == ()
