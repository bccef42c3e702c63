"""`antiphon parse --jsonl`: the parsers on cases from standard input, one JSON object a line in and out."""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from antiphon_parsers import Parser, declare, opening_of, resolve
from antiphon_turns import (
    Anomaly,
    Assembler,
    CallSegment,
    Event,
    Opening,
    Segment,
    TextSegment,
    Tool,
    ids,
    stop_reason,
)
from antiphon_turns.errors import ConfigError

TURN_TAG = ids.turn_tag(bytes(ids.TAG_BYTES))
LONGEST_RANDOM_CUT = 7
# Readers that split text into lines split here too; JSON only has these characters in strings.
LINE_BREAKS = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}

# Escapes from left to right: a pair of surrogates, one alone, any other.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)")
_LONE_LENGTH = len(rb"\ud800")


class CaseTool(msgspec.Struct, frozen=True):
    name: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One input line; null is absent. `chunks` are read by cut "given", `text` by every other cut. `response_template` is what the
    parser name "hf" reads."""

    id: Any = None
    parser: str | None = None
    reasoning_parser: str | None = None
    tools: tuple[CaseTool, ...] | None = None
    text: str | None = None
    chunks: tuple[str, ...] | None = None
    opening: Literal["text", "reasoning", "undecided", "rendered"] | None = None
    prompt_tail: str | None = None
    cut: str | None = None
    finish: Literal["stop", "length"] | None = None
    events: bool | None = None
    response_template: dict[str, Any] | None = None


def parse_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """An output line for every input line; a bad line gives `{"id", "error"}` and the next ones still run."""
    for line in lines:
        if not line.strip():
            continue
        case_id: Any = None
        try:
            paired = pair_surrogates(line)
            raw = msgspec.json.decode(paired)
            case_id = raw.get("id") if isinstance(raw, dict) else None
            case = msgspec.json.decode(paired, type=Case)
            result = parse_case(case)
        except (msgspec.MsgspecError, ConfigError, ValueError, RecursionError) as error:
            result = {"id": case_id, "error": error.message if isinstance(error, ConfigError) else str(error)}
        yield one_line(msgspec.json.encode(result))


def pair_surrogates(line: bytes) -> bytes:
    """The line with U+FFFD for escapes of unpaired surrogates: JSON can spell them, no engine can say them."""
    return _ESCAPE.sub(lambda found: b"\\ufffd" if len(found[0]) == _LONE_LENGTH else found[0], line)


def one_line(document: bytes) -> bytes:
    """JSON without line breaks of any kind. Arguments pass as the model wrote them, over several lines perhaps, but JSON
    has line feeds between its tokens only."""
    text = document.decode().replace("\n", " ").replace("\r", " ")
    for char, escape in LINE_BREAKS.items():
        text = text.replace(char, escape)
    return text.encode()


def parse_case(case: Case) -> dict[str, Any]:
    """Runs one case. Raises ConfigError for an unknown parser, ValueError for a case that makes no sense."""
    declared = declare(case.response_template) if case.response_template is not None else None
    model_format = resolve(case.parser, case.reasoning_parser, declared=declared)
    tools = tuple(Tool(name=tool.name, parameters=bytes(tool.parameters).decode()) for tool in case.tools or ())
    opening = Opening(case.opening or "undecided")
    if opening.kind == "rendered":
        opening = opening_of(case.prompt_tail or "", model_format.family.frame)
    parser = Parser(model_format.grammar, tools=tools, opening=opening, turn_tag=TURN_TAG)
    assembler = Assembler()
    log: list[tuple[int, Event]] = []
    finish = case.finish or "stop"
    index = -1
    for index, chunk in enumerate(cut(case)):
        log.extend((index, event) for event in parser.feed(chunk))
    log.extend((index + 1, event) for event in parser.finish(finish))
    for _, event in log:
        assembler.push(event)
    result: dict[str, Any] = {
        "id": case.id,
        "segments": [show_segment(segment) for segment in assembler.segments],
        "incomplete": parser.incomplete,
        "anomalies": [show_anomaly(anomaly) for anomaly in assembler.anomalies],
        "stop_reason": stop_reason(assembler.segments, finish, None, incomplete=parser.incomplete),
    }
    if case.events:
        result["events"] = log
    return result


def cut(case: Case) -> Sequence[str]:
    """The feeds of a case. "random:SEED" gives pieces of 1 to 7 characters, the same for the same seed."""
    how = "whole" if case.cut is None else case.cut
    if how == "given":
        if case.chunks is None:
            raise ValueError('cut "given" needs "chunks"')
        return case.chunks
    text = case.text if case.text is not None else "".join(case.chunks or ())
    if how == "whole":
        return [text]
    if how == "chars":
        return list(text)
    kind, _, seed = how.partition(":")
    if kind != "random":
        raise ValueError(f"unknown cut {how!r}; use whole, chars, given or random:SEED")
    draw = random.Random(seed)
    pieces, at = [], 0
    while at < len(text):
        size = draw.randint(1, LONGEST_RANDOM_CUT)
        pieces.append(text[at : at + size])
        at += size
    return pieces


def show_segment(segment: Segment) -> dict[str, Any]:
    """A segment as the output spells it; whole calls also carry their arguments as JSON."""
    if isinstance(segment, CallSegment):
        shown: dict[str, Any] = {"kind": "tool_call", "name": segment.name, "arguments_raw": segment.arguments, "status": segment.status}
        if segment.status != "truncated":
            shown["arguments"] = msgspec.Raw(segment.arguments.encode())
        return shown
    kind = "text" if isinstance(segment, TextSegment) else "reasoning"
    return {"kind": kind, "text": segment.text, "status": segment.status}


def show_anomaly(anomaly: Anomaly) -> dict[str, str]:
    """An anomaly without its event tag."""
    return {"code": anomaly.code, "detail": anomaly.detail}
