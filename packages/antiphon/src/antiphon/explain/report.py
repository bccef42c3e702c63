"""Explanations as plain data for the inspector, `antiphon explain` and its `--json`: bounded, and complete in itself."""

import msgspec

from antiphon.cache_watch import Watched
from antiphon.explain.advice import ADVICE
from antiphon.explain.causes import SENTENCES
from antiphon.explain.composition import Part
from antiphon.explain.explanation import Explanation, trimmed


class CauseRow(msgspec.Struct, frozen=True, kw_only=True):
    """One cause: its code, where in the prompt (`message`, `block` and `line` as numbers, `place` in words), and what it is in words.
    `detail` quotes at most a line of either side."""

    code: str
    place: str
    sentence: str
    advice: str
    detail: str = ""
    message: int | None = None
    block: int | None = None
    line: int | None = None


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `at` is Unix time in seconds. Numbers are tokens, named as in `Explanation`. `parts` is what the prompt
    is made of, told for the newest one of an answer, where the server still holds it."""

    request_id: str
    at: float
    surface: str
    session: str | None
    prompt_tokens: int
    expected_tokens: int
    shared_tokens: int
    lost_tokens: int
    cached_tokens: int | None
    causes: tuple[CauseRow, ...]
    parts: tuple[Part, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The latest requests of a tenant, the newest last."""

    model: str
    requests: tuple[RequestRow, ...]


def cause_rows(found: Explanation) -> tuple[CauseRow, ...]:
    """The first causes in words."""
    return tuple(
        CauseRow(
            code=cause.code,
            place=cause.place,
            sentence=SENTENCES[cause.code],
            advice=ADVICE[cause.code],
            detail=cause.detail,
            message=cause.message,
            block=cause.block,
            line=cause.line,
        )
        for cause in trimmed(found).causes
    )


def request_row(watched: Watched, parts: tuple[Part, ...] = ()) -> RequestRow:
    """A watched request as data."""
    found: Explanation = watched.explanation
    return RequestRow(
        request_id=watched.request_id,
        at=watched.at,
        surface=watched.surface,
        session=watched.session,
        prompt_tokens=found.prompt_tokens,
        expected_tokens=found.expected_tokens,
        shared_tokens=found.shared_tokens,
        lost_tokens=found.lost_tokens,
        cached_tokens=found.cached_tokens,
        causes=cause_rows(found),
        parts=parts,
    )
