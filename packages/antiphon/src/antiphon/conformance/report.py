"""What a run found, as text, JSON, JUnit XML and Markdown."""

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

import msgspec
from rich.console import Console
from rich.table import Table

from antiphon.conformance.registry import SURFACES
from antiphon.conformance.verdict import Check, Verdict

Decided = Sequence[tuple[Check, Verdict]]
_MARKS = {"pass": "[green]pass[/]", "fail": "[bold red]FAIL[/]", "undecided": "[yellow]undecided[/]"}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run: which server, how its model was steered, the verdicts, and how long it took in seconds."""

    url: str
    model: str
    mode: str
    decided: Decided
    seconds: float

    def counts(self) -> dict[str, int]:
        """How many checks had which outcome."""
        found = Counter(verdict.outcome for _, verdict in self.decided)
        return {outcome: found[outcome] for outcome in ("pass", "fail", "undecided")}

    def summary(self) -> str:
        """The counts in one line."""
        found = self.counts()
        return f"{found['pass']} passed, {found['fail']} failed, {found['undecided']} undecided in {self.seconds:.1f} s"


def show(run: Run, console: Console) -> None:
    """The table for people. What passed needs no words; the rest says what was wrong and who breaks."""
    table = Table(title=f"{run.url}, model {run.model}, steered by {run.mode}", title_justify="left", expand=False)
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("what", overflow="fold")
    for letter, surface in SURFACES.items():
        rows = [(check, verdict) for check, verdict in run.decided if check.id.startswith(letter)]
        if rows:
            table.add_section()
            table.add_row("", "", f"[bold]{surface}[/]")
        if len({verdict for _, verdict in rows}) == 1 and rows and rows[0][1].outcome == "undecided":
            table.add_row(f"{letter}..", _MARKS["undecided"], f"{len(rows)} checks: {_plain(rows[0][1].detail)}")
            continue
        for check, verdict in rows:
            table.add_row(check.id, _MARKS[verdict.outcome], _what(check, verdict))
    console.print(table)
    console.print(run.summary(), highlight=False)


def _what(check: Check, verdict: Verdict) -> str:
    title, detail = _plain(check.title), _plain(verdict.detail)
    if verdict.outcome == "pass":
        return title
    if verdict.outcome == "undecided":
        return f"{title}\n[dim]{detail}[/]"
    return f"{title}\n{detail}\n[dim]{_plain(check.why)} ({', '.join(check.breaks)})[/]"


def _plain(text: str) -> str:
    """Text of a server as it is, no part of it read as markup."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text).replace("[", "\\[")


def as_json(run: Run) -> bytes:
    """The run for programs."""
    results = [{**_entry(check), "outcome": verdict.outcome, "detail": verdict.detail} for check, verdict in run.decided]
    head = {"url": run.url, "model": run.model, "steered_by": run.mode, "seconds": round(run.seconds, 3), "counts": run.counts()}
    return msgspec.json.format(msgspec.json.encode({**head, "checks": results}), indent=2) + b"\n"


def _entry(check: Check) -> dict[str, object]:
    return {"id": check.id, "title": check.title, "why": check.why, "breaks": list(check.breaks)}


def as_junit(run: Run) -> bytes:
    """The run as JUnit XML: undecided checks are skipped ones."""
    found = run.counts()
    attributes = {
        "name": "antiphon check",
        "tests": str(len(run.decided)),
        "failures": str(found["fail"]),
        "skipped": str(found["undecided"]),
    }
    suite = ElementTree.Element("testsuite", {**attributes, "time": f"{run.seconds:.3f}"})
    for check, verdict in run.decided:
        case = ElementTree.SubElement(suite, "testcase", {"classname": SURFACES[check.id[0]], "name": f"{check.id} {check.title}"})
        detail = "".join(char for char in verdict.detail if char.isprintable())
        if verdict.outcome == "fail":
            ElementTree.SubElement(case, "failure", {"message": detail}).text = f"{check.why} ({', '.join(check.breaks)})"
        elif verdict.outcome == "undecided":
            ElementTree.SubElement(case, "skipped", {"message": detail})
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def list_markdown(checks: Sequence[Check]) -> str:
    """The list of checks for a document, one table a surface."""
    lines: list[str] = []
    for letter, surface in SURFACES.items():
        rows = [check for check in checks if check.id.startswith(letter)]
        if rows:
            lines += [f"### {surface}", "", "| | check | why | breaks |", "|---|---|---|---|"]
            lines += [f"| {check.id} | {_cell(check.title)} | {_cell(check.why)} | {', '.join(check.breaks)} |" for check in rows]
            lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text).replace("|", "\\|").replace("<", "&lt;")
