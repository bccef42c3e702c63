"""What an examination finds."""

from typing import Literal

import msgspec

Verdict = Literal["ok", "warning", "failed"]


class Finding(msgspec.Struct, frozen=True):
    """One line: what was looked at, how it is, and, where it is not well, what to do."""

    check: str
    verdict: Verdict
    says: str
    advice: str = ""


def ok(check: str, says: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", says)


def warning(check: str, says: str, advice: str) -> Finding:
    """It works, and something is worth doing."""
    return Finding(check, "warning", says, advice)


def failed(check: str, says: str, advice: str) -> Finding:
    """It cannot work so."""
    return Finding(check, "failed", says, advice)


def line(finding: Finding) -> str:
    """A finding for people."""
    advice = f" -> {finding.advice}" if finding.advice else ""
    return f"{finding.verdict:<8}{finding.check:<15}{finding.says}{advice}"


def status(findings: "list[Finding]") -> int:
    """The exit status: 1 when something failed."""
    return int(any(finding.verdict == "failed" for finding in findings))
