"""The embedded engine with the real default model: short prompts, one thread, one engine for the whole module."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from packages.antiphon.tests.embedded_bench import END_OF_TURN, ENDLESS, HELLO, Bench, collect, idle, job, output

from antiphon.engines.base import Chunk
from antiphon.engines.default_model import default_model_path
from antiphon.engines.embedded import EmbeddedEngine, EmbeddedOptions
from antiphon_parsers.families import hermes
from antiphon_parsers.forcing import force_calls
from antiphon_turns import Sampling, Tool, ToolChoice
from antiphon_turns.errors import ConfigError, WorkerError, WorkerProtocolError, WorkerUnavailable

OPTIONS = EmbeddedOptions(slots=2, slice_tokens=64, kv_events=True)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with asyncio.Runner() as runner:
        engine = EmbeddedEngine(default_model_path(), context_length=2048, threads=1, options=OPTIONS)
        runner.run(engine.start())
        try:
            yield Bench(runner, engine)
        finally:
            runner.run(engine.close())


def test_ids_stream_and_the_limit_is_length(bench: Bench) -> None:
    chunks = bench.generate(job(bench.ids(HELLO), 12))
    assert len(output(chunks)) == 12
    assert len([chunk for chunk in chunks if chunk.ids]) > 3
    assert [chunk.finish for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].finish == "length"


def test_the_end_of_turn_id_is_the_last_one(bench: Bench) -> None:
    chunks = bench.generate(job(bench.ids(HELLO), 300))
    assert output(chunks)[-1] == END_OF_TURN
    assert output(chunks).count(END_OF_TURN) == 1
    assert chunks[-1].finish == "stop"


def test_the_models_own_end_counts_when_nobody_asks_for_it(bench: Bench) -> None:
    chunks = bench.generate(job(bench.ids(HELLO), 300, stop_ids=frozenset()))
    assert output(chunks)[-1] == END_OF_TURN
    assert chunks[-1].finish == "stop"


def test_any_id_can_stop(bench: Bench) -> None:
    whole = output(bench.generate(job(bench.ids(HELLO), 12)))
    chunks = bench.generate(job(bench.ids(HELLO), 12, stop_ids=frozenset({whole[4]})))
    assert output(chunks) == whole[: whole.index(whole[4]) + 1]
    assert chunks[-1].finish == "stop"


def test_temperature_0_is_deterministic_and_a_seed_is_too(bench: Bench) -> None:
    ids = bench.ids(HELLO)
    greedy = [output(bench.generate(job(ids, 16))) for _ in range(2)]
    assert greedy[0] == greedy[1]
    hot = Sampling(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, seed=7)
    seeded = [output(bench.generate(job(ids, 16, sampling=hot))) for _ in range(2)]
    assert seeded[0] == seeded[1]
    assert seeded[0] != greedy[0]


def test_cached_tokens_are_told_once_and_first(bench: Bench) -> None:
    ids = bench.ids(HELLO + "Well, " * 20)
    bench.generate(job(ids, 1))
    chunks = bench.generate(job(ids, 4))
    told = [chunk.cached_tokens for chunk in chunks if chunk.cached_tokens is not None]
    assert told == [len(ids) - 1]
    assert chunks[0].cached_tokens == len(ids) - 1


def test_every_id_of_a_character_in_pieces_arrives(bench: Bench) -> None:
    text = "a\N{GRINNING FACE}日本b"
    grammar = f'%llguidance {{}}\nstart: "{text}" <[{END_OF_TURN}]>'
    ids = output(bench.generate(job(bench.ids(HELLO), 30, grammar=grammar)))
    assert ids == [*bench.ids(text), END_OF_TURN]


def test_cancelling_while_decoding_frees_the_slot(bench: Bench) -> None:
    async def cancel() -> None:
        chunks = bench.engine.generate(job(ids, 1500, grammar=ENDLESS))
        async for chunk in chunks:
            if chunk.ids:
                break
        assert await bench.engine.busy()
        await chunks.aclose()
        await idle(bench.engine, within=1.0)

    ids = bench.ids(HELLO)
    bench.run(cancel())


def test_cancelling_the_task_frees_the_slot_too(bench: Bench) -> None:
    async def cancel() -> None:
        begun = asyncio.Event()

        async def consume() -> None:
            async with contextlib.aclosing(bench.engine.generate(job(ids, 1500, grammar=ENDLESS))) as chunks:
                async for chunk in chunks:
                    if chunk.ids:
                        begun.set()

        task = asyncio.create_task(consume())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await idle(bench.engine, within=1.0)

    ids = bench.ids(HELLO)
    bench.run(cancel())


def test_cancelling_in_prefill_leaves_the_prompt_unfinished(bench: Bench) -> None:
    async def cancel() -> list[Chunk]:
        chunks = bench.engine.generate(job(ids, 1))
        assert (await anext(chunks)).cached_tokens is not None
        await chunks.aclose()
        await idle(bench.engine, within=2.0)
        return await collect(bench.engine, job(ids, 1))

    ids = bench.ids("Unlike any other prompt:" + "".join(f" {k} {k * k}" for k in range(40)))[:290]
    again = bench.run(cancel())
    assert again[0].cached_tokens is not None and again[0].cached_tokens < len(ids) - 64


def test_jobs_wait_for_their_turn(bench: Bench) -> None:
    async def both() -> list[list[Chunk]]:
        return await asyncio.gather(*(collect(bench.engine, job(ids, 8)) for _ in range(3)))

    ids = bench.ids(HELLO)
    assert len({tuple(output(chunks)) for chunks in bench.run(both())}) == 1


@pytest.mark.parametrize(
    "grammar",
    ["%llguidance {}\nstart: nothing", "%llguidance {}\nstart: (((", 'root ::= "a" (('],
    ids=["undefined rule", "syntax", "other dialect"],
)
def test_a_bad_grammar_is_an_error_and_the_engine_goes_on(bench: Bench, grammar: str) -> None:
    ids = bench.ids(HELLO)
    with pytest.raises(WorkerProtocolError, match="grammar"):
        bench.generate(job(ids, 8, grammar=grammar))
    assert len(output(bench.generate(job(ids, 4)))) == 4


def test_a_prompt_beyond_the_context_is_an_error(bench: Bench) -> None:
    with pytest.raises(WorkerError, match="context"):
        bench.generate(job([5] * 3000, 8))


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
TREE = schema("v", v=INTEGER, of={"$ref": "#/$defs/T"})
FORCED: list[tuple[str, dict[str, Any], str | None]] = [
    ("enum", {"paint": schema("colour", colour={"enum": ["red", "blue"]})}, None),
    ("no arguments", {"now": schema()}, None),
    (
        "nested object and array",
        {
            "ship": schema(
                "to", "tags", to=schema("street", street=STRING, n=INTEGER), tags={"type": "array", "items": STRING, "minItems": 1}
            )
        },
        None,
    ),
    ("prefix names", {name: schema(path=STRING) for name in ("read", "read_file", "read_file_lines")}, None),
    ("named", {name: schema("x", x={"type": "number"}) for name in ("one", "two")}, "two"),
    ("recursive reference", {"grow": schema("tree", tree={"$ref": "#/$defs/T"}) | {"$defs": {"T": TREE}}}, None),
]


@pytest.mark.parametrize("case", FORCED, ids=[case[0] for case in FORCED])
def test_a_forced_call_is_valid_whole_and_ends_the_turn(bench: Bench, case: tuple[str, dict[str, Any], str | None]) -> None:
    _, schemas, name = case
    tools = [Tool(name=key, parameters=json.dumps(schema)) for key, schema in schemas.items()]
    choice = ToolChoice(mode="named", name=name, parallel=False) if name else ToolChoice(mode="any", parallel=False)
    forced = force_calls(hermes.CALL_FORMAT, tools, choice, budget_tokens=160, end_token="<|im_end|>")
    prompt = f"<|im_start|>system\nCall one of: {', '.join(schemas)}.<|im_end|>\n{HELLO}{forced.prefix}"
    room = 160 - len(bench.ids(forced.prefix))
    chunks = bench.generate(job(bench.ids(prompt), room, grammar=forced.grammar))
    assert chunks[-1].finish == "stop"
    text = forced.prefix + bench.run(bench.engine.detokenize(output(chunks)))
    call = json.loads(text.removeprefix("<tool_call>\n").removesuffix("\n</tool_call><|im_end|>"))
    assert call["name"] == name or name is None
    jsonschema.validate(call["arguments"], schemas[call["name"]])


def test_a_closed_engine_takes_no_job() -> None:
    async def use_after_close() -> None:
        engine = EmbeddedEngine(default_model_path(), context_length=256, threads=1)
        assert not engine.ready()
        await engine.start()
        assert engine.ready()
        chunks = engine.generate(job(await engine.tokenize(HELLO), 200, grammar=ENDLESS))
        await anext(chunks)
        await engine.close()
        await engine.close()
        assert not engine.ready()
        with pytest.raises(WorkerError):
            async for _ in chunks:
                pass
        with pytest.raises(WorkerUnavailable):
            await collect(engine, job([1], 1))

    asyncio.run(use_after_close())


def test_what_cannot_be_served_says_so(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    for path, hint in ((tmp_path / "missing.gguf", "no model file"), (broken, "could not load")):
        with pytest.raises(ConfigError, match=hint):
            asyncio.run(EmbeddedEngine(path, context_length=256).start())
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigError, match="--engine mock"):
        asyncio.run(EmbeddedEngine(default_model_path(), context_length=256).start())
