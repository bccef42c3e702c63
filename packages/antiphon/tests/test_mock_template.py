"""The mock model's template, rendered: what scripts match against."""

import pytest

from antiphon.config import Settings
from antiphon.serve import build
from antiphon_turns import (
    AssistantMessage,
    CallSegment,
    ReasoningSegment,
    SystemMessage,
    TextSegment,
    Thinking,
    Tool,
    ToolChoice,
    ToolMessage,
    TurnRequest,
    UserMessage,
)

SCHEMA = '{"type": "object", "properties": {"b": {"type": "number", "default": 1.10}, "a": {"type": "string"}}, "required": ["b"]}'
TOOLS = (Tool(name="zeta", description='It\'s <b> & "é" 日本\n', parameters=SCHEMA), Tool(name="alpha"))
TOOL_LINES = (
    '{"name": "zeta", "description": "It\'s <b> & \\"é\\" 日本\\n", "parameters": ' + SCHEMA + "}\n"
    '{"name": "alpha", "parameters": {"type": "object", "properties": {}}}\n'
)
MESSAGES = (
    SystemMessage("Be brief."),
    UserMessage("Go."),
    AssistantMessage(
        (
            ReasoningSegment("Two."),
            TextSegment("Running."),
            CallSegment("zeta", '{"b": 2, "a": "x"}', "c1"),
            ReasoningSegment("Then."),
            CallSegment("alpha", "{}", "c2"),
        )
    ),
    ToolMessage("c1", "one"),
    ToolMessage("c2", "bad", is_error=True),
    SystemMessage("Late."),
    UserMessage("And?"),
    AssistantMessage((ReasoningSegment("Old."), TextSegment("Done."))),
    UserMessage("More."),
)
GOLDEN = f"""<|im_start|>system
Tools you may call:
{TOOL_LINES}<|im_end|>
<|im_start|>system
Be brief.<|im_end|>
<|im_start|>user
Go.<|im_end|>
<|im_start|>assistant
<think>
Two.
</think>

Running.
<tool_call>
<function=zeta>
<parameter=b>
2
</parameter>
<parameter=a>
x
</parameter>
</function>
</tool_call>
<think>
Then.
</think>

<tool_call>
<function=alpha>
</function>
</tool_call><|im_end|>
<|im_start|>user
<tool_response>
one
</tool_response><|im_end|>
<|im_start|>user
<tool_response>
Error: bad
</tool_response><|im_end|>
<|im_start|>system
Late.<|im_end|>
<|im_start|>user
And?<|im_end|>
<|im_start|>assistant
<think>
Old.
</think>

Done.<|im_end|>
<|im_start|>user
More.<|im_end|>
<|im_start|>assistant
<think>
"""
BARE = "<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def model():
    return build(Settings(engine="mock"))[0]


@pytest.fixture
def render(model):
    """render(*messages, **request fields) -> Rendered."""

    def rendered(*messages, **fields):
        return model.renderer.render(TurnRequest(surface="messages", model="antiphon-mock", messages=messages, **fields))

    return rendered


def test_golden(render):
    rendered = render(*MESSAGES, tools=TOOLS)
    assert rendered.text == GOLDEN
    assert rendered.opening == "<think>\n"
    assert tuple(rendered.anomalies) == ()


def test_tools_keep_the_clients_order(render):
    lines = TOOL_LINES.splitlines(keepends=True)
    assert "".join(lines) in render(UserMessage("Go."), tools=TOOLS).text
    assert "".join(lines[::-1]) in render(UserMessage("Go."), tools=TOOLS[::-1]).text


@pytest.mark.parametrize("fields", [{}, {"tools": TOOLS, "tool_choice": ToolChoice(mode="none")}])
def test_no_tools_no_list(render, fields):
    assert render(UserMessage("Go."), **fields).text == BARE + "<think>\n"


@pytest.mark.parametrize(("mode", "opening"), [("on", "<think>\n"), ("default", "<think>\n"), ("off", "")])
def test_thinking(render, mode, opening):
    rendered = render(UserMessage("Go."), thinking=Thinking(mode=mode))
    assert rendered.text == BARE + opening
    assert rendered.opening == opening


@pytest.mark.parametrize("mode", ["on", "off"])
def test_reasoning_of_every_turn_is_kept(render, mode):
    text = render(*MESSAGES, tools=TOOLS, thinking=Thinking(mode=mode)).text
    assert text.removesuffix("<think>\n") == GOLDEN.removesuffix("<think>\n")


def test_a_prefill_is_continued(render):
    rendered = render(UserMessage("Go."), AssistantMessage((TextSegment("Sure: "),)))
    assert rendered.text == BARE + "Sure: "
    assert rendered.opening == "Sure: "


def test_the_model_is_what_scripts_and_clients_expect(model):
    assert (model.name, model.context_length, model.label) == ("antiphon-mock", 262_144, "qwen3_coder + qwen3")
    assert model.family.frame.end_of_turn == "<|im_end|>"
    assert model.family.replay.keep == "all"
