"""Parser CPU per 4-character delta, for one string argument of growing length. It must be flat: nothing may be read twice."""

import json
import random
import time
from collections.abc import Callable, Iterable, Sequence

import msgspec

from antiphon_parsers import ModelFormat, Parser, resolve
from antiphon_parsers.registry import REASONING_PARTS, TOOL_PARTS
from antiphon_turns import CallReady, CallSegment, Event, Opening, Tool
from bench.measure import BenchError, middle, table

FAMILIES = ("hermes", "qwen3_coder")
SIZES = (4_096, 16_384, 65_536)
TARGET_US = 5.0
DELTA = 4
TOOL = Tool(
    name="write_file",
    parameters='{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}',
)


class ParserFigure(msgspec.Struct, frozen=True, kw_only=True):
    """CPU microseconds per delta of 4 characters; `best` and `worst` are those of the repeats, `us_per_delta` their median."""

    family: str
    characters: int
    us_per_delta: float
    best: float
    worst: float


def source_text(characters: int) -> str:
    """Text like a source file: lines, indentation, quotes, backslashes, a few characters beyond ASCII."""
    draw = random.Random(characters)
    lines: list[str] = []
    size = 0
    while size < characters:
        names = " ".join("".join(draw.choices("abcdefghijklmnop_", k=draw.randint(2, 9))) for _ in range(draw.randint(2, 7)))
        line = "    " * draw.randint(0, 3) + draw.choice((names, f'say("{names}\\n")', f"# {names} — é", f"if {names}: <b>", ""))
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines)[:characters]


def format_of(family: str) -> ModelFormat:
    """The family with reasoning of its own where it cannot be without."""
    messages = TOOL_PARTS[family].messages
    reasoning = next((part.name for part in REASONING_PARTS.values() if messages is not None and part.messages == messages), None)
    return resolve(family, reasoning)


def call_text(family: str, content: str) -> tuple[str, str, str]:
    """One call: what stands before the long argument, the argument as the family spells it, and what follows."""
    write = format_of(family).writer.write
    before, _, after = write([_call("@@")]).partition("@@")
    text = write([_call(content)])
    return before, text[len(before) : len(text) - len(after)], after


def _call(content: str) -> CallSegment:
    return CallSegment(TOOL.name, json.dumps({"path": "a.py", "content": content}, ensure_ascii=False))


def in_fours(text: str) -> list[str]:
    """The text in deltas of four characters."""
    return [text[at : at + DELTA] for at in range(0, len(text), DELTA)]


def feed_seconds(family: str, content: str, cut: Callable[[str], list[str]] = in_fours) -> tuple[float, int]:
    """CPU seconds to feed the argument in deltas with one token id each, and the number of deltas. Raises BenchError unless
    the call comes out whole."""
    before, argument, after = call_text(family, content)
    parser = Parser(format_of(family).grammar, tools=[TOOL], opening=Opening("text"), turn_tag="bench")
    deltas = cut(argument)
    feed, ids = parser.feed, (1,)
    events: list[Event] = feed(before, ids)
    keep = events.extend
    started = time.process_time()
    for delta in deltas:
        keep(feed(delta, ids))
    spent = time.process_time() - started
    events += parser.feed(after)
    events += parser.finish("stop")
    calls = [json.loads(event.arguments) for event in events if isinstance(event, CallReady)]
    if calls != [{"path": "a.py", "content": content}]:
        raise BenchError(f"{family}: the call did not come out as it went in")
    return spent, len(deltas)


def parser_figures(*, families: Iterable[str] = FAMILIES, sizes: Sequence[int] = SIZES, repeats: int = 9) -> list[ParserFigure]:
    """Every family at every size. Sizes take turns within a repeat, so that a busy machine touches all alike."""
    figures = []
    for family in families:
        contents = {size: source_text(size) for size in sizes}
        feed_seconds(family, contents[sizes[0]])
        found: dict[int, list[float]] = {size: [] for size in sizes}
        for _ in range(repeats):
            for size, content in contents.items():
                spent, deltas = feed_seconds(family, content)
                found[size].append(spent / deltas * 1e6)
        figures += [
            ParserFigure(family=family, characters=size, us_per_delta=middle(values), best=min(values), worst=max(values))
            for size, values in found.items()
        ]
    return figures


def parser_table(figures: Sequence[ParserFigure]) -> str:
    """The figures as text."""
    first = {figure.family: figure.us_per_delta for figure in reversed(figures)}
    rows = [
        (
            f.family,
            f.characters,
            f.us_per_delta,
            f.best,
            f.worst,
            f.us_per_delta / first[f.family],
            "yes" if f.us_per_delta <= TARGET_US else "no",
        )
        for f in figures
    ]
    return table(("family", "characters", "us per delta", "best", "worst", "to shortest", f"<= {TARGET_US:.0f} us"), rows)
