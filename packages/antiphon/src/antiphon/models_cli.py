"""`antiphon models`: which format a model speaks, and which formats there are."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from antiphon.model import look_at
from antiphon_parsers import Detection, detect, resolve
from antiphon_parsers.catalog import format_rows
from antiphon_tokenizers import load_model_files
from antiphon_turns.errors import ConfigError

FOUND, AMBIGUOUS, UNKNOWN = 0, 3, 4
"""Exit statuses of `models detect`; 2 is a configuration error, as everywhere."""

KINDS: dict[Literal["tool", "reasoning"], str] = {"tool": "calls", "reasoning": "reasoning"}


def look_at_path(path: Path) -> Detection:
    """The format of a model folder, a .gguf file or a bare chat template. ConfigError when it is none of these."""
    if path.suffix.lower() in (".jinja", ".jinja2") and path.is_file():
        return detect(read_text(path), (), ())
    files = load_model_files(path)
    return look_at(files, files.chat_template or "")


def read_text(path: Path) -> str:
    """A template's text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def exit_status(found: Detection) -> int:
    """0 when one format fits, 3 when several do, 4 when none does."""
    if found.others:
        return AMBIGUOUS
    return FOUND if found.tool_parser or found.reasoning_parser else UNKNOWN


def detection_data(path: Path, found: Detection) -> dict[str, Any]:
    """What `--json` prints."""
    flags = {"--tool-call-parser": found.tool_parser, "--reasoning-parser": found.reasoning_parser}
    return {
        "path": str(path),
        "tool_parser": found.tool_parser,
        "reasoning_parser": found.reasoning_parser,
        "confidence": found.confidence,
        "ambiguous": bool(found.others),
        "reason": found.reason,
        "others": [msgspec.structs.asdict(other) for other in found.others],
        "flags": [part for flag, name in flags.items() if name for part in (flag, name)],
    }


def show_detection(console: Console, path: Path, found: Detection) -> None:
    """The same for people."""
    model = resolve(found.tool_parser, found.reasoning_parser, declared=found.declared)
    table = _table(("reads", "parser", "confidence", *(("because",) if found.others else ())))
    for kind, name in zip(KINDS, model.names, strict=True):
        _add(table, KINDS[kind], name or "none", f"{found.confidence:.0%}" if kind == "tool" else "")
    for other in found.others:
        _add(table, f"or {KINDS[other.kind]}", other.name, f"{other.confidence:.0%}", other.reason)
    console.print(Text(str(path), style="bold"), soft_wrap=True)
    console.print(table)
    console.print(Text(found.reason), soft_wrap=True)
    if found.others:
        console.print(
            Text("Ambiguous: name the parser by hand, with --tool-call-parser or --reasoning-parser.", style="yellow"), soft_wrap=True
        )


def list_data() -> list[dict[str, Any]]:
    """What `models list --json` prints."""
    return [msgspec.structs.asdict(row) for row in format_rows()]


def show_list(console: Console) -> None:
    """All formats, a table for each kind."""
    rows = format_rows()
    tools = _table(("tool parser", "also called", "has", "known by"))
    for row in (row for row in rows if row.kind == "tool"):
        has = {"grammar": True, "writer": row.writer, f"frame {row.frame}": bool(row.frame), "forced calls": row.call_grammar}
        _add(tools, row.name, ", ".join(row.aliases), ", ".join(word for word, given in has.items() if given), row.detection)
    reasoning = _table(("reasoning parser", "also called", "past turns keep it", "thinking on / off", "known by"))
    for row in (row for row in rows if row.kind == "reasoning"):
        _add(reasoning, row.name, ", ".join(row.aliases), row.replay, row.thinking, row.detection)
    console.print(tools)
    console.print(reasoning)
    console.print(Text("hf, also called response_template: the format that a model declares in its tokenizer_config.json."), soft_wrap=True)
    console.print(Text("Names may be written with -, _ or . and in any case."), soft_wrap=True)


def _table(headings: Iterable[str]) -> Table:
    table = Table(header_style="bold", box=SIMPLE)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _add(table: Table, *cells: str) -> None:
    """A row whose cells are text and nothing else: markers look like the table's own markup."""
    table.add_row(*map(Text, cells))
