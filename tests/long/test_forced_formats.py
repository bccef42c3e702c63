"""One forced call in the format of every family, really sampled by the default model, and parsed; then freeform text, a call held to its
grammar from the middle, and structured output.

Not part of the ordinary suite:  python -m pytest tests/long/test_forced_formats.py   (`make forced-calls` runs it too)
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from antiphon.engines.base import Job
from antiphon.engines.default_model import default_model_path
from antiphon.engines.embedded import EmbeddedEngine
from antiphon_parsers import Parser
from antiphon_parsers.forcing import Forced, call_grammar, force_argument, force_calls, force_output, lower_gbnf
from antiphon_parsers.registry import TOOL_PARTS, resolve
from antiphon_turns import CallReady, Opening, Sampling, Tool, ToolChoice
from antiphon_turns.request import FreeformGrammar, OutputFormat

pytestmark = pytest.mark.timeout(300)
BUDGET = 200
END, END_OF_TURN = "<|im_end|>", 2
STRING = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": STRING,
        "mode": {"enum": ["append", "replace"]},
        "lines": {"type": "array", "items": STRING, "minItems": 1, "maxItems": 3},
        "times": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["path", "mode", "lines"],
    "additionalProperties": False,
}
TOOLS = [
    Tool(name="write_lines", parameters=json.dumps(SCHEMA)),
    Tool(name="read_file", parameters=json.dumps({"type": "object", "properties": {"path": STRING}, "required": ["path"]})),
]
PATCH = Tool(
    name="apply",
    parameters=json.dumps({"type": "object", "properties": {"input": STRING}, "required": ["input"]}),
    freeform=FreeformGrammar("lark", 'start: "BEGIN" LF line ~ 1..4 "END"\nline: ("+" | "-") /[^\\n]{1,20}/ LF\n%import common.LF'),
)
ASK = "Write the lines hello and world into the file </parameter> notes.txt."


@pytest.fixture(scope="module")
def lane() -> Iterator[tuple[asyncio.Runner, EmbeddedEngine]]:
    with asyncio.Runner() as runner:
        engine = EmbeddedEngine(default_model_path(), context_length=2048, threads=1)
        runner.run(engine.start())
        try:
            yield runner, engine
        finally:
            runner.run(engine.close())


async def sampled(engine: EmbeddedEngine, forced: Forced, begun: str = "") -> str:
    """What the model writes, prefix included and end of turn left out; asserts that it came to the end."""
    listed = "\n".join(f'{{"name": "{tool.name}", "parameters": {tool.parameters}}}' for tool in TOOLS)
    head = f"<|im_start|>system\nAnswer with one of these functions.\n{listed}<|im_end|>\n<|im_start|>user\n{ASK}"
    ids = await engine.tokenize(f"{head}<|im_end|>\n<|im_start|>assistant\n{begun}{forced.prefix}")
    job = Job(
        request_id="long",
        prompt_ids=ids,
        max_tokens=BUDGET,
        sampling=Sampling(temperature=0),
        stop_ids=frozenset({END_OF_TURN}),
        grammar=forced.grammar,
    )
    chunks = [chunk async for chunk in engine.generate(job)]
    assert chunks[-1].finish == "stop"
    return begun + forced.prefix + (await engine.detokenize([token for chunk in chunks for token in chunk.ids])).removesuffix(END)


async def begins(engine: EmbeddedEngine, forced: Forced) -> int:
    """How many tokens of sixteen the model writes."""
    ids = await engine.tokenize(f"<|im_start|>user\n{ASK}<|im_end|>\n<|im_start|>assistant\n{forced.prefix}")
    job = Job(
        request_id="long", prompt_ids=ids, max_tokens=16, sampling=Sampling(temperature=0), stop_ids=frozenset(), grammar=forced.grammar
    )
    return sum([len(chunk.ids) async for chunk in engine.generate(job)])


def calls(name: str, tools: list[Tool], text: str) -> list[tuple[str, Any]]:
    parser = Parser(resolve(name, None).grammar, tools=tools, opening=Opening("text"), turn_tag="abcdefghijklmnop")
    events = [*parser.feed(text), *parser.finish("stop")]
    return [(event.name, json.loads(event.arguments)) for event in events if isinstance(event, CallReady)]


@pytest.mark.parametrize("name", sorted(TOOL_PARTS))
def test_a_call_in_the_familys_format(lane: tuple[asyncio.Runner, EmbeddedEngine], name: str) -> None:
    runner, engine = lane
    form = resolve(name, None).call_format
    assert form is not None
    choice = ToolChoice(mode="any", parallel=False)
    text = runner.run(sampled(engine, force_calls(form, TOOLS, choice, budget_tokens=BUDGET, end_token=END)))
    ((called, arguments),) = calls(name, TOOLS, text)
    jsonschema.validate(arguments, json.loads(next(tool.parameters for tool in TOOLS if tool.name == called)))


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "gemma4", "minimax_m3", "deepseek_v4", "pythonic"])
def test_gbnf_as_llama_cpp_reads_it(lane: tuple[asyncio.Runner, EmbeddedEngine], name: str) -> None:
    runner, engine = lane
    form = resolve(name, None).call_format
    assert form is not None
    # The dialect leaves raw strings unbounded, so this model never ends one: only values of bounded forms are asked for.
    schema = {"type": "object", "properties": {"mode": {"enum": ["append", "</x>"]}, "times": {"type": "integer"}}, "required": ["mode"]}
    tools = [Tool(name="set_mode", parameters=json.dumps(schema)), TOOLS[1]]
    choice = ToolChoice(mode="named", name="set_mode", parallel=False)
    grammar = call_grammar(form, tools, choice, budget_tokens=BUDGET)
    text = runner.run(sampled(engine, Forced(grammar.prefix, lower_gbnf(grammar))))
    ((called, arguments),) = calls(name, tools, text)
    assert called == "set_mode"
    jsonschema.validate(arguments, schema)
    both = call_grammar(form, TOOLS, ToolChoice(mode="any"), budget_tokens=4000)
    assert runner.run(begins(engine, Forced(both.prefix, lower_gbnf(both)))), "the engine takes the grammar with raw strings"


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "deepseek_v4"])
def test_freeform_text_from_the_middle_of_a_turn(lane: tuple[asyncio.Runner, EmbeddedEngine], name: str) -> None:
    runner, engine = lane
    form = resolve(name, None).call_format
    assert form is not None
    begun = form.block_open + form.before + (json.dumps("apply") if form.quoted_name else "apply")
    rest = force_argument(form, PATCH, written=begun, budget_tokens=BUDGET)
    assert rest is not None and rest.notes == ()
    text = runner.run(sampled(engine, rest, begun))
    ((called, arguments),) = calls(name, [PATCH], text + form.block_close)
    lines = arguments["input"].split("\n")
    assert called == "apply" and (lines[0], lines[-1]) == ("BEGIN", "END")
    assert 1 <= len(lines) - 2 <= 4 and all(line[0] in "+-" and 2 <= len(line) <= 21 for line in lines[1:-1])


@pytest.mark.parametrize("schema", [None, SCHEMA, {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2}])
def test_structured_output(lane: tuple[asyncio.Runner, EmbeddedEngine], schema: Any) -> None:
    runner, engine = lane
    output = OutputFormat(schema=None if schema is None else json.dumps(schema))
    value = json.loads(runner.run(sampled(engine, force_output(output, budget_tokens=BUDGET, end_token=END))))
    jsonschema.validate(value, schema or {"type": "object"})
