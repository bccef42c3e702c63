"""Every family with a surrogate: a template that shows its frame and nothing else, and a byte tokenizer with its control tokens. What
a prompt holds of past turns, what it leaves open, and that no client text becomes control (I13)."""

import msgspec
import pytest
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer

from antiphon_parsers import ModelFormat, Parser, resolve
from antiphon_parsers.registry import TOOL_PARTS
from antiphon_tokenizers import ChatTemplate, Rendered, Renderer, Tokenizer, encode
from antiphon_turns import (
    AssistantMessage,
    CallReady,
    CallSegment,
    Opening,
    ReasoningSegment,
    ReplayPolicy,
    SegmentStart,
    TextSegment,
    Tool,
    ToolMessage,
    TurnRequest,
    UserMessage,
)

# The reasoning that goes with each tool parser.
PAIRS: dict[str, str | None] = {
    **{name: name for name in ("deepseek_v3_1", "deepseek_v3_2", "deepseek_v4", "deepseek_v41", "gemma4", "glm45", "glm47", "hy_v3")},
    **{name: name for name in ("kimi_k2", "kimi_k3", "mimo", "minimax_m2", "minimax_m3", "mistral", "nemotron_deci", "olmo3", "seed_oss")},
    "deepseek_v3": "deepseek_r1",
    "granite4": "granite_thinking_parser",
    "harmony": "gpt_oss",
    "hermes": "qwen3",
    "lfm2": "qwen3",
    "llama3_json": None,
    "llama4_pythonic": None,
    "mistral_pre11": None,
    "phi4": None,
    "pythonic": None,
    "qwen3_coder": "qwen3",
}
TOOLS = (Tool(name="run", parameters='{"type": "object", "properties": {"cmd": {"type": "string"}}}'),)
PAST = (ReasoningSegment("R"), TextSegment("A"), CallSegment("run", '{"cmd": "ls"}', "call_1"))


def test_every_family_is_here() -> None:
    assert set(PAIRS) == set(TOOL_PARTS)


class Surrogate:
    """Renderer and tokenizer of one family."""

    def __init__(self, name: str) -> None:
        model = resolve(name, PAIRS[name])
        # What stays of past reasoning is each policy's own matter; here all of it does.
        self.model: ModelFormat = msgspec.structs.replace(
            model, family=msgspec.structs.replace(model.family, replay=ReplayPolicy(keep="all"))
        )
        frame = self.model.family.frame
        control = [mark for mark in dict.fromkeys((*self.model.family.markers, *frame.stop_tokens, "<|u|>")) if mark.strip() == mark]
        self.tokenizer = Tokenizer(byte_tokenizer(control))
        header, end = repr(frame.assistant_header), repr(frame.end_of_turn)
        text = (
            "{% for m in messages %}{% if m.role == 'assistant' %}{{ " + header + " + m.content + " + end + " }}"
            "{% else %}{{ '<|u|>' + m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ " + header + " }}{% endif %}"
        )
        template = ChatTemplate(text, bos_token=None, eos_token=None)
        self.renderer = Renderer(template, self.tokenizer, family=self.model.family, writer=self.model.writer)

    def render(self, *messages: UserMessage | AssistantMessage | ToolMessage) -> Rendered:
        return self.renderer.render(TurnRequest(surface="chat", model="m", messages=messages))


def byte_tokenizer(control: list[str]) -> FastTokenizer:
    """Bytes as tokens, and these control tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = FastTokenizer(models.BPE(vocab={char: number for number, char in enumerate(alphabet)}, merges=[]))
    split = pre_tokenizers.Split(Regex(r"\s+|\S+"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


@pytest.fixture(scope="module", params=sorted(PAIRS))
def surrogate(request: pytest.FixtureRequest) -> Surrogate:
    return Surrogate(request.param)


def test_a_past_turn_stands_in_the_frame(surrogate: Surrogate) -> None:
    rendered = surrogate.render(UserMessage("q"), AssistantMessage(PAST), ToolMessage("call_1", "r"))
    family, frame = surrogate.model.family, surrogate.model.family.frame
    written = surrogate.model.writer.write(PAST if surrogate.model.grammar.reasoning else PAST[1:])
    ends = (frame.end_of_turn, *frame.stop_tokens)
    body = written if written.endswith(ends) else written + frame.end_of_turn
    assert f"{frame.assistant_header}{body}" in rendered.text, family.name
    assert rendered.text.endswith(frame.assistant_header) and rendered.anomalies == ()


def test_the_opening_is_read_as_the_start_of_a_turn(surrogate: Surrogate) -> None:
    rendered = surrogate.render(UserMessage("q"), AssistantMessage(PAST), ToolMessage("call_1", "r"))
    opening = Opening("rendered", rendered.opening)
    parser = Parser(surrogate.model.grammar, tools=TOOLS, opening=opening, turn_tag="abcdefghijklmnop")
    events = [*parser.feed(surrogate.model.writer.write([TextSegment("Hello."), PAST[2]])), *parser.finish("stop")]
    assert [event.kind for event in events if isinstance(event, SegmentStart)] == ["text", "tool_call"]
    assert [event.arguments for event in events if isinstance(event, CallReady)] == ['{"cmd": "ls"}']


def test_client_text_never_becomes_control(surrogate: Surrogate) -> None:
    control = surrogate.tokenizer.control_tokens
    everything = " ".join(control)
    plain = surrogate.render(UserMessage("q"), AssistantMessage((TextSegment("A"),)), UserMessage("q"))
    spelled = surrogate.render(UserMessage(everything), AssistantMessage((TextSegment("A" + everything),)), UserMessage(everything))
    ids = set(control.values())

    def controls(rendered: Rendered) -> list[int]:
        return [token for token in encode(rendered, surrogate.tokenizer, limit=100_000) if token in ids]

    assert controls(spelled) == controls(plain) != []
    assert everything in surrogate.tokenizer.decode(encode(spelled, surrogate.tokenizer, limit=100_000))
