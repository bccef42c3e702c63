"""Shared by the parser tests: cut a text in every way, run the parser, check the order law, compare what came out."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

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


def run(
    grammar: Grammar,
    tools: Sequence[Tool],
    pieces: Iterable[str],
    *,
    opening: Opening = TEXT,
    finish: FinishReason = "stop",
) -> tuple[list[Event], Parser]:
    """Feeds the pieces and finishes; every event passes the order check, and every call's bytes stay a JSON prefix."""
    parser = Parser(grammar, tools=tools, opening=opening, turn_tag=TAG)
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.finish(finish)
    checker = OrderChecker(framed=False)
    scanners: dict[int, JsonScanner] = {}
    for event in events:
        checker.push(event)
        if isinstance(event, SegmentStart) and event.kind == "tool_call":
            scanners[event.index] = JsonScanner()
        if isinstance(event, SegmentDelta) and event.index in scanners:
            assert scanners[event.index].feed(event.text) == len(event.text), "arguments are not a JSON prefix"
        if isinstance(event, SegmentEnd) and event.index in scanners:
            assert scanners[event.index].done == (event.status != "truncated"), "closing brace without an executable call"
    checker.finish()
    return events, parser


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
