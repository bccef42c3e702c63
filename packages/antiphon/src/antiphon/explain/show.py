"""Explanations for people: one table of requests, one page for a single request or a comparison."""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from antiphon.explain.bodies import BodySurface, Comparison, compare
from antiphon.explain.composition import Part
from antiphon.explain.report import CauseRow, Report, RequestRow
from antiphon.model import ModelChoice, load_model
from antiphon.stabilize import StabilizerRule
from antiphon_turns.errors import ConfigError

NOTHING = "No request of this key is remembered. Requests are kept by the key they came with; --api-key names another."
WIDE = 120
"""Columns from which on a sentence has room in the table; elsewhere it stands below."""
ALL_SHARED = "Nothing was lost: the prompt begins with all of the one before."


def merged(answers: Sequence[dict[str, Any]], limit: int) -> Report:
    """The answers of a server for several keys as one report. Raises ConfigError where they are none."""
    try:
        reports = [msgspec.convert(answer, Report) for answer in answers]
    except msgspec.ValidationError as error:
        raise ConfigError(f"the server does not answer as Antiphon does: {error}") from error
    rows = sorted((row for report in reports for row in report.requests), key=lambda row: row.at)
    return Report(model=reports[0].model, requests=tuple(rows[-limit:]))


def compare_bodies(before: bytes, after: bytes, surface: BodySurface, choice: ModelChoice, rules: Sequence[StabilizerRule]) -> Comparison:
    """Reads the model and compares. Raises ConfigError."""
    if not choice.path.exists():
        raise ConfigError(f"{choice.path} does not exist; --model-path takes a .gguf file, or a folder with tokenizer.json")
    return compare(load_model(choice), before, after, surface=surface, rules=rules)


def read_file(path: Path) -> bytes:
    """A saved body. Raises ConfigError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


def show_report(console: Console, report: Report, *, whole: bool = False) -> None:
    """The table of requests, and, where one is asked for or there is only one, all that is known of it."""
    if not report.requests:
        console.print(Text(NOTHING), soft_wrap=True)
        return
    wide = console.width >= WIDE
    table = _table(("at", "request", "surface", "prompt", "expected", "cached", "lost", *(("why",) if wide else ())), numbers=range(3, 7))
    for row in report.requests:
        at = time.strftime("%H:%M:%S", time.localtime(row.at))
        cached = "?" if row.cached_tokens is None else str(row.cached_tokens)
        numbers = (str(row.prompt_tokens), str(row.expected_tokens), cached, str(row.lost_tokens))
        _add(table, (at, row.request_id, row.surface, *numbers, *((_why(row.causes),) if wide else ())))
    console.print(table)
    for row in () if wide else report.requests:
        if row.causes:
            _line(console, row.request_id, _why(row.causes))
    if whole or len(report.requests) == 1:
        for row in report.requests[-1:]:
            _show_request(console, row)


def _show_request(console: Console, row: RequestRow) -> None:
    if row.session:
        _line(console, "session", row.session)
    _show_causes(console, row.causes)
    _show_parts(console, row.parts)


def show_comparison(console: Console, found: Comparison) -> None:
    """Two bodies, compared."""
    table = _table(("prompt", "tokens", "of them shared"), numbers=(1, 2))
    _add(table, ("before", str(found.before_tokens), str(found.shared_tokens)))
    _add(table, ("after", str(found.prompt_tokens), str(found.shared_tokens)))
    console.print(table)
    if found.stabilized:
        _line(console, "stabilized", ", ".join(found.stabilized))
    _show_causes(console, found.causes)
    if found.excerpt is not None:
        for name, text in (("both", f"...{found.excerpt.both}"), ("before", found.excerpt.before), ("after", found.excerpt.after)):
            _line(console, name, repr(text))
    _show_parts(console, found.parts)


def _show_causes(console: Console, causes: Sequence[CauseRow]) -> None:
    if not causes:
        console.print(Text(ALL_SHARED), soft_wrap=True)
    for number, cause in enumerate(causes, 1):
        console.print(Text(f"{number}. {cause.place}: {cause.sentence}.", style="bold"), soft_wrap=True)
        if cause.detail:
            console.print(Text(f"   {cause.detail}", style="dim"), soft_wrap=True)
        console.print(Text(f"   {cause.advice}"), soft_wrap=True)


def _show_parts(console: Console, parts: Sequence[Part]) -> None:
    if not parts:
        return
    known = parts[0].cached is not None
    table = _table(("part", "tokens", "shared", *(("cached",) if known else ())), numbers=range(1, 4))
    for part in parts:
        _add(table, (part.name, str(part.tokens), str(part.shared), *((str(part.cached),) if known else ())))
    console.print(table)


def _why(causes: Sequence[CauseRow]) -> str:
    if not causes:
        return ""
    more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
    return f"{causes[0].place}: {causes[0].sentence}{more}"


def _line(console: Console, name: str, text: str) -> None:
    console.print(Text.assemble((f"{name}: ", "bold"), text), soft_wrap=True)


def _table(headings: Iterable[str], *, numbers: Iterable[int]) -> Table:
    table = Table(header_style="bold", box=SIMPLE)
    right = set(numbers)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place in right else "left", overflow="fold")
    return table


def _add(table: Table, cells: Iterable[str]) -> None:
    """A row whose cells are text and nothing else: what a prompt holds looks like the table's own markup."""
    table.add_row(*map(Text, cells))
