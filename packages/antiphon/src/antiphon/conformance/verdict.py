"""Checks and verdicts: a judge says nothing if all is well, raises Broken with what is wrong, or Unclear with why it cannot tell."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from antiphon.conformance.exchange import Exchange

Outcome = Literal["pass", "fail", "undecided"]
Judge = Callable[..., None]

CLAUDE_CODE, CODEX, OPENCODE, PI, OPENCLAW = "Claude Code", "Codex", "OpenCode", "pi", "OpenClaw"
SDK_ANTHROPIC, SDK_OPENAI, AGENTS = "anthropic SDK", "openai SDK", "openai-agents"
EVERYONE = "every client"

_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)


class Broken(Exception):
    """The server did something a client breaks on."""


class Unclear(Exception):
    """What was seen does not decide the check."""


class Verdict(msgspec.Struct, frozen=True):
    """`detail` says what was wrong, or why it could not be told; "" for a pass."""

    outcome: Outcome
    detail: str = ""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered check. `asks` name the exchanges that the judge gets, in its order of arguments."""

    id: str
    title: str
    why: str
    breaks: tuple[str, ...]
    asks: tuple[str, ...]
    judge: Judge

    def decide(self, exchanges: Mapping[str, "Exchange"]) -> Verdict:
        """Judges recorded exchanges. Never raises: an answer the judge cannot read is a failure."""
        missing = [name for name in self.asks if name not in exchanges]
        if missing:
            return Verdict("undecided", f"not asked: {', '.join(missing)}")
        try:
            self.judge(*(exchanges[name] for name in self.asks))
        except Broken as broken:
            return Verdict("fail", str(broken))
        except Unclear as unclear:
            return Verdict("undecided", str(unclear))
        except KeyError as error:
            return Verdict("fail", f"the answer has no field {error}")
        except _UNREADABLE as error:
            return Verdict("fail", f"the answer does not have the expected form: {type(error).__name__}: {error}")
        return Verdict("pass")


def require(condition: object, message: str) -> None:
    """Raises Broken unless the condition holds."""
    if not condition:
        raise Broken(message)


def equal(found: Any, expected: Any, what: str) -> None:
    """Raises Broken unless both are equal."""
    require(found == expected, f"{what}: {_short(found)} instead of {_short(expected)}")


def known(condition: object, message: str) -> None:
    """Raises Unclear unless the condition holds."""
    if not condition:
        raise Unclear(message)


def checker(checks: list[Check]) -> Callable[..., Callable[[Judge], Judge]]:
    """A decorator that adds a judge to `checks`, with its number, text and the asks it needs."""

    def check(number: str, title: str, *, why: str, breaks: Sequence[str], asks: Sequence[str]) -> Callable[[Judge], Judge]:
        def add(judge: Judge) -> Judge:
            checks.append(Check(id=number, title=title, why=why, breaks=tuple(breaks), asks=tuple(asks), judge=judge))
            return judge

        return add

    return check


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 240 else text[:240] + "..."
