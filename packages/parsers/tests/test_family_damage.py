"""What holds for the calls of every family that writes arguments as JSON, whole and damaged (grammars facts, 2.0 and 5)."""

import json

import pytest
from parser_harness import codes, cuts, joined, run, segments_of, tools_of

from antiphon_parsers import ModelFormat, resolve
from antiphon_turns import CallSegment, Event, FinishReason, Opening, TextSegment

TOOLS = tools_of(
    [{"name": name, "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}} for name in ("run_shell", "list_jobs")]
)
NAMES = {
    "hermes": "qwen3",
    "kimi_k2": "kimi_k2",
    "mistral": "mistral",
    "mistral_pre11": "mistral",
    "deepseek_v3": "deepseek_r1",
    "deepseek_v3_1": "deepseek_v3_1",
    "nemotron_deci": "nemotron_deci",
    "granite4": None,
    "phi4": None,
    "llama3_json": None,
}
MODELS = [resolve(*names) for names in NAMES.items()]
FAMILIES = pytest.mark.parametrize("model", MODELS, ids=NAMES)
ARGUMENTS = '{"command": "git status"}'
CALL = CallSegment("run_shell", ARGUMENTS)


def read(model: ModelFormat, text: str, *, finish: FinishReason = "stop", opening: str = "text") -> tuple[list[Event], bool]:
    """The events, the same for every cut, and whether the turn ended inside something."""
    first: list[Event] = []
    for pieces in cuts(text, every_split=False, seeds=3):
        events, parser = run(model.grammar, TOOLS, pieces, opening=Opening(opening), finish=finish)
        first = first or joined(events)
        assert joined(events) == first, pieces
    return first, parser.incomplete


def seen(events: list[Event]) -> list[tuple[str, object]]:
    return [(seg["name"] or seg["type"], seg.get("arguments", seg["text"])) for seg in segments_of(events)]


def markers(model: ModelFormat) -> list[str]:
    calls = model.grammar.calls
    return [marker for marker in (*calls.openers, *calls.closers) if marker != "{"] if calls else []


@FAMILIES
def test_a_call_cut_anywhere_is_no_call_and_shows_nothing_of_itself(model: ModelFormat) -> None:
    block = model.writer.write([TextSegment("Look."), CALL])
    whole = block.index(ARGUMENTS) + len(ARGUMENTS)
    whole += block.startswith("}", whole)  # the end of the object that holds name and arguments
    start = block.index("Look.") + len("Look.")
    for end in range(start, len(block) + 1):
        events, incomplete = read(model, block[:end], finish="length")
        got = segments_of(events)
        assert got[0]["type"] == "text"
        called = [segment for segment in got if "arguments" in segment]
        if end < whole:
            assert not called
        if end >= block.index(ARGUMENTS) + 1:
            assert got[0]["text"].strip() == "Look." and got[1]["name"] == "run_shell"
            assert incomplete == (end < whole) == (got[1]["status"] == "truncated")
        if end == len(block):
            assert called[0]["arguments"] == {"command": "git status"}


@FAMILIES
def test_markers_inside_a_string_are_data(model: ModelFormat) -> None:
    value = "x ".join(markers(model)) + '"}]}'
    call = CallSegment("run_shell", json.dumps({"command": value}))
    events, _ = read(model, model.writer.write([call, CallSegment("list_jobs", "{}")]))
    assert seen(events) == [("run_shell", {"command": value}), ("list_jobs", {})] and codes(events) == []


@FAMILIES
def test_a_marker_that_a_sentence_names_stays_text(model: ModelFormat) -> None:
    calls = model.grammar.calls
    for marker in calls.openers if calls else ():
        for text in (f"The word {marker} begins a call.", f"It is `{marker}`, then JSON like {{}}.", f"It ends with {marker}"):
            events, incomplete = read(model, text)
            assert seen(events) == [("text", text)] and codes(events) == [] and not incomplete


@FAMILIES
def test_closers_without_a_block_are_dropped(model: ModelFormat) -> None:
    calls = model.grammar.calls
    for marker in calls.closers if calls else ():
        events, _ = read(model, f"One.{marker} Two.")
        assert seen(events) == [("text", "One. Two.")] and codes(events) == ["stray_marker"]


@FAMILIES
def test_text_round_calls_is_kept_in_order(model: ModelFormat) -> None:
    segments = [TextSegment("One."), CALL, CALL, TextSegment("Two."), CallSegment("list_jobs", "{}"), TextSegment("Three.")]
    events, _ = read(model, model.writer.write(segments))
    status = {"command": "git status"}
    wanted = [("text", "One."), ("run_shell", status), ("run_shell", status), ("text", "Two."), ("list_jobs", {}), ("text", "Three.")]
    assert seen(events) == wanted
    assert len({event.call_id for event in events if hasattr(event, "arguments")}) == 3


@FAMILIES
def test_python_literals_and_raw_line_feeds_are_repaired(model: ModelFormat) -> None:
    block = model.writer.write([CALL])
    events, _ = read(model, block.replace(ARGUMENTS, "{'command': 'a', 'n': None}"))
    assert seen(events) == [("run_shell", {"command": "a", "n": None})] and codes(events) == ["repaired_tool_call"]
    events, _ = read(model, block.replace(ARGUMENTS, '{"command": "a\nb",}'))
    assert seen(events) == [("run_shell", {"command": "a\nb"})] and codes(events) == ["repaired_tool_call"]


@FAMILIES
def test_arguments_that_break_off_cut_the_call_and_the_next_block_is_read(model: ModelFormat) -> None:
    text = model.writer.write([CALL]).replace(ARGUMENTS, '{"command": oops') + "\n" + model.writer.write([CallSegment("list_jobs", "{}")])
    events, _ = read(model, text)
    names = [(segment["name"], segment["status"]) for segment in segments_of(events)]
    assert names == [("run_shell", "truncated"), ("list_jobs", "complete")]
    assert codes(events) == ["malformed_tool_call"]


@FAMILIES
def test_unknown_tools_are_forwarded_behind_a_marker(model: ModelFormat) -> None:
    events, _ = read(model, model.writer.write([CallSegment("no.such-tool", '{"a": "12", "b": 1.10}')]))
    assert seen(events) == [("no.such-tool", {"a": "12", "b": 1.1})]


@pytest.mark.parametrize("model", [model for model in MODELS if model.grammar.reasoning], ids=lambda model: model.names[0])
def test_a_whole_call_of_a_known_tool_ends_open_reasoning(model: ModelFormat) -> None:
    block = model.writer.write([CALL])
    events, incomplete = read(model, "Hm.\n" + block, opening="reasoning")
    assert [name for name, _ in seen(events)] == ["reasoning", "run_shell"] and not incomplete
    events, incomplete = read(model, "Hm.\n" + block.replace("run_shell", "other_tool"), opening="reasoning")
    assert [name for name, _ in seen(events)] == ["reasoning"] and incomplete
