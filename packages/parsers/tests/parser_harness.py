"""Shared by the parser tests: cut a text in every way, run the parser, check the order law, compare what came out."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from antiphon_parsers import Grammar, Parser
from antiphon_turns import (
    Anomaly,
    CallReady,
    Event,
    FinishReason,
    Opening,
    OrderChecker,
    SegmentDelta,
    SegmentEnd,
    SegmentStart,
    Tool,
)
from antiphon_turns.json_scan import JsonScanner

TAG = "abcdefghijklmnop"
TEXT = Opening("text")


def tools_of(items: Iterable[dict[str, Any]]) -> tuple[Tool, ...]:
    return tuple(Tool(name=item["name"], parameters=json.dumps(item["parameters"])) for item in items)


class EventCheck:
    """Every event passes the order check, every call's bytes stay a JSON prefix, and what completes them comes together with
    the end of the call (I12). `push` takes the events of one feed."""

    def __init__(self) -> None:
        self._checker = OrderChecker(framed=False)
        self._scanners: dict[int, JsonScanner] = {}

    def push(self, events: Iterable[Event]) -> None:
        open_call = None
        for event in events:
            self._checker.push(event)
            match event:
                case SegmentStart(kind="tool_call"):
                    self._scanners[event.index] = JsonScanner()
                case SegmentDelta() if event.index in self._scanners:
                    assert self._scanners[event.index].feed(event.text) == len(event.text), "arguments are not a JSON prefix"
                    open_call = event.index
                case SegmentEnd() if event.index in self._scanners:
                    done = self._scanners[event.index].done
                    assert done == (event.status != "truncated"), "closing brace without an executable call"
                    open_call = None
        assert open_call is None or not self._scanners[open_call].done, "closing brace before the end of the call"

    def finish(self) -> None:
        self._checker.finish()


def run(
    grammar: Grammar,
    tools: Sequence[Tool],
    pieces: Iterable[str],
    *,
    opening: Opening = TEXT,
    finish: FinishReason = "stop",
) -> tuple[list[Event], Parser]:
    """Feeds the pieces and finishes; all events are checked."""
    parser = Parser(grammar, tools=tools, opening=opening, turn_tag=TAG)
    check = EventCheck()
    events: list[Event] = []
    for piece in pieces:
        events += (batch := parser.feed(piece))
        check.push(batch)
    events += (batch := parser.finish(finish))
    check.push(batch)
    check.finish()
    return events, parser


def restored(parser: Parser, grammar: Grammar, tools: Sequence[Tool], *, binary: bool) -> Parser:
    """The parser written down, sent through an encoding, and taken up again."""
    codec: Any = msgspec.msgpack if binary else msgspec.json
    return Parser.restore(grammar, tools=tools, snapshot=codec.decode(codec.encode(parser.snapshot())))


def joined(events: Iterable[Event]) -> list[Any]:
    """The events with the deltas of each segment joined: equal for every cut of one text (I2)."""
    out: list[Any] = []
    for event in events:
        if isinstance(event, SegmentDelta) and out and isinstance(out[-1], SegmentDelta):
            out[-1] = SegmentDelta(event.index, out[-1].text + event.text)
        else:
            out.append(event)
    return out


def segments_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Segments as plain data: type, status, and text or name and arguments."""
    out: list[dict[str, Any]] = []
    for event in events:
        match event:
            case SegmentStart():
                out.append({"type": event.kind, "text": "", "name": event.name})
            case SegmentDelta():
                out[-1]["text"] += event.text
            case SegmentEnd():
                out[-1]["status"] = event.status
            case CallReady():
                out[-1]["arguments"] = json.loads(event.arguments)
    return out


def codes(events: Iterable[Event]) -> list[str]:
    return [event.code for event in events if isinstance(event, Anomaly)]


def cuts(text: str, *, every_split: bool = True, seeds: int = 12) -> Iterator[list[str]]:
    """Whole, character by character, every two-way split, seeded random cuts of 1 to 7 characters."""
    yield [text]
    yield list(text)
    if every_split:
        for at in range(1, len(text)):
            yield [text[:at], text[at:]]
    for seed in range(seeds):
        yield random_cut(text, seed)


def random_cut(text: str, seed: int) -> list[str]:
    source = random.Random(seed)
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = source.randint(1, 7)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def longest_marker(grammar: Grammar) -> int:
    """The length of the longest literal of a grammar, patterns aside."""

    def literals(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                yield from literals(item)
        elif isinstance(value, msgspec.Struct):
            for field in value.__struct_fields__:
                if field not in ("header", "growing"):
                    yield from literals(getattr(value, field))

    return max(map(len, literals(grammar)), default=0)


def check_holdback(grammar: Grammar, tools: Sequence[Tool], text: str, *, opening: Opening = TEXT, finish: FinishReason = "stop") -> None:
    """Fed one character at a time, what one character sets free was held back: no more than the longest marker, the longest
    declared tool name and 64 characters (I7). Not for texts with values that are held until they can be typed, and not for
    argument objects before their call's name: those may be longer."""
    bound = longest_marker(grammar) + max((len(tool.name) for tool in tools), default=0) + 64
    parser = Parser(grammar, tools=tools, opening=opening, turn_tag=TAG)
    for batch in [*(parser.feed(char) for char in text), parser.finish(finish)]:
        for event in batch:
            assert not isinstance(event, SegmentDelta) or len(event.text) <= bound, (
                f"{len(event.text)} characters came late: {event.text!r}"
            )
