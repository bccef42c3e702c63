"""What the fuzzer runs: bytes choose a format of the registry, how the turn opens and ends, its cuts, and its text; then every
property of the parser that needs no knowledge of the right answer is asserted."""

import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2] / "packages" / "parsers" / "tests"))

from parser_formats import OWN_PIECES, REGISTRY, TOOLS, format_id, pieces_of
from parser_harness import TAG, EventCheck, joined, random_cut, restored, run

from antiphon_parsers import ModelFormat, Parser
from antiphon_turns import Event, FinishReason, Opening, Tool

LITERAL = 0xE0
"""Bytes from here on say that the next one is a character of its own; those below name a piece."""

FINISHES: tuple[FinishReason, ...] = ("stop", "length", "cancelled", "error")
PIECES: dict[str, list[str]] = {
    format_id(model): list(dict.fromkeys((*OWN_PIECES.get(model.family.name, ()), *pieces_of(model)))) for model in REGISTRY
}


class Input(NamedTuple):
    """One turn to read."""

    model: ModelFormat
    tools: tuple[Tool, ...]
    opening: Opening
    finish: FinishReason
    text: str
    seed: int

    def __str__(self) -> str:
        tools = [tool.name for tool in self.tools]
        return f"{format_id(self.model)}, tools {tools}, {self.opening}, finish {self.finish}, seed {self.seed}: {self.text!r}"


def spelled(model: ModelFormat, data: bytes) -> str:
    """Bytes as pieces of the format's output and as characters."""
    pieces, out, place = PIECES[format_id(model)], [], 0
    while place < len(data):
        byte = data[place]
        place += 1
        if byte < LITERAL:
            out.append(pieces[byte % len(pieces)])
        elif place < len(data):
            out.append(chr(data[place]))
            place += 1
    return "".join(out)


def read(data: bytes) -> Input | None:
    """The input that bytes mean; None when they are too few."""
    if len(data) < 6:
        return None
    model = REGISTRY[data[0] % len(REGISTRY)]
    kinds = ("text", "reasoning", "undecided", "rendered")
    kind = kinds[data[1] % 4]
    split = 6 + (data[2] % 16 if kind == "rendered" else 0)
    opening = Opening(kind, spelled(model, data[6:split]))
    tools = TOOLS[: (data[1] >> 2) % 3]
    return Input(model, tools, opening, FINISHES[data[3] % 4], spelled(model, data[split:]), data[4] << 8 | data[5])


def feed_all(case: Input, pieces: list[str], *, restores: int = 0) -> tuple[list[list[Event]], bool]:
    """The events of each delta and of the end; with `restores`, the parser is taken up again before every so many deltas."""
    grammar = case.model.grammar
    parser = Parser(grammar, tools=case.tools, opening=case.opening, turn_tag=TAG)
    batches = []
    for number, piece in enumerate(pieces):
        if restores and number % restores == 0:
            parser = restored(parser, grammar, case.tools, binary=number % 2 == 0)
        batches.append(parser.feed(piece, range(len(piece) % 3)))
    batches.append(parser.finish(case.finish))
    return batches, parser.incomplete


def check(case: Input) -> None:
    """Raises when a property does not hold: nothing raises (I8), the order law and whole calls (I1, I6, I12), split invariance
    (I2), a snapshot changes nothing, and events that any encoding carries."""
    options: dict[str, Any] = {"opening": case.opening, "finish": case.finish}
    whole, reader = run(case.model.grammar, case.tools, [case.text], **options)
    msgspec.json.encode(whole)
    pieces = random_cut(case.text, case.seed)
    at = random.Random(case.seed).randint(0, len(case.text))
    for cut in (list(case.text), [case.text[:at], case.text[at:]]):
        events, other = run(case.model.grammar, case.tools, cut, **options)
        assert joined(events) == joined(whole), "the cut changes the turn"
        assert other.incomplete == reader.incomplete, "the cut changes the end"
    plain = feed_all(case, pieces)
    checker = EventCheck()
    for batch in plain[0]:
        checker.push(batch)
    checker.finish()
    assert feed_all(case, pieces, restores=1 + case.seed % 3) == plain, "a snapshot changes the turn"


def check_bytes(data: bytes) -> None:
    """One run of the fuzzer. What fails is printed as an input, since the bytes say little."""
    case = read(data)
    if case is None:
        return
    try:
        check(case)
    except BaseException:
        sys.stderr.write(f"\nfailed: {case}\n")
        raise
