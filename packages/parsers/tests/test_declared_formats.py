"""Formats that a model declares itself: what is read, what is refused and how that is said, and the properties every family has."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parser_harness import TAG, joined, random_cut, restored, run, segments_of, tools_of

from antiphon_parsers import ModelFormat, Parser, declare, opening_of, resolve
from antiphon_parsers.declared.patterns import growing, read_pattern, regex, sample
from antiphon_turns import CallSegment, Opening, ReasoningSegment, Segment, TextSegment
from antiphon_turns.errors import ConfigError

DECLARATIONS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "cases" / "declarations.json").read_text(encoding="utf-8"))
SCHEMA = {"type": "object", "properties": {"cmd": {"type": "string"}, "n": {"type": "integer"}}}
TOOLS = tools_of([{"name": name, "parameters": SCHEMA} for name in ("run", "run_all")])


def model_of(name: str, template: str = "") -> ModelFormat:
    declaration = dict(DECLARATIONS[name])
    ends = [declaration.pop("eos")] if "eos" in declaration else []
    return resolve("hf", "hf", declared=declare(declaration, template=template, turn_ends=ends))


MODELS = {name: model_of(name) for name in DECLARATIONS}


# What is refused


def changed(name: str, path: str, value: Any) -> dict[str, Any]:
    """A declaration with one value put in, or taken out with None."""
    declaration = copy.deepcopy(DECLARATIONS[name])
    declaration.pop("eos", None)
    node: Any = declaration
    *parents, last = path.split("/")
    for key in parents:
        node = node[key]
    if value is None:
        node.pop(last, None)
    else:
        node[last] = value
    return declaration


CALL = "fields/tool_calls"
REFUSED = [
    ("objects", "prefix", "x", "prefix: the format has no such key"),
    ("objects", "version", 2, "version: 2 is not known"),
    ("objects", "defaults", {"role": "assistant", "mood": "calm"}, "defaults: mood"),
    ("objects", "fields", {}, "fields: there are none"),
    ("objects", "start_anchor", None, "start_anchor: it must be a string"),
    ("objects", "start_anchor_pattern", "x+", "start_anchor_pattern: where a turn begins must be a literal"),
    ("objects", "fields/citations", {"open": "<cite>", "close": "</cite>"}, "citations: a turn holds text, reasoning and calls"),
    ("objects", "fields/reasoning", {"open": "<r>", "close": "</r>"}, "reasoning_content|thinking and reasoning: both are the same"),
    ("objects", "fields/thinking/mood", "x", "thinking: Object contains unknown field `mood`"),
    ("objects", "fields/thinking/open", None, "thinking: only the text may have no opening marker"),
    ("objects", "fields/thinking/open", "<", "thinking: open must be a marker of two characters or more"),
    ("objects", "fields/thinking/open_pattern", "x+", "thinking: both open and open_pattern are given"),
    ("objects", "fields/thinking/close", None, r"thinking\.close: reasoning without an end"),
    ("objects", "fields/thinking/content", "int", "thinking: content 'int' is not text"),
    ("objects", "fields/content/close", None, r"content\.close: neither the text's closing marker nor the tokenizer"),
    ("python", "fields/thinking/open_pattern", r"(?:^|<think>\s*)", r"thinking\.open_pattern: '\^'"),
    ("python", "fields/thinking/open_pattern", r"<think>(?=\n)", "look|not read"),
    ("python", "fields/thinking/open_pattern", r"<(\w+)>", "not plain text"),
    ("python", "fields/thinking/open_pattern", r"(<think>)\1", "not read"),
    ("python", "fields/thinking/open_pattern", "(", "is no regular expression"),
    ("objects", f"{CALL}/transform", None, r"tool_calls\.transform: it does not say which part is the name"),
    ("objects", f"{CALL}/transform", {"function": {"name": "{content.a.b}", "arguments": "{content.c}"}}, "inside a key of the content"),
    ("objects", f"{CALL}/transform", {"function": {"name": "{content.a}", "arguments": "{content}"}}, "must both be keys of the content"),
    ("objects", f"{CALL}/transform", {"function": {"name": "fixed", "arguments": "{content}"}}, "'fixed' is not a placeholder"),
    ("objects", f"{CALL}/transform", {"function": "{content}", "extra": "{content}"}, "more than a name and arguments"),
    ("objects", f"{CALL}/content", "kv-lines", "content 'kv-lines' with this transform"),
    ("objects", f"{CALL}/content_args", {"unquoted_keys": True}, "bare keys and string marks are read in arguments only"),
    ("objects", f"{CALL}/close", ["</a>", "</b>"], r"tool_calls\.close: more than one closing marker"),
    ("regions", f"{CALL}/transform", {"function": {"name": "{f.name}", "arguments": "{f.args}"}}, "only the keys of an element"),
    ("functions", f"{CALL}/open_pattern", r"[^<]*<tool_call>(?P<name>\w+)", "it does not begin with a marker"),
    ("functions", f"{CALL}/open_pattern", r"(?:<tool_call>)?\s*<function=(?P<name>\w+)>", "it does not begin with a marker"),
    ("functions", f"{CALL}/open_pattern", r"<tool_call>\s*<function=(?P<tool>\w+)>", "it has no capture 'name'"),
    ("functions", f"{CALL}/close_pattern", None, "read only up to a closing marker"),
    ("functions", f"{CALL}/close_pattern", r"</function>.*?</tool_call>", r"tool_calls\.close_pattern: .* must be text"),
    ("functions", f"{CALL}/content_args/tag_pattern", None, "tag_pattern: it is missing"),
    ("functions", f"{CALL}/content_args/tag_pattern", r"(?P<key>\w+)=(?P<value>.*?);", "it must be text, the key"),
    (
        "functions",
        f"{CALL}/content_args/tag_pattern",
        r"<p=(?P<key>\w+)>\s*(?P<value>.*?)</p>",
        "on both sides of the value, or on neither",
    ),
    ("functions", f"{CALL}/content_args/value_parser", {"name": "json"}, "typed by the tool's schema"),
    ("functions", f"{CALL}/content_args/merge_duplicates", True, "merge_duplicates: is not read"),
    ("attributes", f"{CALL}/content_args/tag_pattern", r'<arg name="(?P<key>[^"]+)">\s*(?P<value>.*?)\s*</arg>', "values verbatim"),
    ("typed", f"{CALL}/content_args/tag_pattern", r'<a n="(?P<key>\w+)" kind="(?:true|false)">(?P<value>.*?)</a>', "only string="),
    ("noted", f"{CALL}/content_args/string_delims", [["<a>", "<b>"]], "only one mark, the same on either side"),
    ("noted", f"{CALL}/close", None, "up to a closing marker"),
    ("python", f"{CALL}/transform", {"function": {"name": "{f}", "arguments": "{arguments}"}}, "each as name and arguments"),
]


@pytest.mark.parametrize(("name", "path", "value", "message"), REFUSED, ids=[f"{row[1]}-{number}" for number, row in enumerate(REFUSED)])
def test_what_is_not_read_is_refused_by_name(name: str, path: str, value: Any, message: str) -> None:
    ends = [DECLARATIONS[name]["eos"]] if "eos" in DECLARATIONS[name] else []
    with pytest.raises(ConfigError, match=message) as caught:
        declare(changed(name, path, value), turn_ends=ends)
    assert "response_template" in caught.value.message
    assert "--tool-call-parser" in caught.value.message, "the sentence says what to do"


def test_what_changes_nothing_is_accepted() -> None:
    plain = declare(changed("objects", "version", 1))
    for path, value in (("fields/thinking/repeats", True), ("fields/thinking/optional", False), ("defaults/content", "")):
        read = declare(changed("objects", path, value))
        assert read.tools.calls == plain.tools.calls and read.reasoning is not None and plain.reasoning is not None
        assert read.reasoning.markers == plain.reasoning.markers and read.tools.frame == plain.tools.frame


# What is read


def test_parts_of_a_declaration() -> None:
    model = MODELS["keyed"]
    assert model.names == ("hf", "hf")
    assert model.family.frame.assistant_header == "<|model|>" and model.family.frame.result_ends == ("<|results_end|>",)
    assert model.family.frame.end_of_turn == "<|turn_end|>" and model.family.frame.stop_tokens == ("<|turn_end|>", "<eos>")
    assert {"<|do|>", "<|act|>", "<|done|>", "<|muse|>", "<|model|>", "<eos>"} <= set(model.family.markers)
    assert model.family.source == "the model's own response_template; the model's own response_template"
    assert model.call_format is None


def test_every_opening_opens() -> None:
    for opener in ("<|do|>", "<|act|>"):
        events, _ = run(MODELS["keyed"].grammar, TOOLS, [f'{opener}{{"tool": "run", "args": {{}}, "ref": "7"}}<|done|>'])
        assert [segment["name"] for segment in segments_of(events)] == ["run"]
    for opener in ("<|muse|>", "<|ponder|>"):
        events, _ = run(MODELS["keyed"].grammar, TOOLS, [f"{opener}R<|/muse|>A"])
        assert [segment["text"] for segment in segments_of(events)] == ["R", "A"]


def test_halves_go_with_halves_of_families() -> None:
    declared = declare(DECLARATIONS["objects"])
    assert resolve("response_template", None, declared=declared).names == ("hf", None)
    assert resolve("qwen3_coder", "HF", declared=declared).names == ("qwen3_coder", "hf")
    assert resolve("qwen3_coder", "qwen3", declared=declared) == resolve("qwen3_coder", "qwen3")


def test_a_prompt_that_repeats_the_anchor_says_where_the_turn_begins() -> None:
    model = MODELS["objects"]
    tail = "<|im_start|>assistant\n<think>\nold</think>x<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n"
    opening = opening_of(tail, model.family.frame)
    events, _ = run(model.grammar, TOOLS, ["new\n</think>\n\nanswer"], opening=opening)
    assert [(segment["type"], segment["text"]) for segment in segments_of(events)] == [("reasoning", "new"), ("text", "answer")]


TIGHT = "{{ '<|im_start|>assistant\\n' }}<think>{{ r }}</think>{{ c }}<tool_call>{{ call }}</tool_call>{% if enable_thinking %}"
LOOSE = "{{ '<think>\\n' + r + '\\n</think>\\n\\n' }}{{ '\\n<tool_call>\\n' + call + '\\n</tool_call>' }}{{ preserve_thinking }}"
TURN = (ReasoningSegment("R"), TextSegment("A"), CallSegment("run", "{}"))


def test_the_chat_template_says_how_markers_are_set() -> None:
    assert model_of("objects", TIGHT).writer.write(TURN) == '<think>R</think>A<tool_call>{"name": "run", "arguments": {}}</tool_call>'
    loose = '<think>\nR\n</think>\n\nA\n<tool_call>\n{"name": "run", "arguments": {}}\n</tool_call>'
    assert model_of("objects", LOOSE).writer.write(TURN) == loose == MODELS["objects"].writer.write(TURN)


def test_the_chat_template_says_what_it_can_switch() -> None:
    tight, loose = model_of("objects", TIGHT).family, model_of("objects", LOOSE).family
    assert tight.switches.thinking_off == {"enable_thinking": False} and tight.replay.keep == "after_last_user"
    assert loose.switches.thinking_off == {} and loose.switches.agent == {"preserve_thinking": True} and loose.replay.keep == "all"


def test_a_closing_tag_that_was_only_concluded_is_written_where_the_template_writes_it() -> None:
    declaration = changed("functions", f"{CALL}/close_pattern", None)
    declaration["fields"]["tool_calls"]["close"] = "</tool_call>"
    call = (CallSegment("run", '{"cmd": "x"}'),)
    inner = "<tool_call>\n<function=run>\n<parameter=cmd>\nx\n</parameter>\n"
    for template, written in (("<tool_call>\\n<function=", inner), ("<tool_call>\\n<function=</function>", inner + "</function>\n")):
        model = resolve("hf", None, declared=declare(declaration, template=template))
        assert model.writer.write(call) == f"{written}</tool_call>"
        for text in (f"{inner}</function>\n</tool_call>", f"{inner}</tool_call>"):
            events, _ = run(model.grammar, TOOLS, list(text))
            assert [segment.get("arguments") for segment in segments_of(events)] == [{"cmd": "x"}]


PATTERNS = [
    (r"<tool_call>\s*<function=(?P<name>\w+)>", "<tool_call><function=f>"),
    (r"\[CALL\](?P<name>[\w.-]+).*?\[ARGS\]", "[CALL]f[ARGS]"),
    (r"(?:<a>|<b\|>)\n?x", "<a>x"),
    (r"call\s+(?P<name>[^\]\n]+)\.", "call\nf."),
]


@pytest.mark.parametrize(("pattern", "written"), PATTERNS)
def test_patterns_as_pieces(pattern: str, written: str) -> None:
    pieces = read_pattern("here", pattern)
    assert sample(pieces, "f") == written
    assert re.fullmatch(pattern, written, re.DOTALL) and re.fullmatch(regex(pieces), written)
    assert all(re.fullmatch(growing(pieces), written[:size]) for size in range(len(written) + 1))
    assert not re.fullmatch(growing(pieces), "never " + written)


# Properties


def pieces_of(model: ModelFormat) -> list[str]:
    """What the output is made of: markers, a call in fragments, and bits of JSON and prose."""
    block = model.writer.write([CallSegment("run", '{"cmd": "x", "n": 12}'), CallSegment("run_all", "{}")])
    markers = [marker for marker in model.family.markers if marker.strip()]
    fragments = [block[start : start + size] for start in range(0, len(block), 9) for size in (7, 23)]
    return [
        *(*markers, *markers, *fragments, block, block.replace("run", "other")),
        *("{", "}", "[", "]", ",", ":", '"', "'", "\\", "\n", "\n\n", " ", "a", "text ", "é", "<", "<|", "</", "run", '"cmd": "'),
        *(marker[: len(marker) // 2] for marker in markers),
    ]


FINISHES = st.sampled_from(["stop", "length", "cancelled", "error"])


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=80, deadline=None)
@given(data=st.data(), finish=FINISHES, seed=st.integers(0, 10**6))
def test_any_cut_gives_the_same_turn(name: str, data: st.DataObject, finish: Any, seed: int) -> None:
    model = MODELS[name]
    soups = st.lists(st.sampled_from(pieces_of(model)), max_size=16).map("".join)
    soup, opening = data.draw(soups), Opening(data.draw(st.sampled_from(["text", "reasoning"])))
    if data.draw(st.booleans()):
        opening = Opening("rendered", data.draw(soups))
    at = data.draw(st.integers(0, len(soup)))
    whole, reader = run(model.grammar, TOOLS, [soup], opening=opening, finish=finish)
    for pieces in (list(soup), random_cut(soup, seed), [soup[:at], soup[at:]]):
        events, other = run(model.grammar, TOOLS, pieces, opening=opening, finish=finish)
        assert joined(events) == joined(whole)
        assert other.incomplete == reader.incomplete


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), finish=FINISHES, seed=st.integers(0, 10**6))
def test_a_snapshot_changes_nothing_of_what_follows(name: str, data: st.DataObject, finish: Any, seed: int) -> None:
    grammar = MODELS[name].grammar
    soup = "".join(data.draw(st.lists(st.sampled_from(pieces_of(MODELS[name])), max_size=12)))
    opening = Opening(data.draw(st.sampled_from(["text", "reasoning"])))
    kept, copied = (Parser(grammar, tools=TOOLS, opening=opening, turn_tag=TAG) for _ in range(2))
    for number, piece in enumerate(random_cut(soup, seed)):
        copied = restored(copied, grammar, TOOLS, binary=number % 2 > 0)
        assert copied.feed(piece) == kept.feed(piece)
    copied = restored(copied, grammar, TOOLS, binary=True)
    assert copied.finish(finish) == kept.finish(finish)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=200))
def test_plain_text_is_kept(name: str, text: str) -> None:
    events, _ = run(MODELS[name].grammar, TOOLS, list(text))
    assert "".join(segment["text"] for segment in segments_of(events)) == ("" if not text.strip() else text)


MARKERS = tuple({marker for model in MODELS.values() for marker in model.family.markers})
PLAIN = st.text("abc <>/\n\"'é", min_size=1, max_size=30).filter(str.strip).filter(lambda text: not any(mark in text for mark in MARKERS))
STRINGS = st.dictionaries(st.text("abcdef_", min_size=1, max_size=6), PLAIN | st.just(""), max_size=4)


@st.composite
def turns(draw: st.DrawFn, *, reasoning: bool, calls: bool) -> tuple[Segment, ...]:
    kinds = draw(st.lists(st.sampled_from(["text", *(["call"] if calls else []), *(["reasoning"] if reasoning else [])]), max_size=6))
    segments: list[Segment] = []
    for kind in kinds:
        if kind == "call":
            segments.append(CallSegment(draw(st.sampled_from(["run", "run_all", "other_tool"])), json.dumps(draw(STRINGS))))
        elif kind == "reasoning":
            segments.append(ReasoningSegment(draw(PLAIN)))
        elif not (segments and isinstance(segments[-1], TextSegment)):
            segments.append(TextSegment(draw(PLAIN)))
    return tuple(segments)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_declared_format_reads_what_it_writes(name: str, data: st.DataObject) -> None:
    model = MODELS[name]
    segments = data.draw(turns(reasoning=model.grammar.reasoning is not None, calls=model.names[0] is not None))
    text = model.writer.write(segments)
    events, _ = run(model.grammar, TOOLS, [text])
    again, _ = run(model.grammar, TOOLS, list(text))
    assert joined(events) == joined(again)
    read = [(seg["type"], seg["name"], seg.get("arguments", seg["text"]), seg["status"]) for seg in segments_of(events)]
    assert read == [
        ("tool_call", segment.name, json.loads(segment.arguments), "complete")
        if isinstance(segment, CallSegment)
        else ("text" if isinstance(segment, TextSegment) else "reasoning", None, segment.text, "complete")
        for segment in segments
    ]
