"""What holds for every format of the registry, whatever the model writes: any cut gives the same turn (I2), nothing raises (I8),
a snapshot changes nothing, calls that are cut are no calls (I12), and the parser reads what the writer wrote."""

import json
import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from parser_formats import FAMILIES, REGISTRY, TOOLS, format_id, pieces_of
from parser_harness import TAG, joined, random_cut, restored, run, segments_of, tools_of

from antiphon_parsers import ModelFormat, Parser, resolve
from antiphon_parsers.registry import REASONING_PARTS, TOOL_PARTS
from antiphon_turns import CallReady, CallSegment, Event, Opening, ReasoningSegment, Segment, SegmentDelta, SegmentStart, TextSegment
from antiphon_turns.errors import InternalError

EVERY_FORMAT = pytest.mark.parametrize("model", REGISTRY, ids=format_id)
EVERY_FAMILY = pytest.mark.parametrize("model", FAMILIES, ids=format_id)
FINISHES = st.sampled_from(["stop", "length", "cancelled", "error"])
TURN: list[Segment] = [
    ReasoningSegment("Look first."),
    TextSegment("I will look."),
    CallSegment("run", '{"cmd": "git status < a\\n\\"b\\"", "n": 12}'),
    CallSegment("run_all", "{}"),
    TextSegment("Done."),
]


def test_every_part_of_the_registry_is_here() -> None:
    assert {model.names[0] for model in REGISTRY} == {*TOOL_PARTS, None}
    assert {model.names[1] for model in REGISTRY} >= {*REASONING_PARTS, None}


def mutations(text: str) -> st.SearchStrategy[str]:
    """A text with some of its slices dropped, doubled, or moved, and with characters changed."""

    def mutated(seed: int) -> str:
        source = random.Random(seed)
        out = text
        for _ in range(source.randint(1, 4)):
            start, end = sorted((source.randint(0, len(out)), source.randint(0, len(out))))
            end = min(end, start + source.choice((1, 4, 40)))
            at = source.randint(0, len(out))
            match source.randint(0, 3):
                case 0:
                    out = out[:start] + out[end:]
                case 1:
                    out = out[:end] + out[start:end] + out[end:]
                case 2:
                    out = out[:at] + out[start:end] + out[at:]
                case _:
                    out = out[:at] + source.choice("<>{}[]\"'\\|:=,\n a｜") + out[at + 1 :]
        return out

    return st.integers(0, 2**32).map(mutated)


def outputs(model: ModelFormat) -> st.SearchStrategy[str]:
    """Soups of what means something to the format, its own output damaged, and any text."""
    soup = st.lists(st.sampled_from(pieces_of(model)), max_size=16).map("".join)
    return st.one_of(soup, soup, mutations(model.writer.write(TURN)), st.text(max_size=60))


@st.composite
def openings(draw: st.DrawFn, outputs: st.SearchStrategy[str]) -> Opening:
    kind = draw(st.sampled_from(["text", "reasoning", "undecided", "rendered"]))
    return Opening(kind, draw(outputs) if kind == "rendered" else "")


@EVERY_FORMAT
@settings(max_examples=16, deadline=None)
@given(data=st.data(), finish=FINISHES, seed=st.integers(0, 10**6))
def test_any_cut_gives_the_same_turn(model: ModelFormat, data: st.DataObject, finish: Any, seed: int) -> None:
    texts = outputs(model)
    text, opening = data.draw(texts), data.draw(openings(texts))
    at = seed % (len(text) + 1)
    whole, reader = run(model.grammar, TOOLS, [text], opening=opening, finish=finish)
    for pieces in (list(text), random_cut(text, seed), [text[:at], text[at:]]):
        events, other = run(model.grammar, TOOLS, pieces, opening=opening, finish=finish)
        assert joined(events) == joined(whole)
        assert other.incomplete == reader.incomplete


def fed(parser: Parser, pieces: list[str], model: ModelFormat, finish: Any, *, restores: int) -> tuple[list[list[Event]], bool]:
    """The events of each feed, with token ids; the parser is restored before every piece (`restores` 1), every other (2) ..., never (0)."""
    batches = []
    for number, piece in enumerate(pieces):
        if restores and number % restores == 0:
            parser = restored(parser, model.grammar, TOOLS, binary=number % 4 > 1)
        batches.append(parser.feed(piece, range(len(piece) % 3)))
    if restores:
        parser = restored(parser, model.grammar, TOOLS, binary=True)
    batches.append(parser.finish(finish))
    return batches, parser.incomplete


@EVERY_FORMAT
@settings(max_examples=8, deadline=None)
@given(data=st.data(), finish=FINISHES, seed=st.integers(0, 10**6))
def test_a_snapshot_changes_nothing_of_what_follows(model: ModelFormat, data: st.DataObject, finish: Any, seed: int) -> None:
    texts = outputs(model)
    text, opening = data.draw(texts), data.draw(openings(texts))
    pieces = random_cut(text, seed)
    first, second = (Parser(model.grammar, tools=TOOLS, opening=opening, turn_tag=TAG) for _ in range(2))
    assert fed(second, pieces, model, finish, restores=1 + seed % 3) == fed(first, pieces, model, finish, restores=0)


@EVERY_FAMILY
def test_a_snapshot_holds_no_history(model: ModelFormat) -> None:
    write = model.writer.write
    before, _, after = write([CallSegment("run", '{"cmd": "@@"}')]).partition("@@")
    block, thinks = write([CallSegment("run", '{"cmd": "x"}')]), model.grammar.reasoning is not None
    heads = {
        "text": "Text. ",
        "reasoning": write([ReasoningSegment("@@")]).partition("@@")[0] if thinks else "",
        "after": f"{block * 40}Text. ",
    }
    for kind, head in heads.items():
        sizes = []
        for length in (400, 40_000):
            parser = Parser(model.grammar, tools=TOOLS, opening=Opening("text"), turn_tag=TAG)
            for piece in random_cut(head, 1) + ["some words, "] * (length // 12):
                parser.feed(piece, (1,))
            sizes.append(len(json.dumps(parser.snapshot())))
        assert sizes[1] <= sizes[0] + 40, kind
        assert sizes[1] < 3_000, kind
    parser = Parser(model.grammar, tools=TOOLS, opening=Opening("text"), turn_tag=TAG)
    for piece in [before, *["some words, "] * 3_000]:
        parser.feed(piece, (1,))
    assert len(json.dumps(parser.snapshot())) < 36_000 + 3_000
    parser.feed(after + "Done.")
    assert len(json.dumps(parser.snapshot())) < 3_000


def test_a_snapshot_fits_only_what_it_was_taken_of() -> None:
    hermes, qwen = resolve("hermes", "qwen3").grammar, resolve("qwen3_coder", "qwen3").grammar
    snapshot = Parser(hermes, tools=TOOLS, opening=Opening("text"), turn_tag=TAG).snapshot()
    assert Parser.restore(hermes, tools=TOOLS, snapshot=snapshot).feed("a") != []
    objects = snapshot["objects"]
    for grammar, tools, changed in (
        (qwen, TOOLS, {}),
        (hermes, TOOLS[:1], {}),
        (hermes, TOOLS, {"version": 2}),
        (hermes, TOOLS, {"objects": []}),
        (hermes, TOOLS, {"objects": objects[1:]}),
        (hermes, TOOLS, {"objects": [{**objects[0], "is": "os.system"}, *objects[1:]]}),
        (hermes, TOOLS, {"objects": [{**objects[0], "_state": {"ref": 99}}, *objects[1:]]}),
        (hermes, TOOLS, {"objects": [{**objects[0], "_state": {"given": "grammar.nothing"}}, *objects[1:]]}),
        (hermes, TOOLS, {"more": 1}),
    ):
        with pytest.raises(InternalError):
            Parser.restore(grammar, tools=tools, snapshot={**snapshot, **changed})


WORDS = st.text("abcdefghij_ \n\té{}\"'\\", max_size=12)
ARGUMENTS = st.fixed_dictionaries({}, optional={"s": WORDS, "i": st.integers(-(10**30), 10**30), "b": st.booleans()})
PROSE = st.text("abcdefghij .,\n!?é", min_size=1, max_size=30).filter(str.strip)
TYPED = tools_of(
    [
        {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"s": {"type": "string"}, "i": {"type": "integer"}, "b": {"type": "boolean"}},
            },
        }
        for name in ("run", "run_all")
    ]
)


@st.composite
def turns(draw: st.DrawFn, *, reasoning: bool) -> list[Segment]:
    """Turns as a writer gets them: no two texts next to each other."""
    segments: list[Segment] = []
    for kind in draw(st.lists(st.sampled_from(["text", "call", "call", *(["reasoning"] if reasoning else [])]), max_size=6)):
        if kind == "call":
            segments.append(
                CallSegment(draw(st.sampled_from(["run", "run_all"])), json.dumps(draw(ARGUMENTS), ensure_ascii=draw(st.booleans())))
            )
        elif kind == "reasoning":
            segments.append(ReasoningSegment(draw(PROSE)))
        elif not (segments and isinstance(segments[-1], TextSegment)):
            segments.append(TextSegment(draw(PROSE)))
    return segments


def plain(segments: list[Segment]) -> list[tuple[str, Any]]:
    """Segments as name or kind, and arguments or text."""
    return [
        (segment.name, json.loads(segment.arguments))
        if isinstance(segment, CallSegment)
        else (type(segment).__name__[:-7].lower(), segment.text)
        for segment in segments
    ]


@EVERY_FAMILY
@settings(max_examples=16, deadline=None)
@given(data=st.data(), earlier=st.integers(0, 12))
def test_a_family_reads_what_it_writes_and_shows_no_marker(model: ModelFormat, data: st.DataObject, earlier: int) -> None:
    segments = data.draw(turns(reasoning=model.grammar.reasoning is not None))
    text = model.writer.write(segments, earlier_calls=earlier)
    events, parser = run(model.grammar, TYPED, [text])
    assert joined(run(model.grammar, TYPED, list(text))[0]) == joined(events)
    read = [(seg["name"] or seg["type"], seg.get("arguments", seg["text"])) for seg in segments_of(events)]
    assert read == plain(segments)
    assert not parser.incomplete


@EVERY_FAMILY
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_turn_cut_anywhere_shows_a_beginning_of_it(model: ModelFormat, data: st.DataObject) -> None:
    """No marker leaks, no byte is lost, and a call is a call only when all of it is there (I3, I12)."""
    segments = data.draw(turns(reasoning=model.grammar.reasoning is not None))
    text = model.writer.write(segments)
    assume(text)
    cut = data.draw(st.integers(0, len(text)))
    events, _ = run(model.grammar, TYPED, list(text[:cut]), finish="length")
    wanted = plain(segments)
    read = segments_of(events)
    for number, segment in enumerate(read):
        name, content = wanted[number] if number < len(wanted) else ("", "")
        if segment["type"] == "tool_call":
            assert segment["name"] == name
            assert segment.get("arguments", content) == content
            continue
        shown = segment["text"]
        if segment["type"] == name and (shown == content or (number == len(read) - 1 and content.startswith(shown))):
            continue
        rest = shown.removeprefix(content) if segment["type"] == name else shown
        assert number == len(read) - 1 and is_begun(model, rest), "text that the turn does not hold"


def is_begun(model: ModelFormat, rest: str) -> bool:
    """Whether a cut turn may end so: with the beginning of a marker, or of a call that has no marker."""
    calls, reasoning = model.grammar.calls, model.grammar.reasoning
    markers = [*((*calls.openers, *calls.closers) if calls else ()), *model.grammar.breaks]
    markers += (reasoning.opener, reasoning.closer) if reasoning else ()
    word = rest.strip()
    return any(marker.startswith(word) for marker in markers) or ("{" in markers and word.startswith("{"))


@EVERY_FAMILY
@settings(max_examples=20, deadline=None)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_argument_deltas_add_up_and_no_part_of_them_is_a_value(model: ModelFormat, data: st.DataObject, seed: int) -> None:
    text = data.draw(outputs(model))
    parser = Parser(model.grammar, tools=TOOLS, opening=Opening("text"), turn_tag=TAG)
    calls: dict[int, str] = {}
    for batch in [*(parser.feed(piece) for piece in random_cut(text, seed)), parser.finish("stop")]:
        for event in batch:
            if isinstance(event, SegmentStart) and event.kind == "tool_call":
                calls[event.index] = ""
            elif isinstance(event, SegmentDelta) and event.index in calls:
                calls[event.index] += event.text
            elif isinstance(event, CallReady):
                assert event.arguments == calls.pop(event.index)
                assert isinstance(json.loads(event.arguments), dict)
        for unfinished in calls.values():
            with pytest.raises(json.JSONDecodeError):
                json.loads(unfinished)
