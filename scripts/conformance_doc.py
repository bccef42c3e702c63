"""Writes the generated parts of docs/conformance.md. usage: conformance_doc.py list | results NAME=FILE.json ... [--note TEXT]

`list` is the list of checks. `results` are runs of `antiphon check --json`, side by side, with the date and the note below.
"""

import argparse
import re
import time
from pathlib import Path
from typing import Any

import msgspec

from antiphon.conformance.registry import CHECKS
from antiphon.conformance.report import list_markdown

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "conformance.md"
OUTCOMES = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
DETAIL_LENGTH = 150


def replaced(text: str, part: str, content: str) -> str:
    """The document with one generated part put in. Raises ValueError when the part is not marked."""
    pattern = re.compile(rf"(<!-- {part}: .*? -->\n).*?(<!-- end of {part} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"{DOCUMENT} has no part {part!r}")
    return pattern.sub(lambda found: f"{found[1]}\n{content.strip()}\n\n{found[2]}", text)


def results(runs: dict[str, dict[str, Any]]) -> str:
    """The counts, then every check that did not pass everywhere."""
    lines = ["| | " + " | ".join(runs) + " |", "|---|" + "---|" * len(runs)]
    for outcome, word in OUTCOMES.items():
        lines.append(f"| **{word}** | " + " | ".join(str(run["counts"][outcome]) for run in runs.values()) + " |")
    found = [{check["id"]: check for check in run["checks"]} for run in runs.values()]
    for check in CHECKS:
        row = [checks.get(check.id) for checks in found]
        if any(entry is None or entry["outcome"] != "pass" for entry in row):
            lines.append(f"| {check.id} {cell(check.title)} | " + " | ".join(map(outcome_of, row)) + " |")
    return "\n".join(lines)


def outcome_of(check: dict[str, Any] | None) -> str:
    """One cell of the table."""
    if check is None:
        return "not run"
    if check["outcome"] == "pass":
        return "pass"
    detail = check["detail"] if len(check["detail"]) <= DETAIL_LENGTH else check["detail"][:DETAIL_LENGTH] + " ..."
    # Ids and ports differ from run to run and say nothing.
    detail = re.sub(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", "...", detail)
    return f"{'**fail**' if check['outcome'] == 'fail' else 'undecided'}: {cell(detail)}"


def cell(text: str) -> str:
    """Text as it stands in a table."""
    return "".join(char if char.isprintable() else " " for char in text).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def main() -> None:
    """Rewrites one part of the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["list", "results"])
    parser.add_argument("runs", nargs="*", help="NAME=FILE.json")
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    if options.part == "list":
        content = list_markdown(CHECKS)
    else:
        pairs = [run.partition("=") for run in options.runs]
        runs = {name: msgspec.json.decode(Path(path).read_bytes()) for name, _, path in pairs}
        content = f"{results(runs)}\n\nMeasured on {time.strftime('%Y-%m-%d')}. {options.note}"
    DOCUMENT.write_text(replaced(DOCUMENT.read_text(), options.part, content))


if __name__ == "__main__":
    main()
