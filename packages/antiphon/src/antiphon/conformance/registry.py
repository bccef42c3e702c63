"""Every check and every ask of the kit, by number and by name."""

from collections.abc import Mapping, Sequence

from antiphon.conformance import (
    catalog,
    chat_asks,
    chat_requests,
    chat_stream,
    chat_turns,
    cross,
    messages_asks,
    messages_requests,
    messages_stream,
    messages_turns,
    responses_asks,
    responses_requests,
    responses_stream,
    responses_turns,
)
from antiphon.conformance.asks import Ask
from antiphon.conformance.exchange import Exchange
from antiphon.conformance.verdict import Check, Verdict
from antiphon_turns.errors import ConfigError

SURFACES = {"M": "Messages", "R": "Responses", "C": "Chat Completions", "K": "Catalog", "X": "All surfaces"}
_ALL: tuple[Check, ...] = (
    *messages_stream.CHECKS,
    *messages_turns.CHECKS,
    *messages_requests.CHECKS,
    *responses_stream.CHECKS,
    *responses_turns.CHECKS,
    *responses_requests.CHECKS,
    *chat_stream.CHECKS,
    *chat_turns.CHECKS,
    *chat_requests.CHECKS,
    *catalog.CHECKS,
    *cross.CHECKS,
)
CHECKS = tuple(sorted(_ALL, key=lambda check: ([*SURFACES].index(check.id[0]), check.id)))
ASKS: Mapping[str, Ask] = {ask.name: ask for ask in (*messages_asks.ASKS, *responses_asks.ASKS, *chat_asks.ASKS, *catalog.ASKS)}
# A surface whose plainest request has one of these statuses is not there.
_ABSENT = (404, 405, 501)
_PROBES = {"M": "m.text", "R": "r.text", "C": "c.text"}


def select(wanted: Sequence[str]) -> tuple[Check, ...]:
    """The checks whose number begins with one of `wanted`; all without. Raises ConfigError for one that fits none."""
    for prefix in wanted:
        if not any(check.id.startswith(prefix.upper()) for check in CHECKS):
            raise ConfigError(f"no check has a number that begins with {prefix!r}; `antiphon check --list` shows them")
    return tuple(check for check in CHECKS if not wanted or check.id.startswith(tuple(prefix.upper() for prefix in wanted)))


def asks_of(checks: Sequence[Check]) -> tuple[Ask, ...]:
    """The asks that the checks need, with what those come after, and the plainest one of each surface."""
    names: dict[str, None] = {}

    def add(name: str) -> None:
        for before in ASKS[name].after:
            add(before)
        names.setdefault(name)

    for check in checks:
        if check.id[0] in _PROBES:
            add(_PROBES[check.id[0]])
        for name in check.asks:
            add(name)
    return tuple(ASKS[name] for name in names)


def decide(checks: Sequence[Check], exchanges: Mapping[str, Exchange]) -> list[tuple[Check, Verdict]]:
    """Every check's verdict. Checks of a surface that the server does not have are undecided."""
    absent = {}
    for letter, probe in _PROBES.items():
        if probe in exchanges and exchanges[probe].status in _ABSENT:
            absent[letter] = Verdict("undecided", f"the server has no {exchanges[probe].path} ({exchanges[probe].status})")
    return [(check, absent.get(check.id[0]) or check.decide(exchanges)) for check in checks]
