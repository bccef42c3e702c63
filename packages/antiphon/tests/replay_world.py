"""A frontend without HTTP for tests of exact replay: bodies in, bodies out, through the real surfaces and the real pipeline; the engine
samples what the test decides. Models are made of surrogate tokenizers and the templates of the golden prompts."""

import asyncio
import hashlib
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

from packages.antiphon.tests.prompt_sessions import FAMILIES, surrogate_tokenizer, vocabulary

from antiphon.engines.base import Chunk, Job
from antiphon.model import Identity, Model, Recognition
from antiphon.pipeline import Pipeline, PipelineOptions, Prepared
from antiphon.prompts import PromptOptions
from antiphon.responses import Responses
from antiphon.seals import SealKey, Seals
from antiphon.stabilize import ANTHROPIC_PREAMBLE
from antiphon.surfaces import Projector, chat_surface, messages_surface
from antiphon.trace import TokenTrace
from antiphon_parsers import Parser, adapt, native_template, resolve
from antiphon_protocols import responses as responses_wire
from antiphon_tokenizers import ModelFiles
from antiphon_turns import CallSegment, Event, Opening, ReasoningSegment, Segment, TextSegment, Tool

CONTEXT = 1 << 20
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
    ("run", '{ "cmd" :"a\\\\b\\nc",  "env":{"deep": {"er": [{"x": -0.5}, [], {}]}} }'),
    ("edit", '{"text": "    def f():\\n\\treturn \\u4f60\\n", "n": 1.0, "ok": false}'),
    ("edit", '{"n": 1e3}'),
    ("edit", '{"text": "", "ok": true, "n": 12345678901234567890}'),
    ("run", "{}"),
)
TEXTS = ("Done.", "I will look.  ", "\u4f60\u597d, na\u00efve \U0001f600", "a\n\n  b\n", "1.0 and 1e3", "  lead", "x < y && <b>\n")
REASONING = ("Look first.", "Why?\n\nBecause 2 < 3.", "\u4f60  ok ", "  two\n", "Hm \U0001f600")
# What ends a turn behind a call, and behind an answer, in families whose models say who speaks next.
NEXT_SPEAKER = {
    "harmony": {True: "<|call|>", False: "<|return|>"},
    "glm47": {True: "<|observation|>", False: "<|user|>"},
    "gemma4": {True: "<|tool_response>", False: "<turn|>"},
}


@lru_cache(maxsize=1)
def base_vocabulary() -> str:
    """The default model's tokenizer, as text."""
    return vocabulary()


@lru_cache(maxsize=4)
def family_model(name: str) -> Model:
    """A family's model as it would be loaded, with its own policy."""
    tool_parser, reasoning_parser, shape = FAMILIES[name]
    found = resolve(tool_parser, reasoning_parser)
    template = shape.text if shape is not None else native_template(found) or ""
    found = adapt(found, template)
    files = ModelFiles(name="m", path=Path("m"), tokenizer=surrogate_tokenizer(found, base_vocabulary()), chat_template=template)
    identity = Identity(name="m", context_length=CONTEXT)
    return Model(identity, files=files, template=template, found=Recognition(model_format=found, why="by the test"))


ANSWERS = ("rt", "t", "rtrt", "rt", "r")
STEPS = ("rc", "rtc", "tc", "rcc", "rtcrc", "rcrcc", "c", "rccc", "trc")
ONE_CALL = ("rc", "rtc", "tc", "c", "trc")


def some_turn(dice: random.Random, family: str, *, last: bool, reasons: bool = True) -> tuple[Segment, ...]:
    """A turn of some shape; one that goes on with results ends in a call. Harmony's models stop behind a call."""
    harmony = family == "harmony"
    shapes = (ANSWERS[:2] if harmony else ANSWERS) if last else (ONE_CALL if harmony else STEPS)
    out: list[Segment] = []
    for kind in (shape := dice.choice(shapes)):
        if kind == "r" and (reasons or shape == "r"):
            out.append(ReasoningSegment(dice.choice(REASONING)))
        elif kind == "t" and not (out and isinstance(out[-1], TextSegment)):
            out.append(TextSegment(dice.choice(TEXTS)))
        elif kind == "c":
            out.append(CallSegment(*dice.choice(ARGUMENTS), f"call{len(out)}"))
    return tuple(out)


def sampled(opening: str, *, model: Model, made: Sequence[Segment], dice: random.Random, number: int = 0) -> list[int]:
    """Ids of a turn as a model could have sampled them behind `opening`: cut into tokens as no tokenizer would, with the end of
    the turn. `number`: the calls that the conversation holds already."""
    writer, frame, tokenizer = model.format.writer, model.family.frame, model.tokenizer
    reads = Parser(model.format.grammar, tools=TOOLS, opening=Opening("rendered", opening), turn_tag="a" * 16)
    text = writer.write(made, earlier_calls=number)
    if reads.in_reasoning and not isinstance(made[0], ReasoningSegment):
        # The model has nothing to think: it closes what the prompt has opened.
        text = writer.write((ReasoningSegment("qzq"), *made), earlier_calls=number).partition("qzq")[2]
    else:
        text = text.removeprefix(opening)
    end = next((stop for stop in (*frame.stop_tokens, frame.end_of_turn) if text.endswith(stop)), "")
    out: list[int] = []
    for piece in tokenizer.split(text.removesuffix(end)):
        if piece in tokenizer.control_tokens:
            out.append(tokenizer.control_tokens[piece])
            continue
        while piece:
            size = dice.choice((1, 2, 3, 5, 8, 40))
            out += tokenizer.encode(piece[:size], added=False)
            piece = piece[size:]
    end = end or NEXT_SPEAKER.get(model.family.name, {}).get(isinstance(made[-1], CallSegment), frame.end_of_turn)
    return [*out, *tokenizer.encode(end, added=True)]


class Script:
    """An engine that samples what it was told to. `ahead`: the prompts it was asked to compute and no more."""

    constrains = False
    reports_logprobs = False

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.ahead: list[Job] = []

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def ready(self) -> bool:
        return True

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        if job.prefill_only:
            self.ahead.append(job)
            yield Chunk([], "length")
            return
        for at in range(0, len(self.ids), 7):
            yield Chunk(self.ids[at : at + 7], finish="stop" if at + 7 >= len(self.ids) else None)


class Asked(NamedTuple):
    """One request: what the engine was given and has sampled, and what the client got."""

    prompt: list[int]
    opening: str
    output: list[int]
    answer: bytes

    @property
    def held(self) -> list[int]:
        """What the next prompt should begin with."""
        return [*self.prompt, *self.output]


class Frontend:
    """One process of the server. Seals of equal `secret`s open for each other; randomness is a counter, so that runs repeat."""

    def __init__(self, model: Model, *, secret: bytes = b"k" * 32, seed: str = "", options: PipelineOptions | None = None) -> None:
        self.model = model
        self.engine = Script()
        numbers = _numbers(seed)
        seals = Seals([SealKey(secret)], random_bytes=numbers)
        options = options or PipelineOptions(prompts=PromptOptions(rules=(ANTHROPIC_PREAMBLE,)))
        self.pipeline = Pipeline(model, self.engine, options=options, trace=TokenTrace(None), random_bytes=numbers, seals=seals)
        self._surfaces = {
            "messages": messages_surface(carriers=lambda: True),
            "chat": chat_surface(tool_dispatch=False, reasoning_dispatch=False),
        }
        self._responses = Responses(self.pipeline, store=None)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def ask(
        self,
        surface: str,
        body: bytes,
        say: Callable[[str], list[int]],
        *,
        tenant: str = "t",
        headers: Mapping[str, str] | None = None,
    ) -> Asked:
        """One request from its body to the answer's. `say` gives the ids that are sampled behind an opening."""
        return self._runner.run(self._ask(surface, body, say, tenant, headers or {}))

    def settle(self) -> None:
        """Lets what goes on behind the turns come to its end."""
        self._runner.run(self.pipeline.speculation.idle())

    async def _ask(self, surface: str, body: bytes, say: Callable[[str], list[int]], tenant: str, headers: Mapping[str, str]) -> Asked:
        tag = self.pipeline.new_tag()
        projector: Projector
        if surface == "responses":
            turn = await self._responses.open(responses_wire.read(body, headers), tag=tag, tenant=tenant)
            prepared = await self._responses.prepare(turn)
            projector = self._responses.projector(turn)
        else:
            call = self._surfaces[surface].ingest(body, headers)
            prepared = await self.pipeline.prepare(call.turn, tenant=tenant)
            projector = call.projector(f"req_{tag}", 1_700_000_000)
        self.engine.ids = say(prepared.prompt.opening)
        async for event in self._events(prepared, tag):
            projector.push(event)
        return Asked(prepared.prompt.ids, prepared.prompt.opening, self.engine.ids, projector.body())

    async def _events(self, prepared: Prepared, tag: str) -> AsyncGenerator[Event, None]:
        async with aclosing(self.pipeline.run(prepared, turn_tag=tag, request_id=f"req_{tag}")) as batches:
            async for batch in batches:
                for event in batch:
                    yield event


def _numbers(seed: str) -> Callable[[int], bytes]:
    def stream() -> Iterator[int]:
        number = 0
        while True:
            yield from hashlib.sha256(f"{seed}/{number}".encode()).digest()
            number += 1

    numbers = stream()
    return lambda size: bytes(next(numbers) for _ in range(size))


def lost(before: Asked, after: Asked) -> int:
    """How many tokens of what the engine held the next prompt does not begin with."""
    return len(before.held) - shared(before.held, after.prompt)


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How far two prompts are the same."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
