"""Models that bring no chat template: the project's own is found by vocabulary, architecture or flag, and carries the family's frame."""

import io
import json
from pathlib import Path

import pytest
from msgspec import structs
from packages.antiphon.tests.prompt_sessions import FAMILIES, family_renderer, surrogate_tokenizer, vocabulary
from packages.antiphon.tests.test_exact_replay import TELLINGS, Simulation, answers, stamped
from rich.console import Console
from tokenizers import AddedToken
from tokenizers import Tokenizer as FastTokenizer

from antiphon.banner import show_banner
from antiphon.model import Model, ModelChoice, load_model
from antiphon_parsers import native_template, resolve
from antiphon_tokenizers import ChatTemplate, Rendered, Renderer
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Message,
    ReasoningSegment,
    ReplayPolicy,
    SystemMessage,
    TextSegment,
    Thinking,
    Tool,
    ToolMessage,
    TurnRequest,
    UserMessage,
)
from antiphon_turns.errors import ConfigError

NATIVE = [name for name, (_, _, shape) in FAMILIES.items() if shape is None]
BARE = {
    "deepseek_v3_2": ("DeepseekV32ForCausalLM", None),
    "deepseek_v4": ("DeepseekV4ForCausalLM", None),
    "deepseek_v41": (None, None),
    "kimi_k3": (None, None),
    "harmony": (None, None),
    "mistral": (None, None),
}


@pytest.fixture(scope="module")
def base() -> str:
    return vocabulary()


def folder_of(name: str, base: str, folder: Path, architecture: str | None = None) -> Path:
    """A model folder without a chat template."""
    tool_parser, reasoning_parser, _ = FAMILIES[name]
    family = resolve(tool_parser, reasoning_parser).family
    fast = FastTokenizer.from_str(base)
    fast.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in (*family.markers, *family.frame.stop_tokens)])
    fast.save(str(folder / "tokenizer.json"))
    config = {"max_position_embeddings": 131072, **({"architectures": [architecture]} if architecture else {})}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def said(model: Model, *messages: Message, thinking: str = "on") -> str:
    request = TurnRequest(surface="messages", model="m", messages=messages, thinking=Thinking(mode=thinking))  # type: ignore[arg-type]
    return model.renderer.render(request).text


@pytest.mark.parametrize("name", NATIVE)
def test_a_folder_without_a_template_is_served_with_our_own(name: str, base: str, tmp_path: Path) -> None:
    architecture, flag = BARE[name]
    model = load_model(ModelChoice(path=folder_of(name, base, tmp_path, architecture), tool_call_parser=flag))
    assert model.format.names == (FAMILIES[name][0], FAMILIES[name][1])
    assert model.why.endswith(f"The files have no chat template; Antiphon's own for {name} is used.")
    text = said(model, SystemMessage("S"), UserMessage("U"))
    assert text.index("S") < text.rindex("U")


def test_the_start_up_text_says_so(base: str, tmp_path: Path) -> None:
    model = load_model(ModelChoice(path=folder_of("kimi_k3", base, tmp_path)))
    console = Console(record=True, width=400, file=io.StringIO())
    show_banner(console, url="http://127.0.0.1:8000", model=model, engine="mock engine", load_seconds=0.1)
    assert "Antiphon's own for kimi_k3" in console.export_text()


def test_the_operator_names_the_family(base: str, tmp_path: Path) -> None:
    choice = ModelChoice(path=folder_of("deepseek_v4", base, tmp_path), tool_call_parser="deepseek_v3_2", reasoning_parser="deepseek_v3_2")
    model = load_model(choice)
    assert model.why.startswith("named by the operator. The files have no chat template")
    assert said(model, UserMessage("U"), thinking="default").endswith("</think>")


def test_versions_that_cannot_be_told_apart_are_named(base: str, tmp_path: Path) -> None:
    model = load_model(ModelChoice(path=folder_of("deepseek_v4", base, tmp_path)))
    assert {other.name for other in model.others} & {"deepseek_v3_2", "deepseek_v4"}


def test_a_family_without_a_template_of_ours_is_refused(base: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no chat template.*chat_template\.jinja beside.*--tool-call-parser"):
        load_model(ModelChoice(path=folder_of("kimi_k2", base, tmp_path)))


def test_a_context_that_no_file_states_is_the_operators(base: str, tmp_path: Path) -> None:
    folder = folder_of("mistral", base, tmp_path)
    (folder / "config.json").unlink()
    assert load_model(ModelChoice(path=folder, context_length=65_536)).context_length == 65_536


CALLS = AssistantMessage((ReasoningSegment("R"), CallSegment("a", "{}", "c1"), CallSegment("b", "{}", "c2")))
LOOP: tuple[Message, ...] = (SystemMessage("S"), UserMessage("U"), CALLS, ToolMessage("c2", "two"), ToolMessage("c1", "one"))
BEGIN, END, USER, MODEL, SYSTEM = (
    f"<\uff5c{word}\uff5c>" for word in ("begin\u2581of\u2581sentence", "end\u2581of\u2581sentence", "User", "Assistant", "System")
)
RESULTS = f"{END}{USER}<tool_result>one</tool_result>\n\n<tool_result>two</tool_result>{MODEL}<think>"


def k3(attributes: str, text: str) -> str:
    return f"<|open|>message {attributes}<|sep|>{text}<|close|>message<|sep|><|end_of_msg|>"


K3_MODEL = '<|open|>message role="assistant"<|sep|><|open|>'
# What a tool loop begins with, what it ends with, and the opening with thinking off.
FRAMES = {
    "deepseek_v3_2": (
        f"{BEGIN}S{USER}U{MODEL}<think>R</think>",
        f"{END}\n\n<function_results>\n<result>one</result>\n<result>two</result>\n</function_results>\n\n<think>",
        f"{MODEL}</think>",
    ),
    "deepseek_v4": (f"{BEGIN}S{USER}U{MODEL}<think>R</think>", RESULTS, f"{MODEL}</think>"),
    "deepseek_v41": (f"{BEGIN}{SYSTEM}S{USER}U{MODEL}<think>R</think>", RESULTS, f"{MODEL}</think>"),
    "kimi_k3": (
        k3('role="system"', "S") + k3('role="user"', "U") + K3_MODEL + "think<|sep|>R<|close|>think<|sep|>",
        k3('role="tool" tool="a" index="1"', "one") + k3('role="tool" tool="b" index="2"', "two") + K3_MODEL + "think<|sep|>",
        K3_MODEL + "response<|sep|>",
    ),
    "harmony": (
        "<|end|><|start|>developer<|message|># Instructions\n\nS<|end|><|start|>user<|message|>U<|end|>"
        "<|start|>assistant<|channel|>analysis<|message|>R<|end|>",
        "<|call|><|start|>functions.a to=assistant<|channel|>commentary<|message|>one<|end|>"
        "<|start|>functions.b to=assistant<|channel|>commentary<|message|>two<|end|><|start|>assistant",
        "<|start|>assistant",
    ),
    "mistral": (
        "<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]U[/INST][THINK]R[/THINK]",
        "</s>[TOOL_RESULTS]one[/TOOL_RESULTS][TOOL_RESULTS]two[/TOOL_RESULTS]",
        "[INST]U[/INST]",
    ),
}


@pytest.mark.parametrize("name", NATIVE)
def test_frames(name: str, base: str) -> None:
    """Roles, results in the order of their calls, and the thinking switch, as in the facts about the family."""
    renderer, _, model = family_renderer(name, base)
    begin, end, off = FRAMES[name]

    def text(*messages: Message, thinking: str = "on") -> str:
        return renderer.render(
            TurnRequest(surface="messages", model="m", messages=messages, thinking=Thinking(mode=thinking))  # type: ignore[arg-type]
        ).text

    loop = text(*LOOP)
    assert (loop.startswith(begin) or begin in loop) and loop.endswith(end)
    assert text(UserMessage("U"), thinking="off").endswith(off)
    late = text(UserMessage("u1"), AssistantMessage((TextSegment("A"),)), SystemMessage("rules"), UserMessage("go"))
    places = [late.index(word) for word in ("u1", "A", "rules", "go")]
    assert places == sorted(places)
    assert "{%" in (native_template(model) or "")


def test_kimi_k3_quotes_names(base: str) -> None:
    renderer, _, _ = family_renderer("kimi_k3", base)
    call = AssistantMessage((CallSegment('a&"b', "{}", "c1"),))
    text = renderer.render(TurnRequest(surface="chat", model="m", messages=(UserMessage("U"), call, ToolMessage("c1", "x")))).text
    assert text.count("a&amp;&quot;b") == 2


def test_mistral_joins_user_texts(base: str) -> None:
    renderer, _, _ = family_renderer("mistral", base)
    text = renderer.render(TurnRequest(surface="chat", model="m", messages=(UserMessage("a"), UserMessage("b")))).text
    assert text == "<s>[INST]a\n\nb[/INST]"


LAST = AssistantMessage((ReasoningSegment("r2"), TextSegment("a2")))
PREFIXES: dict[int, tuple[str, tuple[Message, ...]]] = {
    # A tool loop stays when the next user speaks, where the model can keep it.
    103: ("qwen3_coder", (UserMessage("u1"), CALLS, ToolMessage("c1", "t1"), LAST)),
    # The marker behind the last user's text does not flip where reasoning is kept, as this family does with tools.
    104: ("deepseek_v4", (UserMessage("u1"), LAST)),
}


@pytest.mark.parametrize("report", PREFIXES)
def test_field_reports_of_prefixes(report: int, base: str) -> None:
    name, history = PREFIXES[report]
    renderer, _, model = family_renderer(name, base)

    def render(*messages: Message) -> Rendered:
        return renderer.render(
            TurnRequest(surface="chat", model="m", messages=messages, tools=(Tool(name="now"),), thinking=Thinking(mode="on"))
        )

    def text(*messages: Message) -> str:
        return render(*messages).text

    first, last = text(*history[:-1]), history[-1]
    assert isinstance(last, AssistantMessage)
    sampled = model.writer.write(last.segments)
    opening = render(*history[:-1]).opening
    assert text(*history, UserMessage("u2")).startswith(first + sampled.removeprefix(opening))


def test_field_report_110_ids_are_the_familys(base: str) -> None:
    renderer, _, _ = family_renderer("kimi_k2", base)
    call = AssistantMessage((CallSegment("now", "{}", "toolu_RANDOM1"),))
    text = renderer.render(
        TurnRequest(surface="chat", model="m", messages=(UserMessage("a"), call, ToolMessage("toolu_RANDOM1", "1")))
    ).text
    assert text.count("functions.now:0") == 2 and "toolu_RANDOM1" not in text


def test_field_report_140_foreign_ids_are_taken(base: str) -> None:
    """Ours never shows an id; a template that demands nine letters or digits gets them."""

    from antiphon_tokenizers import ChatTemplate, Renderer

    refused = "{% if ID | length != 9 %}{{ raise_exception('nine characters') }}{% endif %}"
    picky = (
        "{%- for m in messages %}{%- for c in m.tool_calls or [] %}" + refused.replace("ID", "c.id") + "{% endfor %}"
        "{%- if m.role == 'tool' %}" + refused.replace("ID", "m.tool_call_id") + "{{- '[TOOL_RESULTS]' + m.tool_call_id }}"
        "{{- '[TOOL_CONTENT]' + m.content + '[/TOOL_RESULTS]' }}{%- elif m.role == 'assistant' %}{{- m.content + '</s>' }}"
        "{%- else %}{{- '[INST]' + m.content + '[/INST]' }}{% endif %}{%- endfor %}"
    )
    model = resolve("mistral", "mistral")
    call = AssistantMessage((CallSegment("now", "{}", "toolu_01ABC-xyz"),))
    messages = (UserMessage("a"), call, ToolMessage("toolu_01ABC-xyz", "1"), UserMessage("b"))
    renderer = Renderer(ChatTemplate(picky), surrogate_tokenizer(model, base), family=model.family, writer=model.writer)
    rendered = renderer.render(TurnRequest(surface="chat", model="m", messages=messages))
    assert not rendered.anomalies
    assert rendered.text == "[INST]a[/INST][TOOL_CALLS]now[ARGS]{}</s>[TOOL_RESULTS]000000000[TOOL_CONTENT]1[/TOOL_RESULTS][INST]b[/INST]"


@pytest.mark.parametrize("name", NATIVE)
def test_what_was_sampled_returns_exactly(name: str, base: str) -> None:
    """I9 with our own templates: the next prompt extends what the engine holds, results included."""
    simulation = Simulation(name, base)
    native = native_template(simulation.model) or ""
    switches = structs.replace(simulation.model.family.switches, agent={"thinking": True, "enable_thinking": True})
    family = structs.replace(simulation.model.family, replay=ReplayPolicy(keep="all"), switches=switches)
    simulation.renderer = Renderer(ChatTemplate(native), simulation.tokenizer, family=family, writer=simulation.model.writer)
    simulation.opener = simulation.prompt(UserMessage("u"))[1].opening
    for number in range(12):
        question, _, record, held = simulation.sample(number)
        for surface, tell in TELLINGS.values():
            told = AssistantMessage(tell(stamped(record)))
            ids, rendered = simulation.prompt(question, told, *answers(told), surface=surface, record=record)
            assert ids[: len(held)] == held, (number, rendered.text)
            assert rendered.exact == (1,) and not rendered.anomalies


PREFILLS = {
    "deepseek_v3_2": "<\uff5cAssistant\uff5c></think>So",
    "deepseek_v4": "<\uff5cAssistant\uff5c></think>So",
    "deepseek_v41": "<\uff5cAssistant\uff5c></think>So",
    "kimi_k3": '<|open|>message role="assistant"<|sep|><|open|>response<|sep|>So',
    "harmony": "<|start|>assistant<|channel|>final<|message|>So",
    "mistral": "[/INST]So",
}


@pytest.mark.parametrize("name", NATIVE)
def test_a_prefill_stays_open(name: str, base: str) -> None:
    renderer, _, _ = family_renderer(name, base)
    messages = (UserMessage("U"), AssistantMessage((TextSegment("So"),)))
    assert renderer.render(TurnRequest(surface="messages", model="m", messages=messages)).text.endswith(PREFILLS[name])
