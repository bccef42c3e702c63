"""Properties over adversarial text: split invariance, no exception, round trip."""

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from parser_formats import OWN_PIECES, PIECES, TOOLS
from parser_harness import joined, random_cut, run, segments_of, tools_of

from antiphon_parsers import ModelFormat, resolve
from antiphon_parsers.registry import REASONING_PARTS, TOOL_PARTS
from antiphon_turns import CallSegment, Opening, ReasoningSegment, Segment, TextSegment

# Families beside the first two: tool and reasoning parser.
FAMILIES = {
    "glm47": ("glm47", "glm47"),
    "glm45": ("glm45", "glm45"),
    "minimax_m2": ("minimax_m2", "minimax_m2"),
    "deepseek_v4": ("deepseek_v4", "deepseek_v4"),
    "deepseek_v3_2": ("deepseek_v3_2", "deepseek_v3_2"),
    "deepseek_v41": ("deepseek_v41", "deepseek_v41"),
    "seed_oss": ("seed_oss", "seed_oss"),
    "mimo": ("mimo", "mimo"),
    "nemotron_v3": ("nemotron_v3", "nemotron_v3"),
    "step3p5": ("step3p5", "step3p5"),
    "hy_v3": ("hy_v3", "hy_v3"),
}
FORMATS = [
    resolve("hermes", None),
    resolve("hermes", "qwen3"),
    resolve("qwen3_coder", None),
    resolve("qwen3_coder", "qwen3"),
    *map(resolve, *zip(*FAMILIES.values(), strict=True)),
    resolve(None, "qwen3"),
    resolve(None, None),
    resolve("harmony", "gpt_oss"),
    resolve("gemma4", "gemma4"),
    resolve("kimi_k3", "kimi_k3"),
    resolve("minimax_m3", "minimax_m3"),
    resolve("pythonic", None),
    resolve("llama4_pythonic", None),
    resolve("olmo3", "qwen3"),
    resolve("lfm2", "qwen3"),
]
IDS = ["+".join(str(name) for name in model.names) for model in FORMATS]

# Families whose arguments are JSON.
JSON_FAMILIES = {
    "kimi_k2": "kimi_k2",
    "mistral": "mistral",
    "mistral_pre11": None,
    "deepseek_v3": "deepseek_r1",
    "deepseek_v3_1": "deepseek_v3_1",
    "nemotron_deci": "nemotron_deci",
    "granite4": None,
    "phi4": None,
    "llama3_json": None,
}
JSON_FORMATS = [resolve("hermes", "qwen3"), *(resolve(*names) for names in JSON_FAMILIES.items())]
ALL = [*FORMATS, *JSON_FORMATS[1:], *(resolve(None, name) for name in REASONING_PARTS)]


def test_every_family_is_listed() -> None:
    assert {model.names[0] for model in ALL} == {*TOOL_PARTS, None}


def soups(model: ModelFormat) -> st.SearchStrategy[str]:
    """Text made of what means something to the format, and of what may not."""
    own = OWN_PIECES.get(model.family.name, [])
    return st.lists(st.sampled_from([*PIECES, *own, *own]), max_size=22).map("".join)


def openings(model: ModelFormat) -> st.SearchStrategy[Opening]:
    fixed = st.sampled_from([Opening("text"), Opening("reasoning"), Opening("undecided")])
    return st.one_of(fixed, soups(model).map(lambda text: Opening("rendered", text)))


def mixed(model: ModelFormat) -> st.SearchStrategy[tuple[ModelFormat, str, Opening]]:
    return st.tuples(st.just(model), soups(model), openings(model))


MIXED = st.sampled_from(FORMATS).flatmap(mixed)
FINISHES = st.sampled_from(["stop", "length", "cancelled", "error"])


@settings(max_examples=250, deadline=None)
@given(MIXED, FINISHES, st.integers(0, 10**6), st.data())
def test_any_cut_gives_the_same_turn(mix: tuple[ModelFormat, str, Opening], finish: Any, seed: int, data: st.DataObject) -> None:
    model, soup, opening = mix
    at = data.draw(st.integers(0, len(soup)))
    whole, reader = run(model.grammar, TOOLS, [soup], opening=opening, finish=finish)
    for pieces in (list(soup), random_cut(soup, seed), [soup[:at], soup[at:]]):
        events, other = run(model.grammar, TOOLS, pieces, opening=opening, finish=finish)
        assert joined(events) == joined(whole)
        assert other.incomplete == reader.incomplete


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=200), openings(FORMATS[0]))
def test_nothing_raises_and_plain_text_is_kept(text: str, opening: Opening) -> None:
    for model in FORMATS:
        run(model.grammar, TOOLS, [text], opening=opening)
    events, _ = run(resolve(None, None).grammar, TOOLS, [text])
    assert "".join(segment["text"] for segment in segments_of(events)) == ("" if not text.strip() else text)


@pytest.mark.parametrize("model", FORMATS, ids=IDS)
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "run", "arguments": {"cmd": ' + "[" * 15_000,
        '<tool_call>\n{"name": ' + "[" * 15_000,
        "<tool_call>\n<function=run_all>\n<parameter=any>\n" + '{"a":' * 12_000 + "\n</parameter>\n</function>\n</tool_call>",
        '<tool_call>\n{"name": "run", "arguments": "' + "{\\" * 15_000,
        "<think>" * 2_000 + "</think>" * 2_000,
        "<tool_call>" * 2_000,
        "<tool_call>run<arg_key>cmd</arg_key><arg_value>" + "</arg_value>x" * 2_000,
        '<minimax:tool_call><invoke name="run_all"><parameter name="any">' + "[" * 12_000 + "</parameter></invoke>",
        '<｜DSML｜tool_calls><｜DSML｜invoke name="run">' + '{"cmd":' * 2_000,
        '<tool_call>{"name":' * 2_000,
    ],
)
def test_deep_and_long_nonsense_is_contained(model: ModelFormat, text: str) -> None:
    run(model.grammar, TOOLS, [text])
    run(model.grammar, TOOLS, [text[at : at + 1000] for at in range(0, len(text), 1000)])


MARKERS = tuple(sorted({marker for model in ALL for marker in model.family.markers}))


def has_no_marker(text: str) -> bool:
    return not any(marker in text for marker in MARKERS)


CHARACTERS = st.characters(exclude_categories=["Cs"])
PLAIN = st.text(CHARACTERS | st.sampled_from("\n\n <>/"), min_size=1, max_size=40).filter(str.strip).filter(has_no_marker)
WORDS = st.text("abcdefghij_<>{}\"'\\ \n\té", max_size=12).filter(has_no_marker)
KEYS = st.text("abcdefghij_", min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def turns(draw: st.DrawFn, arguments: st.SearchStrategy[dict[str, Any]], *, reasoning: bool) -> tuple[Segment, ...]:
    kinds = draw(st.lists(st.sampled_from(["text", "call", "reasoning"] if reasoning else ["text", "call"]), max_size=6))
    segments: list[Segment] = []
    for kind in kinds:
        if kind == "call":
            dumped = json.dumps(draw(arguments), ensure_ascii=draw(st.booleans()))
            segments.append(CallSegment(draw(st.sampled_from(["run", "run_all", "other.tool-1"])), dumped))
        elif kind == "reasoning":
            segments.append(ReasoningSegment(draw(PLAIN)))
        elif not (segments and isinstance(segments[-1], TextSegment)):
            segments.append(TextSegment(draw(PLAIN)))
    return tuple(segments)


def read_back(model: ModelFormat, segments: tuple[Segment, ...], tools: Any, *, earlier: int = 0) -> list[tuple[Any, ...]]:
    text = model.writer.write(segments, earlier_calls=earlier)
    events, _ = run(model.grammar, tools, [text])
    again, _ = run(model.grammar, tools, list(text))
    assert joined(events) == joined(again)
    return [(seg["type"], seg["name"], seg.get("arguments", seg["text"]), seg["status"]) for seg in segments_of(events)]


def wanted(segments: tuple[Segment, ...]) -> list[tuple[Any, ...]]:
    out: list[tuple[Any, ...]] = []
    for segment in segments:
        if isinstance(segment, CallSegment):
            out.append(("tool_call", segment.name, json.loads(segment.arguments), "complete"))
        else:
            out.append(("text" if isinstance(segment, TextSegment) else "reasoning", None, segment.text, "complete"))
    return out


# Families that carry any argument object, whatever the declared schema.
SELF_TYPED = [("hermes", "qwen3"), ("harmony", "gpt_oss"), ("gemma4", "gemma4"), ("kimi_k3", "kimi_k3")]


@pytest.mark.parametrize("names", SELF_TYPED, ids=lambda names: "+".join(names))
@settings(max_examples=20, deadline=None)
@given(segments=turns(st.dictionaries(WORDS, JSON, max_size=4), reasoning=True))
def test_a_family_reads_what_it_writes(names: tuple[str, str], segments: tuple[Segment, ...]) -> None:
    assert read_back(resolve(*names), segments, TOOLS) == wanted(segments)


@pytest.mark.parametrize("model", JSON_FORMATS, ids=lambda model: model.names[0])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_json_families_read_what_they_write(model: ModelFormat, data: st.DataObject) -> None:
    reasoning = model.grammar.reasoning is not None
    segments = data.draw(turns(st.dictionaries(WORDS, JSON, max_size=4), reasoning=reasoning))
    # Where a call needs no opener, text that begins like one cannot be told from a call that was cut.
    texts = [segment.text.lstrip() for segment in segments if isinstance(segment, TextSegment)]
    assume(not getattr(model.grammar.calls, "bare", False) or not any(text.startswith(("{", ";")) for text in texts))
    earlier = data.draw(st.integers(0, 12))
    assert read_back(model, segments, TOOLS, earlier=earlier) == wanted(segments)


STRINGS_ONLY = st.dictionaries(KEYS, st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(has_no_marker), max_size=4)
TYPED = st.fixed_dictionaries(
    {},
    optional={
        "s": WORDS,
        "i": st.integers(-(10**30), 10**30),
        "f": st.floats(allow_nan=False, allow_infinity=False),
        "b": st.booleans(),
        "z": st.none(),
        "l": st.lists(JSON, max_size=3),
        "o": st.dictionaries(WORDS, JSON, max_size=3),
    },
)
TYPED_SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "f": {"type": "number"},
        "b": {"type": "boolean"},
        "z": {"type": ["integer", "null"]},
        "l": {"type": "array"},
        "o": {"type": "object"},
    },
}
TYPED_TOOLS = tools_of([{"name": name, "parameters": TYPED_SCHEMA} for name in ("run", "run_all", "other.tool-1")])


TAGGED = {"qwen3_coder": ("qwen3_coder", "qwen3"), **FAMILIES}


@pytest.mark.parametrize("name", TAGGED)
@settings(max_examples=20, deadline=None)
@given(segments=turns(STRINGS_ONLY, reasoning=True))
def test_untyped_families_read_the_strings_they_write(name: str, segments: tuple[Segment, ...]) -> None:
    assert read_back(resolve(*TAGGED[name]), segments, ()) == wanted(segments)


@pytest.mark.parametrize("name", TAGGED)
@settings(max_examples=20, deadline=None)
@given(segments=turns(TYPED, reasoning=False))
def test_untyped_families_read_the_types_they_write(name: str, segments: tuple[Segment, ...]) -> None:
    assert read_back(resolve(TAGGED[name][0], None), segments, TYPED_TOOLS) == wanted(segments)


@pytest.mark.parametrize("name", ["deepseek_v4", "deepseek_v3_2", "deepseek_v41"])
@settings(max_examples=20, deadline=None)
@given(segments=turns(st.dictionaries(KEYS, JSON, max_size=4), reasoning=True))
def test_typed_families_need_no_schema(name: str, segments: tuple[Segment, ...]) -> None:
    assert read_back(resolve(*TAGGED[name]), segments, ()) == wanted(segments)


@pytest.mark.parametrize("names", [("pythonic", None), ("llama4_pythonic", None), ("olmo3", "qwen3"), ("lfm2", "qwen3")])
@settings(max_examples=20, deadline=None)
@given(segments=turns(st.dictionaries(KEYS, JSON, max_size=4), reasoning=False))
def test_python_calls_are_read_as_they_are_written(names: tuple[str, str | None], segments: tuple[Segment, ...]) -> None:
    assert read_back(resolve(*names), segments, TYPED_TOOLS) == wanted(segments)


NESTED_TYPES = st.fixed_dictionaries(
    {},
    optional={
        "s": WORDS,
        "i": st.integers(-(10**30), 10**30),
        "b": st.booleans(),
        "l": st.lists(WORDS.filter(str.strip), max_size=3),
        "o": st.fixed_dictionaries({}, optional={"n": st.integers(), "l": st.lists(st.booleans(), max_size=3), "s": WORDS}),
    },
)
NESTED_SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "i": {"type": "integer"},
        "b": {"type": "boolean"},
        "l": {"type": "array", "items": {"type": "string"}},
        "o": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "boolean"}}, "s": {"type": "string"}},
        },
    },
}
NESTED_TOOLS = tools_of([{"name": name, "parameters": NESTED_SCHEMA} for name in ("run", "run_all", "other.tool-1")])


@settings(max_examples=20, deadline=None)
@given(turns(NESTED_TYPES, reasoning=True))
def test_minimax_m3_reads_the_types_it_writes(segments: tuple[Segment, ...]) -> None:
    assert read_back(resolve("minimax_m3", "minimax_m3"), segments, NESTED_TOOLS) == wanted(segments)


CANONICAL = [
    "<think>\nR\n</think>\n\nText.",
    '<think>\nR\n</think>\n\n<tool_call>\n{"name": "run", "arguments": {"cmd":"a",  "n": 1.10}}\n</tool_call>',
    'A\n<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "x", "arguments": {}}\n</tool_call>\nB\n',
    '<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>\n<think>\n\nR\n\n</think>\n\n\n\nT',
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text_is_written_back(text: str) -> None:
    model = resolve("hermes", "qwen3")
    events, _ = run(model.grammar, TOOLS, list(text))
    segments: list[Segment] = []
    for segment in segments_of(events):
        if segment["type"] == "tool_call":
            segments.append(CallSegment(segment["name"], segment["text"]))
        else:
            segments.append(TextSegment(segment["text"]) if segment["type"] == "text" else ReasoningSegment(segment["text"]))
    assert model.writer.write(segments) == text
